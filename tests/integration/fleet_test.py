#!/usr/bin/env python3
"""`./dev fleet` by tools/fleet.py: what `--check` prints is what the README shows, and whatever ends the fleet ends all of
it. Where nothing has to be shared the nodes get an engine each: then `--check` must find out that they share nothing."""
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import harness
import redis_fleet

SCRIPT = harness.ROOT / "tools" / "fleet.py"
MARK = "<!-- test: fleet -->\n```console\n$ ./dev fleet --check\n"
# What differs from run to run: ports, the time until a bucket is unused, who of the fleet's members has what is over when ten
# are shared by three, and what the worker has done.
PORT = re.compile(r"(127\.0\.0\.1):(\d+)")
MOVING = re.compile(r'("reset_after_ms":|\b(?:done|busy|unasked)=)\d+')
SHARE = re.compile(r'"limit":\d+,"remaining":\d+')

# The example in Go, where there is Go.
PICTURES = ("pictures",) if shutil.which("go") else ()

APART = """#!/bin/sh
# The nodes' arguments, but for policy and engine.
exec {program} serve --policy {policy} --engine memory: {kept}
"""


class Running:
    """tools/fleet.py, and the lines that it prints."""

    def __init__(self, *args):
        self.process = subprocess.Popen([*redis_fleet.WITH_US, sys.executable, SCRIPT, *map(str, args)],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.printed = []
        self.all_shown = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.printed.append(line)
            if line.startswith("Ctrl-C stops"):
                self.all_shown.set()
        self.all_shown.set()

    def until_shown(self):
        assert self.all_shown.wait(harness.PATIENCE_S), self.text()
        assert self.process.poll() is None, self.text()

    def text(self):
        return "".join(self.printed)

    def wait(self):
        """Its exit code."""
        code = self.process.wait(harness.PATIENCE_S)
        self.reader.join(harness.PATIENCE_S)
        self.process.stdout.close()
        return code


class Case(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.place = self.folder / "fleet"

    def start(self, *args, program=None):
        running = Running("--penstock", program or harness.program("penstock"), "--folder", self.place, *args)
        self.addCleanup(running.wait)
        self.addCleanup(running.process.terminate)
        return running

    def started(self):
        """The programs that this fleet started: process id by command line."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or not any(str(self.place) in os.readlink(entry / "fd" / fd) for fd in "12"):
                    continue
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it has ended, or is not ours
                continue
            found[int(entry.name)] = command
        return found

    def gone(self):
        harness.wait_for(lambda: not self.started(), lambda: f"still there: {self.started()}")


class Apart(Case):
    """Nodes with an engine each: what is tested is the starting and the stopping."""

    def setUp(self):
        super().setUp()
        policy = (harness.ROOT / "deploy/policy.yaml").read_text()
        policy = self.write("policy.yaml", re.sub("url: .*", 'url: "memory:"', policy))
        self.program = self.write("penstock", APART.format(program=harness.program("penstock"), policy=policy,
                                                           kept='"$6" "$7" "$8" "$9"'))
        self.program.chmod(0o755)
        # Beside penstock, as in a build.
        (self.folder / "semaphore_worker").symlink_to(harness.program("semaphore_worker"))

    def test_the_check_finds_out(self):
        running = self.start("--check", program=self.program)
        self.assertEqual(running.wait(), 1, running.text())
        self.assertIn("that should have said {'allowed': True, 'remaining': 9, 'degraded': False}, but {'remaining': 10}",
                      running.text())
        self.gone()

    def test_interrupted_it_stops_all(self):
        running = self.start("--nodes", "3", program=self.program)
        running.until_shown()
        names = ("redis", "node-1", "node-2", "node-3", "service", "worker", *PICTURES)
        self.assertEqual(len(self.started()), len(names), self.started())
        for name in names:
            self.assertIn(f"/fleet/{name}.log", running.text())
        os.kill(running.process.pid, signal.SIGINT)
        self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(self.started(), {})
        self.assertIn("ready to exit, bye bye", (self.place / "redis.log").read_text())

    def test_a_frozen_redis_is_stopped_too(self):
        running = self.start(program=self.program)
        running.until_shown()
        pid = int(re.search(r"kill -STOP (\d+)", running.text())[1])
        self.assertIn("redis", self.started()[pid])
        os.kill(pid, signal.SIGSTOP)
        os.kill(running.process.pid, signal.SIGTERM)
        self.assertEqual(running.wait(), 0, running.text())
        self.assertEqual(self.started(), {})

    def test_killed_it_leaves_nothing_behind(self):
        running = self.start(program=self.program)
        running.until_shown()
        running.process.kill()
        running.wait()
        self.gone()

    def test_a_node_that_ends_ends_the_fleet_and_is_named(self):
        running = self.start(program=self.program)
        running.until_shown()
        node = next(pid for pid, command in self.started().items() if "penstock serve" in command)
        os.kill(node, signal.SIGKILL)
        self.assertEqual(running.wait(), 1)
        self.assertRegex(running.text(), r"fleet: node [12] has ended")
        self.assertEqual(self.started(), {})

    def test_a_node_that_does_not_start_says_why(self):
        running = self.start(program=self.write("penstock", "#!/bin/sh\necho no such luck >&2\nexit 3\n"))
        self.assertEqual(running.wait(), 1)
        self.assertIn("fleet: node 1 did not start:\nno such luck", running.text())
        self.gone()

    def test_one_fleet_a_folder(self):
        first = self.start(program=self.program)
        first.until_shown()
        second = self.start(program=self.program)
        self.assertEqual(second.wait(), 1)
        self.assertIn("runs in", second.text())
        self.assertEqual(len(self.started()), 5 + len(PICTURES), "the first goes on")

    def test_two_fleets_side_by_side(self):
        first = self.start(program=self.program)
        first.until_shown()
        self.place = self.folder / "other"
        second = self.start(program=self.program)
        second.until_shown()
        addresses = [set(PORT.findall(running.text())) for running in (first, second)]
        self.assertEqual(addresses[0] & addresses[1], set())


class Together(Case):
    def test_the_check_prints_what_the_readme_shows(self):
        running = self.start("--check")
        self.assertEqual(running.wait(), 0, running.text())
        self.gone()
        self.assertEqual(self.comparable(running.text()), self.comparable(self.shown()))

    def test_a_fleet_of_three(self):
        running = self.start("--check", "--nodes", "3")
        self.assertEqual(running.wait(), 0, running.text())

    @staticmethod
    def shown():
        readme = (harness.ROOT / "README.md").read_text()
        _, found, rest = readme.partition(MARK)
        assert found, f"the README has no {MARK!r}"
        return rest[:rest.index("```")]

    def comparable(self, text):
        """Without what needs Go, where there is none. Ports numbered as they appear, the folder as the README has it, what moves left out."""
        if not PICTURES:
            text = re.sub(r"^(pictures |there is no Go ).*\n", "", text, flags=re.M)
        ports = {}
        text = PORT.sub(lambda found: f"{found[1]}:<{ports.setdefault(found[2], len(ports) + 1)}>", text)
        text = re.sub(r"kill -(STOP|CONT) \d+", r"kill -\1 <redis>", text)
        text = text.replace(str(self.place), "build/fleet")
        lines = [" ".join(line.split()) for line in MOVING.sub(r"\1<moving>", text).splitlines()]
        return [SHARE.sub("<share>", line) if '"degraded":true' in line else line for line in lines]


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    harness.main()
