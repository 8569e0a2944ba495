#!/usr/bin/env python3
"""redis-cli (one command, a pipe, interactive on a terminal) and redis-benchmark (by default and with CL.THROTTLE)
against the RESP port."""
import csv
import os
import re
import select
import subprocess
import termios
import time

import harness
import resp_server
from wire import Http, Resp, command

PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("REDISCLI")}


def cli(server, *args, token=resp_server.TOKEN, given=None):
    """What redis-cli prints into a pipe, and its exit code."""
    host, port = server.resp
    login = ["-a", token, "--no-auth-warning"] if token else []
    done = subprocess.run(["redis-cli", "-h", host, "-p", str(port), *login, *args], env=PLAIN, input=given,
                          stdin=None if given is not None else subprocess.DEVNULL, capture_output=True,
                          timeout=harness.PATIENCE_S, check=False)
    return (done.stdout + done.stderr).decode(), done.returncode


class Terminal:
    """redis-cli as a person has it in front of them."""

    PROMPT = re.compile(r"(?:\A|\n)127\.0\.0\.1:\d+> \Z")  # a fresh one: while one types it is drawn anew in its line

    def __init__(self, server):
        host, port = server.resp
        self.leader, follower = os.openpty()
        termios.tcsetwinsize(follower, (24, 200))
        environment = {**PLAIN, "TERM": "xterm", "REDISCLI_HISTFILE": "/dev/null", "HOME": "/nonexistent"}
        self.process = subprocess.Popen(["redis-cli", "-h", host, "-p", str(port), "-a", resp_server.TOKEN,
                                         "--no-auth-warning"], stdin=follower, stdout=follower, stderr=follower,
                                        env=environment)
        os.close(follower)

    def read(self, until):
        text = ""
        deadline = time.monotonic() + harness.PATIENCE_S
        while not until(text):
            assert time.monotonic() < deadline, f"redis-cli on a terminal said only {text!r}"
            if select.select([self.leader], [], [], 1)[0]:
                try:
                    text += os.read(self.leader, 65_536).decode()
                except OSError:  # the terminal's last writer has gone
                    break
        return text

    def prompt(self):
        """Everything up to the next prompt."""
        return self.read(self.PROMPT.search).replace("\r\n", "\n")

    def type(self, line):
        os.write(self.leader, (line + "\r").encode())

    def close(self):
        self.type("quit")
        self.read(lambda _: False)
        os.close(self.leader)
        return self.process.wait(harness.PATIENCE_S)


class RedisCli(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(resp_server.running())

    def test_one_command(self):
        version = subprocess.run(["redis-cli", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        self.assertEqual(cli(self.server, "PING"), ("PONG\n", 0))
        self.assertEqual(cli(self.server, "CL.THROTTLE", "cli", "15", "30", "60"), ("0\n16\n15\n-1\n2\n", 0))
        self.assertEqual(cli(self.server, "--no-raw", "CL.THROTTLE", "cli", "15", "30", "60", "16"),
                         ("1) (integer) 1\n2) (integer) 16\n3) (integer) 15\n4) (integer) 2\n5) (integer) 2\n", 0))
        lines = ["(integer) 0", '"never"', "(integer) 20", "(integer) 20", "(nil)", *["(integer) 0"] * 3, *["(nil)"] * 4,
                 "(integer) 0", "(integer) 1"]
        shown = "".join(f"{number:2}) {line}\n" for number, line in enumerate(lines, 1))
        for protocol in ("-2", "-3"):
            self.assertEqual(cli(self.server, protocol, "--no-raw", "PEN.CHECK", "api", "1", "user", "cli", "COST", "21"),
                             (shown, 0))
        self.assertEqual(cli(self.server, "-e", "PEN.CHECK", "nowhere", "0")[1], 1)
        self.assertIn("NOTFOUND ", cli(self.server, "PEN.CHECK", "nowhere", "0")[0])
        print(f"{version}: one command at a time")

    def test_token(self):
        self.assertIn("NOAUTH ", cli(self.server, "PING", token=None)[0])
        self.assertIn("WRONGPASS ", cli(self.server, "PING", token="wrong")[0])
        # The token alone counts, whatever the user is called.
        self.assertEqual(cli(self.server, "--user", "default", "PING"), ("PONG\n", 0))
        self.assertEqual(cli(self.server, "--user", "a-service", "PING"), ("PONG\n", 0))

    def test_script_on_standard_input(self):
        text, code = cli(self.server, given=b"PING\nCL.THROTTLE stdin 15 30 60\nNONSENSE\nPING\n")
        self.assertEqual(code, 0)
        self.assertRegex(text, r"\APONG\n0\n16\n15\n-1\n2\n(\n)?ERR unknown command 'NONSENSE'.*\n+PONG\n\Z")

    def test_mass_insertion(self):
        text, code = cli(self.server, "--pipe", given=command("CL.THROTTLE", "pipe", 15, 30, 60) * 5_000)
        self.assertEqual(code, 0, text)
        self.assertIn("errors: 0, replies: 5000", text)
        self.assertEqual(cli(self.server, "CL.THROTTLE", "pipe", "15", "30", "60", "0")[0], "0\n16\n0\n-1\n32\n")

    def test_terminal(self):
        terminal = Terminal(self.server)
        terminal.prompt()
        terminal.type("CL.THROTTLE terminal 15 30 60")
        self.assertIn("1) (integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n5) (integer) 2\n",
                      terminal.prompt())
        terminal.type("hello 3")
        self.assertIn('1# "server" => "', terminal.prompt())
        terminal.type("PEN.CHECK api 1 user terminal")
        self.assertIn(' 2) "allowed"\n', terminal.prompt())
        terminal.type("get x")
        self.assertIn("(error) ERR unknown command 'get'", terminal.prompt())
        terminal.type("client setname me")
        self.assertIn("OK", terminal.prompt())
        terminal.type("help cl.throttle")
        self.assertIn("key max_burst count period [quantity]", terminal.prompt())
        self.assertEqual(terminal.close(), 0)


class RedisBenchmark(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(resp_server.running())

    def benchmark(self, *args):
        """Requests a second by test name; anything that is not a result fails."""
        host, port = self.server.resp
        done = subprocess.run(["redis-benchmark", "-h", host, "-p", str(port), "-a", resp_server.TOKEN, "--csv", *args],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=harness.PATIENCE_S,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "", "it warned, perhaps of CONFIG GET")
        rows = list(csv.DictReader(done.stdout.splitlines()))
        return {row["test"]: float(row["rps"]) for row in rows}

    def asked(self):
        with Http(self.server.http) as http:
            text = http.ask("GET", "/metrics", headers=[("Authorization", "Bearer " + resp_server.TOKEN)]).body.decode()
        return int(re.search(r"^penstock_requests_total (\d+)$", text, re.M).group(1))

    def test_as_it_starts_by_default(self):
        """It asks CONFIG GET save and appendonly before it measures."""
        results = self.benchmark("-t", "ping", "-n", "10000")
        self.assertEqual(sorted(results), ["PING_INLINE", "PING_MBULK"])

    def test_throttle(self):
        for pipeline in (1, 32):
            before = self.asked()
            results = self.benchmark("-c", "50", "-r", "100000", "-n", "20000", "-P", str(pipeline), "CL.THROTTLE",
                                     "user:__rand_int__", "15", "30", "60")
            self.assertEqual(list(results), ["CL.THROTTLE user:__rand_int__ 15 30 60"])
            # With a pipeline it sends whole pipelines, up to one a client more than asked for.
            self.assertIn(self.asked() - before, range(20_000, 20_000 + 50 * pipeline))

    def test_config_get(self):
        with Resp(self.server.resp) as resp:
            self.assertEqual(resp.ask("AUTH", resp_server.TOKEN), "OK")
            self.assertEqual(resp.ask("CONFIG", "GET", "save"), ["save", ""])
            self.assertEqual(resp.ask("CONFIG", "GET", "appendonly"), ["appendonly", "no"])


if __name__ == "__main__":
    harness.main()
