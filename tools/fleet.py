#!/usr/bin/env python3
"""`./dev fleet`: what deploy/compose.yaml starts, from installed packages and without a container engine: a Redis, nodes
that share it, and the example service. Ctrl-C stops all of it, in order.

`--nodes N` starts N of them instead of two. `--check` runs the lines that it shows by itself, prints what came, stops, and
exits with 1 if anything is not as it should be; with longer time-outs than the policy's, for a busy machine should not
decide that. Redis begins empty. Every process logs to a file of its own in --folder.
The usual ports are taken where they are free (HTTP from 8080 on, RESP from 6380 on, the service on 9000, Redis on 6379),
else free ones.
"""
import argparse
import contextlib
import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POLICY = "deploy/policy.yaml"
USERS = "deploy/redis/users.acl"
SERVICE = "examples/service/service.py"
SEMAPHORE = "examples/semaphore"
WORKER = "examples/semaphore_worker"
HTTP, RESP, SERVICE_PORT, SEMAPHORE_PORT, REDIS_PORT = 8080, 6380, 9000, 9001, 6379
MOST_NODES = 16
PATIENCE_S = 30
STOP_S = 15  # a node answers what was asked for up to 5 s
SPEND = '{"domain":"reports","attributes":{"user":"42"}}'
LOOK = '{"domain":"reports","attributes":{"user":"42"},"cost":0}'


class Failed(Exception):
    """Said to the person; no traceback."""


# --- processes --------------------------------------------------------------------------------------------------------


IN_USE = "ddress already in use"
# They end with this script even if it is killed.
WITH_US = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []


class Process:
    """A running program with its log; `ready` is the line by which it said so."""

    def __init__(self, name, command, folder, says_ready=True, env=None):
        self.name = name
        command = [*WITH_US, *command]
        self.log = folder / f"{name.replace(' ', '-')}.log"
        self.ready = {}
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal reaches this script alone, which then stops them in order.
            self.popen = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=env, start_new_session=True,
                                          stdin=subprocess.DEVNULL, stderr=log,
                                          stdout=subprocess.PIPE if says_ready else log, text=says_ready)
        if says_ready:
            self.read_ready()

    def read_ready(self):
        line = self.popen.stdout.readline()
        if not line.startswith("ready "):
            self.popen.wait()
            raise Failed(f"{self.name} did not start:\n{self.last_words()}")
        self.ready = dict(part.split("=", 1) for part in line.split()[1:])

    @property
    def running(self):
        return self.popen.poll() is None

    def must_run(self):
        if not self.running:
            raise Failed(f"{self.name} has ended:\n{self.last_words()}")

    def last_words(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])

    def stop(self):
        """Its exit code."""
        if self.running:
            self.popen.terminate()
            self.popen.send_signal(signal.SIGCONT)  # someone may have frozen it, as we told them
        try:
            return self.popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise Failed(f"{self.name} did not stop within {STOP_S} s:\n{self.last_words()}") from None


def wait_for(holds, what, processes=()):
    for _ in range(PATIENCE_S * 20):
        if holds():
            return
        for process in processes:
            process.must_run()
        time.sleep(0.05)
    raise Failed(f"waited {PATIENCE_S} s in vain: {what}")


# --- the fleet --------------------------------------------------------------------------------------------------------


class Fleet:
    """Redis, the nodes, the service, started in this order and stopped in the opposite one."""

    def __init__(self, penstock, folder, count, patient=False):
        self.penstock, self.folder, self.count = penstock, folder, count
        self.policy, self.budget = (self.patient_policy(), {"BUDGET_MS": "20000"}) if patient else (ROOT / POLICY, {})
        self.user, self.password = penstock_user()
        self.redis = self.service = self.semaphore = self.worker = None
        self.nodes = []

    def patient_policy(self):
        """The policy, but for how long a decision may take."""
        text = (ROOT / POLICY).read_text()
        changed = text.replace("timeout: 20ms", "timeout: 3s")
        if text == changed:
            raise Failed(f"{POLICY} says nothing of timeout: 20ms")
        policy = self.folder / "policy.yaml"
        policy.write_text(changed)
        return policy

    def start(self):
        self.redis = on_a_free_port(self.start_redis, REDIS_PORT, any_port())
        for _ in range(self.count):
            self.nodes.append(on_a_free_port(self.start_node, True, False))
        for node in self.nodes:
            wait_for(lambda node=node: get(node, "/readyz")[0] == 200, f"{node.name} ready", self.processes)
        self.service = on_a_free_port(self.start_service, SERVICE_PORT, 0)
        program = self.build_semaphore()
        if program is not None:
            self.semaphore = on_a_free_port(lambda port: self.start_semaphore(program, port), SEMAPHORE_PORT, 0)
        self.worker = self.start_worker()

    def start_redis(self, port):
        program = shutil.which("redis-server")
        if program is None:
            raise Failed("there is no redis-server; on Debian it is a package of that name")
        data = self.folder / "redis"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        self.redis_port = port
        redis = Process("redis", [
            program, "--port", port, "--bind", "127.0.0.1", "--dir", data, "--aclfile", ROOT / USERS, "--appendonly", "yes",
            "--save", "", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction"], self.folder, says_ready=False)
        wait_for(lambda: "Ready to accept connections" in redis.log.read_text(errors="replace"), "Redis", [redis])
        return redis

    def start_node(self, usual_ports):
        """On the ports of its place in the fleet, or on any."""
        place = len(self.nodes)
        http_port, resp_port = (HTTP + place, RESP + place) if usual_ports else (0, 0)
        return Process(f"node {place + 1}", [
            self.penstock, "serve", "--policy", self.policy,
            "--engine", f"redis://{self.user}:{self.password}@127.0.0.1:{self.redis_port}/0",
            "--http", f"127.0.0.1:{http_port}", "--resp", f"127.0.0.1:{resp_port}"], self.folder)

    def start_service(self, port):
        return Process("service", [sys.executable, SERVICE], self.folder, env={
            **os.environ, **self.budget, "LISTEN": f"127.0.0.1:{port}",
            "PENSTOCK_NODES": ",".join(f"http://{node.ready['http']}" for node in self.nodes)})

    def build_semaphore(self):
        """The Go example; None, and a word of it, where there is no Go."""
        if shutil.which("go") is None:
            print(f"there is no Go here, so {SEMAPHORE} is left out", file=sys.stderr, flush=True)
            return None
        program = self.folder / "semaphore"
        built = subprocess.run(["go", "build", "-o", program, "."], cwd=ROOT / SEMAPHORE, text=True, check=False, env={
            **os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if built.returncode != 0:
            raise Failed(f"{SEMAPHORE} does not build:\n{built.stdout}")
        return program

    def start_semaphore(self, program, port):
        return Process("pictures", [program], self.folder, env={
            **os.environ, "LISTEN": f"127.0.0.1:{port}", "PENSTOCK_URL": f"http://{self.nodes[-1].ready['http']}"})

    def start_worker(self):
        """The C++ example, which shares the semaphore of the Go one through Redis."""
        return Process("worker", [self.penstock.parent / "semaphore_worker",
                                  f"redis://{self.user}:{self.password}@127.0.0.1:{self.redis_port}/0"], self.folder)

    @property
    def processes(self):
        started = (self.redis, *self.nodes, self.service, self.semaphore, self.worker)
        return [process for process in started if process is not None]

    def stop(self):
        """Who asks before who is asked. What did not stop well, as words."""
        wrong = []
        for process in reversed(self.processes):
            ended_before = not process.running
            try:
                code = process.stop()
            except Failed as error:
                wrong.append(str(error))
                continue
            if code != 0 or (ended_before and process is not self.redis):
                wrong.append(f"{process.name} ended{' by itself' if ended_before else ''} with {code}:\n{process.last_words()}")
        return wrong

    def table(self):
        rows = [("redis", f"127.0.0.1:{self.redis_port}", self.redis)]
        rows += [(node.name, f"http {node.ready['http']}  resp {node.ready['resp']}", node) for node in self.nodes]
        rows.append(("service", f"http {self.service.ready['http']}", self.service))
        if self.semaphore is not None:
            rows.append(("pictures", f"http {self.semaphore.ready['http']}", self.semaphore))
        rows.append(("worker", f"at most {self.worker.ready['permits']} calls of the fleet at once", self.worker))
        for name, where, process in rows:
            yield f"{name:8} {where:42} {shown(process.log)}"


def on_a_free_port(start, usual, otherwise):
    try:
        return start(usual)
    except Failed as error:
        if IN_USE not in str(error):
            raise
    return start(otherwise)


def any_port():
    """For Redis, which cannot be told to take one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(node, path):
    """(status, body); (0, "") where nobody answers."""
    connection = http.client.HTTPConnection(node.ready["http"], timeout=PATIENCE_S)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""


def penstock_user():
    """(name, password) of the users' file: the one that may do something."""
    for line in (ROOT / USERS).read_text().splitlines():
        words = line.split()
        if words[:1] == ["user"] and "on" in words:
            return words[1], next(word[1:] for word in words if word.startswith(">"))
    raise Failed(f"{USERS} lets nobody in")


def shown(path):
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


# --- the lines to try -------------------------------------------------------------------------------------------------


def check_line(node, body):
    return f"curl -s http://{node.ready['http']}/v1/check -d '{body}'"


def print_lines(fleet):
    first, last = fleet.nodes[0], fleet.nodes[-1]
    pid = fleet.redis.popen.pid
    print(f"""
Spend one of user 42's ten reports an hour on {first.name}, and see on {last.name} that it is gone:
  {check_line(first, SPEND)}
  {check_line(last, LOOK)}
The service asks them before it works:
  curl -si 'http://{fleet.service.ready['http']}/report?user=42'
{semaphore_lines(fleet)}Freeze Redis and ask again: nobody waits longer than 20 ms, the answer says "degraded":true. Then let it go on:
  kill -STOP {pid}
  kill -CONT {pid}
Ctrl-C stops all.""", flush=True)


def semaphore_lines(fleet):
    if fleet.semaphore is None:
        return ""
    place = fleet.semaphore.ready["http"]
    return f"""Call a third party five times at once, of which two go at a time, and look who holds meanwhile:
  for i in 1 2 3 4 5; do curl -s 'http://{place}/picture?of='$i & done; sleep 0.1
  {fleet.penstock} holders --key third-party:pictures --server http://{fleet.nodes[0].ready["http"]}
"""


class Check:
    """Runs the lines as a person would, and holds their answers to what they show."""

    def __init__(self, fleet):
        self.fleet = fleet

    @staticmethod
    def run(line):
        """The line's output, shown under it."""
        done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        print(f"$ {line}\n{done.stdout}", end="" if done.stdout.endswith("\n") or not done.stdout else "\n", flush=True)
        if done.returncode != 0:
            raise Failed(f"that line ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def ask(self, line, **expected):
        answer = json.loads(self.run(line))
        wrong = {name: answer.get(name) for name, value in expected.items() if answer.get(name) != value}
        if wrong:
            raise Failed(f"that should have said {expected}, but {wrong}")
        return answer

    def all(self):
        first, last = self.fleet.nodes[0], self.fleet.nodes[-1]
        pid = self.fleet.redis.popen.pid
        print("Spent on one node, gone on the other:", flush=True)
        self.ask(check_line(first, SPEND), allowed=True, remaining=9, degraded=False)
        self.ask(check_line(last, LOOK), allowed=True, remaining=9, degraded=False)
        self.ask(f"curl -s 'http://{self.fleet.service.ready['http']}/report?user=42'", left=8, degraded=False)
        print("The worker calls the third party in its turn, and loses no permit:", flush=True)
        wait_for(self.worker_works, "a job of the worker", self.fleet.processes)
        self.run(f"tail -n 1 {self.fleet.worker.log}")
        wait_for(self.all_know_the_fleet, "nodes that know how many they are", self.fleet.processes)
        print("Without Redis each node goes on with its share, and says so:", flush=True)
        self.run(f"kill -STOP {pid}")
        self.ask(check_line(first, SPEND), allowed=True, degraded=True)
        self.run(f"kill -CONT {pid}")
        print("When Redis is back, it is told what was spent meanwhile:", flush=True)
        wait_for(self.is_told, "the node to find Redis again", self.fleet.processes)
        self.ask(check_line(last, LOOK), remaining=7, degraded=False)

    def worker_works(self):
        said = re.findall(r"done=(\d+) .*lost=0$", self.fleet.worker.log.read_text(errors="replace"), re.MULTILINE)
        return said and int(said[-1]) > 0

    def all_know_the_fleet(self):
        """By their heartbeats, which takes some seconds: before it no node may take a share."""
        known = f"penstock_fleet_nodes {len(self.fleet.nodes) + 1}"  # the worker brings a limiter of its own
        return all(known in get(node, "/metrics")[1].splitlines() for node in self.fleet.nodes)

    def is_told(self):
        """Asked until so; the last question is shown."""
        node = self.fleet.nodes[-1]
        connection = http.client.HTTPConnection(node.ready["http"], timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/check", LOOK)
            answer = json.loads(connection.getresponse().read())
        return not answer["degraded"] and answer["remaining"] == 7


# --- the command ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def alone_in(folder):
    """One fleet a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(f"a fleet runs in {shown(folder)} already; --folder takes another") from None
        yield


class Interrupted(Exception):
    """Ctrl-C, or SIGTERM."""


def interrupt(*_):
    # Once: while all are stopped, a second Ctrl-C changes nothing.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise Interrupted


def watch(fleet):
    """Until somebody stops us. Redis may go, that is part of the show; the others may not."""
    redis_ran = True
    while True:
        time.sleep(0.2)
        if redis_ran and not fleet.redis.running:
            redis_ran = False
            print("redis has ended; the nodes go on without it", flush=True)
        for process in fleet.processes:
            if process is not fleet.redis:
                process.must_run()


def run(arguments):
    fleet = Fleet(arguments.penstock.resolve(), arguments.folder.resolve(), arguments.nodes,
                  patient=arguments.check)
    wrong = []
    try:
        fleet.start()
        print("\n".join(fleet.table()), flush=True)
        if arguments.check:
            Check(fleet).all()
        else:
            print_lines(fleet)
            watch(fleet)
    except Failed as error:
        wrong.append(str(error))
    except Interrupted:
        print("\nstopping", flush=True)
        if arguments.check:
            wrong.append("interrupted")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    wrong += fleet.stop()
    return wrong


def main():
    parser = argparse.ArgumentParser(prog="./dev fleet", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2, choices=range(1, MOST_NODES + 1), metavar="N")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--penstock", type=Path, default=ROOT / "build/release/penstock", help="the program")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/fleet", help="where logs and data are")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        with alone_in(arguments.folder):
            wrong = run(arguments)
    except Failed as error:
        wrong = [str(error)]
    for words in wrong:
        print(f"fleet: {words}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
