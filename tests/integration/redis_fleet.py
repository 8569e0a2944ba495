"""A Redis of a test's own, and penstock nodes on it.

    with redis_fleet.Redis() as redis, redis_fleet.Fleet(4, policy, redis.url()) as fleet:
        fleet[0].check({"user": "42"}) ; redis.freeze() ; fleet.kill(2) ; ...

Between them a test may put tcp_proxy.Proxy(("127.0.0.1", redis.port)) and give the nodes proxy.url(...). What was
started is killed when its `with` ends, or when the thread that started it does, however that comes about. Redis runs
under the users of deploy/redis/users.acl, unless a test says otherwise: `redis.url()` logs in as what penstock may be,
`redis.ask(...)` as one who may do everything.

PENSTOCK_REDIS_SERVER names another server, such as valkey-server. Where there is none, skip_without_redis() says so.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
from port import Port
from wire import Closed, Http, Resp, RespError

USERS = harness.ROOT / "deploy" / "redis" / "users.acl"
USER, PASSWORD = "penstock", "penstock-local"
ADMIN = ("admin", "for-the-test-alone")
WITH_US = ("setpriv", "--pdeathsig", "KILL")  # the process ends with the thread that started it


def server_program():
    """The path of redis-server, or of what PENSTOCK_REDIS_SERVER names; None where it is not installed."""
    return shutil.which(os.environ.get("PENSTOCK_REDIS_SERVER") or "redis-server")


def skip_without_redis():
    """Ends the test as skipped where no server is installed."""
    if server_program() is None:
        print("SKIPPED: there is no redis-server, nor does PENSTOCK_REDIS_SERVER name one")
        sys.exit(harness.SKIPPED)


class Redis:
    """A running redis-server, on 127.0.0.1 and on a Unix socket. `lines` are added to its configuration; nothing is
    saved to disk unless one says so. `users` is an ACL file's text; None is none at all. Not `wait`: many start side by
    side, and wait_ready comes before use."""

    LINES = ('save ""', "appendonly no", "maxmemory-policy noeviction", "repl-diskless-sync yes",
             "repl-diskless-sync-delay 0")
    AROUND = ()  # a command that becomes the server
    MODE = ()  # arguments behind the configuration

    def __init__(self, *lines, users=USERS.read_text(), wait=True):
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-redis-", dir="/tmp"))  # a socket's path is short
        self.socket_path = str(self.folder / "redis.sock")
        self._port = Port()
        self.port = self._port.number
        self.process = None
        self.has_users = users is not None
        text = [f"port {self.port}", "bind 127.0.0.1", f"unixsocket {self.socket_path}", f"dir {self.folder}",
                "daemonize no", *self.LINES]
        if self.has_users:
            admin, password = ADMIN
            (self.folder / "users.acl").write_text(f"{users.rstrip()}\nuser {admin} on >{password} ~* &* +@all\n")
            text += [f"aclfile {self.folder}/users.acl", f"masteruser {admin}", f"masterauth {password}"]
        (self.folder / "redis.conf").write_text("\n".join([*text, *lines]) + "\n")
        try:
            self._launch()
            if wait:
                self.wait_ready()
        except BaseException:
            self.close()
            raise

    # --- its life ---------------------------------------------------------------------------------------------

    def start(self):
        """Again on the same port and path, with what its files kept; until it answers."""
        self._launch()
        self.wait_ready()

    def _launch(self):
        assert not self.running, "it runs already"
        self.frozen = False
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*WITH_US, *self.AROUND, server_program(), str(self.folder / "redis.conf"), *self.MODE],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_ready(self):
        harness.wait_for(lambda: not self.running or self.answers(), lambda: f"it does not answer:\n{self.log()}")
        assert self.running, f"it has ended:\n{self.log()}"

    def stop(self):
        """In order, by SIGTERM: connections are closed, further ones refused."""
        self._end(signal.SIGTERM)

    def kill(self):
        """As a power cut."""
        self._end(signal.SIGKILL)

    def restart(self, keep_data=True):
        """Killed and started at once, with its data or empty."""
        if keep_data:
            self.ask("SAVE")
        self.kill()
        if not keep_data:
            (self.folder / "dump.rdb").unlink(missing_ok=True)
            shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        self.start()

    def freeze(self):
        """SIGSTOP: connections stay, the kernel takes new ones, nobody answers."""
        self.process.send_signal(signal.SIGSTOP)
        harness.wait_for(lambda: self._state() == "T", lambda: "it does not stop")
        self.frozen = True

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)
        self.frozen = False

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def _state(self):
        return Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1][0]

    def _end(self, number):
        if not self.running:
            return
        self.process.send_signal(number)
        if self.frozen:
            self.thaw()
        self.process.wait(harness.PATIENCE_S)

    def close(self):
        if self.running:
            self.process.kill()
            self.process.wait(harness.PATIENCE_S)
        self._port.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print(f"--- log of Redis on {self.port}\n{self.log()}---", file=sys.stderr)
        self.close()

    # --- what one asks of it ----------------------------------------------------------------------------------

    def url(self, port=None):
        """For penstock, over TCP; with the port of a proxy where one is given."""
        return f"redis://{self.login}127.0.0.1:{port or self.port}"

    @property
    def unix_url(self):
        return f"unix://{self.login}{self.socket_path}"

    @property
    def login(self):
        """`user:password@` of the user that penstock is, or nothing."""
        return f"{USER}:{PASSWORD}@" if self.has_users else ""

    def connect(self):
        """A connection (wire.Resp) of one who may do everything."""
        connection = Resp(("127.0.0.1", self.port))
        if self.has_users and connection.ask("AUTH", *ADMIN) != "OK":
            connection.close()
            raise AssertionError("Redis does not know the test's own user")
        return connection

    def ask(self, *command):
        """The reply to one command; an error reply is a fault of the test."""
        with self.connect() as connection:
            reply = connection.ask(*command)
        assert not isinstance(reply, RespError), f"{command}: {reply}"
        return reply

    def answers(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, Closed, AssertionError):  # not there yet, or still loading
            return False

    def info(self, section="everything"):
        """INFO as a dictionary of strings."""
        lines = self.ask("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def keys(self, pattern="*"):
        return sorted(self.ask("KEYS", pattern))

    def log(self):
        return (self.folder / "log").read_text(errors="replace")


class UnixResp(Resp):
    """A connection to the Unix socket at a path."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(harness.PATIENCE_S)
        self.socket.connect(path)
        self.received = b""


class Node(harness.Server):
    """One `penstock serve` of a fleet, on free ports, with a kept HTTP connection."""

    WRAPPER = WITH_US

    def __init__(self, *args, env=None):
        self._http = None
        super().__init__("penstock", ["serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", *args], env)

    def ask(self, method, target, body=b"", headers=()):
        """wire.Response, over a connection that is kept as long as the server keeps it."""
        if self._http is None:
            self._http = Http(self.http[:2])
        try:
            return self._http.ask(method, target, body, headers)
        except (OSError, Closed):
            self.forget()
            raise

    def check(self, attributes, domain="api", **fields):
        """The answer to POST /v1/check as a dictionary."""
        return self.ask("POST", "/v1/check", {"domain": domain, "attributes": attributes, **fields}).json()

    def is_ready(self):
        return self.ask("GET", "/readyz").status == 200

    def forget(self):
        """Closes the kept connection."""
        if self._http is not None:
            self._http.close()
        self._http = None

    def stop(self):
        self.forget()
        return super().stop()


class Fleet:
    """`count` nodes under one policy and one engine URL; `urls` gives each its own, as for nodes behind proxies."""

    def __init__(self, count, policy, url=None, *args, urls=None, env=None):
        self._policy = policy
        self._urls = urls or [url] * count
        self._args, self._env = args, env
        self.nodes = []
        self._started = contextlib.ExitStack()
        with contextlib.ExitStack() as failed:
            failed.callback(self._started.close)
            for index in range(count):
                self.nodes.append(self._started.enter_context(self._start(index)))
            failed.pop_all()

    def _start(self, index):
        engine = ["--engine", self._urls[index]] if self._urls[index] else []
        return Node("--policy", self._policy, *engine, *self._args, env=self._env)

    def wait_ready(self):
        """Until every node says that it is: its engine answers, or what it does without is known."""
        for node in self.nodes:
            harness.wait_for(node.is_ready, lambda node=node: f"{node.ready_line}: not ready\n{node.log()}")

    def kill(self, index):
        """As a power cut of one."""
        self.nodes[index].forget()
        self.nodes[index].kill()

    def start_again(self, index):
        """A node of the same kind in the place of one that was stopped or killed; its ports are others."""
        self.nodes[index] = self._started.enter_context(self._start(index))
        return self.nodes[index]

    def metrics(self, text):
        """What every node's /metrics says, read by `text` (a function of the page)."""
        return [text(node.ask("GET", "/metrics").body.decode()) for node in self.nodes]

    def __getitem__(self, index):
        return self.nodes[index]

    def __iter__(self):
        return iter(self.nodes)

    def __len__(self):
        return len(self.nodes)

    def __enter__(self):
        self._started.__enter__()
        return self

    def __exit__(self, *what):
        return self._started.__exit__(*what)


def policy(limits, domain=None, **engine):
    """A policy's text: domain api with these limits; JSON is YAML too. `domain` has further options of the domain such
    as shard_by, `engine` options such as timeout="20ms"."""
    return json.dumps({"engine": engine, "domains": {"api": {**(domain or {}), "limits": limits}}}, indent=1)
