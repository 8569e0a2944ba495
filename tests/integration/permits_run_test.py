#!/usr/bin/env python3
"""`penstock run`: a permit is held while a command runs, and given back however it ends. Against `penstock serve` with its
memory engine.

Who judges that never more than N run: intervals that the commands note themselves, by the machine's monotonic clock."""
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import harness
import permits_intervals
from port import Port
from wire import Http

POLICY = """
domains:
  five: {limits: [{name: jobs, permits: 5, lease: 30s}]}
  one: {limits: [{name: jobs, permits: 1, lease: 30s}]}
  short: {limits: [{name: jobs, permits: 1, lease: 3s}]}
  rates: {limits: [{name: jobs, key: [user], rate: 10/h}]}
"""
# Tells by the names of files what has happened to it; ends after USR2, when what it was telling is told: an exit out of the
# handler would be raised in the middle of that, and there it may be lost.
COMMAND = """
import os, signal, sys, time
def note(name):
    open(os.path.join(sys.argv[1], name), "a").write("x")
for name in sys.argv[2:]:
    signal.signal(getattr(signal, "SIG" + name), lambda number, frame, name=name: note(name))
ended = []
signal.signal(signal.SIGUSR2, lambda number, frame: ended.append(True))
note("runs")
while not ended:
    time.sleep(0.01)
sys.exit(7)
"""


class Case(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.policy = self.write("p.yaml", POLICY)
        self.port = Port()
        self.addCleanup(self.port.close)
        self.server = None
        self.serve()
        self.addCleanup(lambda: self.server.stop())
        self.url = f"http://127.0.0.1:{self.server.http[1]}"

    def serve(self):
        """On the same port each time."""
        self.server = harness.penstock("--policy", self.policy, "--http", f"127.0.0.1:{self.port.number}")

    def command_line(self, *args):
        return [str(part) for part in (harness.program("penstock"), "run", "--server", self.url, *args)]

    def run_it(self, code, *args):
        """To its end; what it said."""
        done = subprocess.run(self.command_line(*args), env=harness.environment(), capture_output=True, text=True,
                              timeout=harness.PATIENCE_S, start_new_session=True, check=False)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def start(self, *args, tells=()):
        """COMMAND under run, without a terminal; once it runs."""
        process = subprocess.Popen(
            self.command_line(*args, "--", sys.executable, "-c", COMMAND, self.folder, *tells), env=harness.environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_told("runs")
        return process

    def wait_told(self, name):
        harness.wait_for((self.folder / name).exists, lambda: f"{name} never came: {sorted(self.folder.iterdir())}")

    def end(self, process):
        """Its exit code and what it said."""
        said, _ = process.communicate(timeout=harness.PATIENCE_S)
        return process.returncode, said

    def in_use(self, domain):
        with Http(self.server.http) as http:
            return http.ask("GET", f"/v1/limits/{domain}/jobs/holders").json()["in_use"]

    def take_away(self, domain):
        """What an operator does: DELETE holders."""
        with Http(self.server.http) as http:
            response = http.ask("DELETE", f"/v1/limits/{domain}/jobs/holders?holder=victim")
            self.assertEqual((response.status, response.json()["released"]), (200, 1), response)


class TheCommand(Case):
    def test_passes_its_code_and_output_on_and_gives_back(self):
        self.assertEqual(self.run_it(0, "one", "--", "echo", "hello", "--", "-x"), ("hello -- -x\n", ""))
        self.run_it(42, "one", "--", "sh", "-c", "exit 42")
        self.run_it(128 + signal.SIGKILL, "one", "--", "sh", "-c", "kill -KILL $$")
        self.run_it(128 + signal.SIGTERM, "one", "--", "sh", "-c", "kill -TERM $$")
        self.assertIn("no-such-command", self.run_it(127, "one", "--", "no-such-command")[1])
        self.run_it(126, "one", "--", self.write("plain", "no program"))
        self.assertEqual(self.in_use("one"), 0)

    def test_knows_its_permit(self):
        out, _ = self.run_it(0, "one", "--", "sh", "-c", 'echo "$PENSTOCK_PERMIT $PENSTOCK_FENCE"')
        self.assertRegex(out, r"^[A-Za-z0-9_-]{60} \d{16,}\n$")
        out, _ = self.run_it(0, "one", "--holder", "me", "--", "sh", "-c",
                             f"{harness.program('penstock')} holders one jobs --server {self.url}")
        self.assertRegex(out, r"1 of 1 in use\n.*, me\n")

    def test_refused_or_unasked_it_does_not_run(self):
        ran = self.folder / "ran"
        held = self.start("one")
        self.assertIn("denied", self.run_it(1, "one", "--", "touch", ran)[1])
        self.assertIn("denied", self.run_it(1, "one", "--wait", "50ms", "--", "touch", ran)[1])
        self.assertIn("never", self.run_it(1, "one", "--weight", "2", "--", "touch", ran)[1])
        self.run_it(2, "apx", "--", "touch", ran)
        self.assertIn("no limit applies", self.run_it(2, "rates", "--", "touch", ran)[1])
        self.run_it(2, "one")
        self.run_it(2, "one", "--")
        self.run_it(2, "one", "--on-loss", "weep", "--", "touch", ran)
        self.run_it(2, "one", "--grace", "ages", "--", "touch", ran)
        held.send_signal(signal.SIGUSR2)
        self.assertEqual(self.end(held), (7, ""))
        self.server.stop()
        self.run_it(3, "one", "--", "touch", ran)
        self.assertFalse(ran.exists())

    def test_without_permits_it_runs_and_says_so(self):
        out, said = self.run_it(0, "rates", "user=1", "--", "echo", "runs")
        self.assertEqual(out, "runs\n")
        self.assertIn("none of the limits that apply has permits", said)

    def test_a_semaphore_without_a_policy(self):
        self.run_it(0, "--key", "k", "--permits", "1", "--lease", "2s", "--", "sleep", "4")

    def test_longer_than_its_lease(self):
        process = self.start("short")
        began = time.monotonic()
        harness.wait_for(lambda: self.in_use("short") == 1 and time.monotonic() > began + 7)
        process.send_signal(signal.SIGUSR2)
        self.assertEqual(self.end(process), (7, ""))
        self.assertEqual(self.in_use("short"), 0)


class Signals(Case):
    def test_are_passed_on(self):
        names = ("HUP", "INT", "QUIT", "USR1", "ALRM", "TERM")
        process = self.start("one", tells=names)
        for name in names:
            process.send_signal(getattr(signal, "SIG" + name))
            self.wait_told(name)
        process.send_signal(signal.SIGUSR2)
        self.assertEqual(self.end(process), (7, ""))
        self.assertEqual([(self.folder / name).read_text() for name in names], ["x"] * len(names), "each once")

    def test_term_ends_all_that_the_command_started(self):
        pid = self.folder / "pid"
        process = self.start("one")
        process.send_signal(signal.SIGUSR2)
        self.end(process)
        process = subprocess.Popen(self.command_line("one", "--", "sh", "-c", f"sleep 1000 & echo $! >{pid}; wait; true"),
                                   env=harness.environment(), start_new_session=True)
        harness.wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
        process.terminate()
        self.assertEqual(process.wait(harness.PATIENCE_S), 128 + signal.SIGTERM)
        harness.wait_for(lambda: not Path(f"/proc/{int(pid.read_text())}/cmdline").exists()
                         or b"sleep" not in Path(f"/proc/{int(pid.read_text())}/cmdline").read_bytes())
        self.assertEqual(self.in_use("one"), 0)

    def test_what_was_ignored_stays_so(self):
        line = subprocess.list2cmdline(self.command_line("one", "--", "sh", "-c", "kill -HUP $PPID; kill -HUP $$; exit 5"))
        done = subprocess.run(["sh", "-c", f"trap '' HUP; exec {self.command_line()[0]} run --server {self.url} one -- "
                               "sh -c 'kill -HUP $PPID; kill -HUP $$; exit 5'"], env=harness.environment(), check=False,
                              timeout=harness.PATIENCE_S, start_new_session=True)
        self.assertEqual(done.returncode, 5, line)

    def test_ctrl_c_at_a_terminal_comes_once_and_ctrl_z_stops_both(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(harness.program("penstock"), self.command_line(
                "one", "--", sys.executable, "-c", COMMAND, self.folder, "INT", "CONT"), harness.environment())
        self.addCleanup(os.close, terminal)
        self.wait_told("runs")
        os.write(terminal, b"\x03")
        self.wait_told("INT")
        os.kill(pid, signal.SIGUSR2)
        statuses = []

        def ended():
            done, status = os.waitpid(pid, os.WNOHANG)
            statuses.extend([status] if done else [])
            return statuses
        harness.wait_for(ended)
        self.assertEqual(os.waitstatus_to_exitcode(statuses[0]), 7)
        self.assertEqual((self.folder / "INT").read_text(), "x")
        self.assertEqual(self.in_use("one"), 0)


class Loss(Case):
    def test_taken_away_it_warns(self):
        process = self.start("short", "--holder", "victim", tells=("TERM",))
        self.take_away("short")
        line = process.stdout.readline()
        self.assertRegex(line, "the permit is lost: .*; the command goes on without")
        self.assertFalse((self.folder / "TERM").exists())
        process.send_signal(signal.SIGUSR2)
        self.assertEqual(self.end(process)[0], 7)

    def test_taken_away_it_kills(self):
        process = self.start("short", "--holder", "victim", "--on-loss", "kill")
        self.take_away("short")
        code, said = self.end(process)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertRegex(said, "the permit is lost: .*; the command is ended")

    def test_a_command_that_hears_nothing_of_term_is_killed_after_the_grace(self):
        process = self.start("short", "--holder", "victim", "--on-loss", "kill", "--grace", "200ms", tells=("TERM",))
        self.take_away("short")
        code, said = self.end(process)
        self.assertEqual(code, 128 + signal.SIGKILL)
        self.assertTrue((self.folder / "TERM").exists())
        self.assertIn("is killed", said)

    def test_the_server_is_gone_for_good(self):
        for on_loss, code in (("kill", 128 + signal.SIGTERM), ("warn", 7)):
            with self.subTest(on_loss):
                (self.folder / "runs").unlink(missing_ok=True)
                process = self.start("short", "--on-loss", on_loss)
                self.server.kill()
                self.assertRegex(process.stdout.readline(), "the permit is lost: it could not be renewed in time, cannot ask")
                if on_loss == "warn":
                    process.send_signal(signal.SIGUSR2)
                self.assertEqual(self.end(process)[0], code)
                self.serve()

    def test_the_server_is_gone_for_a_moment(self):
        """Frozen, for its memory is its engine's: shorter than the lease."""
        process = self.start("one", "--lease", "10s", "--on-loss", "kill")
        self.server.signal(signal.SIGSTOP)
        time.sleep(4)  # a renewal is due after a third of it
        self.server.signal(signal.SIGCONT)
        began = time.monotonic()
        harness.wait_for(lambda: time.monotonic() > began + 10 and self.in_use("one") == 1)
        process.send_signal(signal.SIGUSR2)
        self.assertEqual(self.end(process), (7, ""))

    def test_killed_itself_its_permit_comes_back_and_with_kill_the_command_ends(self):
        for on_loss in ("kill", "warn"):
            with self.subTest(on_loss):
                (self.folder / "runs").unlink(missing_ok=True)
                process = self.start("short", "--on-loss", on_loss)
                command = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
                self.addCleanup(lambda pid=command: Path(f"/proc/{pid}").exists() and os.kill(pid, signal.SIGKILL))
                process.kill()
                process.wait()
                harness.wait_for(lambda: self.in_use("short") == 0)
                if on_loss == "kill":
                    harness.wait_for(lambda pid=command: not Path(f"/proc/{pid}").exists()
                                     or " Z " in Path(f"/proc/{pid}/stat").read_text())
                else:
                    os.kill(command, 0)


class Many(Case):
    def test_ten_processes_never_run_more_than_five_at_once(self):
        log = self.folder / "intervals"
        run = self.command_line("five", "--wait", "60s")
        processes = [subprocess.Popen(["sh", "-c", permits_intervals.loop(run, 5, log)], env=harness.environment(),
                                      start_new_session=True) for _ in range(10)]
        for process in processes:
            self.assertEqual(process.wait(harness.PATIENCE_S), 0)
        intervals = permits_intervals.read(log)
        self.assertEqual(len(intervals), 50)
        self.assertLessEqual(permits_intervals.most_at_once(intervals), 5)
        self.assertEqual(self.in_use("five"), 0)

    def test_the_judge_can_tell(self):
        self.assertEqual(permits_intervals.most_at_once([(0, 10), (5, 15), (9, 11), (15, 16)]), 3)


if __name__ == "__main__":
    harness.main()
