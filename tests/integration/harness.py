"""Starts the real programs for a test and stops them after it.

    with harness.penstock("--policy", path) as server:        # or harness.testserver(...), whose clock a test moves
        server.http, server.resp                               # (host, port), or None where it is off
        clock = server.clock(); clock.set(us); clock.advance(us)

The programs stand in the folder PENSTOCK_BIN, or build/release of this checkout. Both ports are free ones unless the
arguments say something else. What the server logged is shown when the test fails.
"""
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("PENSTOCK_BIN", ROOT / "build" / "release"))
PATIENCE_S = 60  # nothing that a test waits for takes this long
SKIPPED = 77


def program(name):
    """The path of a program of this build."""
    return BIN / name


def run(*args, program_name="penstock", env=None, timeout=PATIENCE_S, **more):
    """Runs a program to its end; CompletedProcess with text."""
    command = [str(program(program_name))] + [str(arg) for arg in args]
    return subprocess.run(command, env=environment(env), timeout=timeout, capture_output=True, text=True, check=False,
                          **more)


def environment(changes=None):
    """Ours without what would change a server's mind, and with the changes."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    clean.update(changes or {})
    return clean


def address(text):
    """(host, port) of "127.0.0.1:8080" or "[::1]:8080"; None of "off"."""
    if text == "off":
        return None
    host, port = text.rsplit(":", 1)
    return host.strip("[]"), int(port)


class Clock:
    """The clock of a testserver, over its control socket. A move holds for all requests that follow it."""

    def __init__(self, where):
        self.socket = socket.create_connection(where, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rw", newline="\n")

    def _ask(self, line):
        self.file.write(line + "\n")
        self.file.flush()
        return int(self.file.readline())

    def set(self, micros):
        return self._ask(f"SET {micros}")

    def advance(self, micros):
        return self._ask(f"ADVANCE {micros}")

    def now(self):
        return self._ask("NOW")

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """A running server. A context manager that stops it in order, and checks that this went well."""

    WRAPPER = ()  # a command that becomes the program, for subclasses

    def __init__(self, program_name, args, env=None, expect_ready=True):
        command = [*self.WRAPPER, str(program(program_name))] + [str(arg) for arg in args]
        self.log_file = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, env=environment(env), stdout=subprocess.PIPE, stderr=self.log_file,
                                        text=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.ready_line = ""
        self.clocks = []
        if expect_ready:
            self.wait_ready()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def wait_ready(self):
        line = self.lines.get(timeout=PATIENCE_S)
        if line is None or not line.startswith("ready "):
            code = self.process.wait(PATIENCE_S)
            raise AssertionError(f"not ready (exit {code}, said {line!r}):\n{self.log()}")
        self.ready_line = line
        self.ready = dict(part.split("=", 1) for part in line.split()[1:])
        self.http = address(self.ready["http"])
        self.resp = address(self.ready["resp"])

    def clock(self):
        clock = Clock(address(self.ready["control"]))
        self.clocks.append(clock)
        return clock

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        """Everything it wrote to stderr so far."""
        with open(f"/proc/self/fd/{self.log_file.fileno()}", encoding="utf-8", errors="replace") as text:
            return text.read()

    def wait_log(self, words):
        """Until the log has the words."""
        wait_for(lambda: words in self.log(), lambda: f"{words!r} is not in the log:\n{self.log()}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Its exit code, once it has ended."""
        return self.process.wait(PATIENCE_S)

    def stop(self):
        """Stops it in order; the exit code."""
        for clock in self.clocks:
            clock.close()
        self.clocks = []
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self):
        """As a power cut."""
        self.process.kill()
        return self.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        running = self.process.poll() is None
        try:
            code = self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it did not stop:\n{self.log()}") from None
        finally:
            if kind is not None:
                print(f"--- log of {self.ready_line}\n{self.log()}---", file=sys.stderr)
            self.log_file.close()
            self.process.stdout.close()
        if kind is None and running:
            assert code == 0, f"it stopped with {code}"


def wait_for(condition, failure=lambda: "it never came"):
    """Until the condition holds; no test asserts how soon."""
    pause = threading.Event()
    for _ in range(PATIENCE_S * 50):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError(failure())


def _with_free_ports(args):
    args = [str(arg) for arg in args]
    for flag in ("--http", "--resp"):
        if flag not in args:
            args += [flag, "127.0.0.1:0"]
    return args


def penstock(*args, env=None):
    """`penstock serve` as it is shipped."""
    return Server("penstock", ["serve"] + _with_free_ports(args), env)


def testserver(*args, env=None):
    """The same server with a clock that the test moves."""
    return Server("penstock-testserver", _with_free_ports(args), env)


class TestCase(unittest.TestCase):
    """With a folder of its own, and policies in it."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, text):
        """A file in the test's folder; its path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def replace(self, name, text):
        """The same as an editor does it: another file takes the name."""
        path = self.write(name + ".new", text)
        path.rename(self.folder / name)
        return self.folder / name


def main():
    """Runs the tests of the script that calls it."""
    unittest.main(module="__main__", verbosity=2)
