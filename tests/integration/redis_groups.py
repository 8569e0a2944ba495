"""Several Redis that belong together: a master with replicas under three sentinels, and a cluster of six. Timings are
short: a dead master is replaced within about two seconds. tests/redis/ has the same for tests in C++.

    with redis_groups.SentinelSet() as servers:            # or redis_groups.Cluster()
        ... penstock --engine servers.url ...
        old = servers.kill_master() ; old.start()           # comes back as a replica
"""
import contextlib
import re

import harness
from port import Port
from redis_fleet import ADMIN, Redis
from wire import Closed

SLOTS = 16_384


def is_master(server):
    return server.running and server.ask("ROLE")[0] == "master"


def wait_for(what, holds):
    """A server that is not there just now is a no."""
    def tried():
        try:
            return holds()
        except (OSError, Closed):
            return False
    harness.wait_for(tried, lambda: f"waited in vain: {what}")


class Group:
    """Servers that are closed together."""

    def __init__(self):
        self._started = contextlib.ExitStack()

    def _add(self, server):
        return self._started.enter_context(server)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return self._started.__exit__(*what)


class Sentinel(Redis):
    LINES = ()
    MODE = ("--sentinel",)


# The line that makes penstock's user on the sentinels, its name and its password.
WATCH = re.search(r"^user (\S+) on >(\S+) .*\+sentinel\|.*$", (harness.ROOT / "docs" / "engines.md").read_text(), re.MULTILINE)


class SentinelSet(Group):
    """servers[0] is the master at first; the sentinels call the set NAME and have the user of docs/engines.md, as whom
    penstock asks them."""

    NAME = "main"
    SENTINELS, QUORUM = 3, 2

    def __init__(self, *lines, replicas=1):
        super().__init__()
        with contextlib.ExitStack() as failed:
            failed.callback(self._started.close)
            self._start_servers(lines, replicas)
            self._start_sentinels()
            failed.pop_all()

    def _start_servers(self, lines, replicas):
        first = self._add(Redis(*lines, wait=False))
        follow = f"replicaof 127.0.0.1 {first.port}"
        self.servers = [first, *(self._add(Redis(*lines, follow, wait=False)) for _ in range(replicas))]
        for server in self.servers:
            server.wait_ready()
        self.wait_replicas()

    def _start_sentinels(self):
        (user, password), (first, *others) = ADMIN, self.servers
        watch = [f"sentinel monitor {self.NAME} 127.0.0.1 {first.port} {self.QUORUM}",
                 f"sentinel auth-user {self.NAME} {user}", f"sentinel auth-pass {self.NAME} {password}",
                 f"sentinel down-after-milliseconds {self.NAME} 700", f"sentinel failover-timeout {self.NAME} 2000"]
        watch += [f"sentinel known-replica {self.NAME} 127.0.0.1 {other.port}" for other in others]
        self.sentinels = []
        for number in range(self.SENTINELS):
            # Each is told of the earlier ones: by themselves they would take seconds to meet.
            known = [f"sentinel known-sentinel {self.NAME} 127.0.0.1 {other.port} {run_id(i)}"
                     for i, other in enumerate(self.sentinels)]
            self.sentinels.append(self._add(
                Sentinel(f"sentinel myid {run_id(number)}", *watch, *known, WATCH[0], users=None, wait=False)))
        for sentinel in self.sentinels:
            sentinel.wait_ready()
            # Above all the 10 s after which it looks at a replica again.
            sentinel.ask("SENTINEL", "DEBUG", "info-period", 200, "ping-period", 100, "ask-period", 100, "publish-period",
                         200, "min-link-reconnect-period", 100, "election-timeout", 1_000)
        wait_for("sentinels that know all", lambda: all(map(self._knows_all, self.sentinels)))

    def _knows_all(self, sentinel):
        with sentinel.connect() as connection:
            others = connection.ask("SENTINEL", "SENTINELS", self.NAME)
            replicas = connection.ask("SENTINEL", "REPLICAS", self.NAME)
            return (len(others) == self.SENTINELS - 1 and len(replicas) == len(self.servers) - 1 and
                    connection.ask("SENTINEL", "CKQUORUM", self.NAME).startswith("OK"))

    @property
    def url(self):
        """For penstock."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        user, password = WATCH.groups()
        return (f"redis+sentinel://{self.servers[0].login}{hosts}/{self.NAME}"
                f"?sentinel_user={user}&sentinel_password={password}")

    @property
    def master(self):
        """The server that all living sentinels name and that is one."""
        found = []

        def agreed():
            ports = {int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)[1])
                     for sentinel in self.sentinels if sentinel.running}
            found[:] = [server for server in self.servers if ports == {server.port} and is_master(server)]
            return found
        wait_for("a master", agreed)
        return found[0]

    def failover(self):
        """By order, while the master lives; the new master."""
        old = self.master
        self.wait_replicas()
        with self.sentinels[0].connect() as connection:
            def replaced():
                if self.master is not old:
                    return True
                # Refused while one is under way. Begun again where the sentinels gave it up, as they do on a busy machine.
                connection.ask("SENTINEL", "FAILOVER", self.NAME)
                return False
            wait_for("a new master", replaced)
        return self.master

    def kill_master(self):
        """By death; the dead one, when another is master."""
        old = self.master
        old.kill()
        wait_for("a new master", lambda: self.master is not old)
        return old

    def wait_replicas(self):
        """Until every living replica follows the master and has all of its data."""
        def follow():
            roles = [server.ask("ROLE") for server in self.servers if server.running]
            ends = [role[1] for role in roles if role[0] == "master"]
            behind = [role for role in roles if role[0] == "slave" and (role[3] != "connected" or role[4] < ends[0])]
            return len(ends) == 1 and not behind
        wait_for("replicas that follow", follow)


def run_id(number):
    """40 hexadecimal digits that no other sentinel has."""
    return f"{number:040x}".replace("0", "a")


class Node(Redis):
    LINES = (*Redis.LINES, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 1000",
             "cluster-replica-validity-factor 0")


class Cluster(Group):
    """nodes[0..2] are masters at first, nodes[3..5] their replicas; each master has a third of the slots."""

    MASTERS, NODES = 3, 6

    def __init__(self, *lines):
        super().__init__()
        with contextlib.ExitStack() as failed:
            failed.callback(self._started.close)
            self._start(lines)
            failed.pop_all()

    def _start(self, lines):
        self._buses = [self._add(contextlib.closing(Port())) for _ in range(self.NODES)]
        self.nodes = [self._add(Node(f"cluster-port {bus.number}", *lines, wait=False)) for bus in self._buses]
        for node in self.nodes:
            node.wait_ready()
        self._ids = [node.ask("CLUSTER", "MYID") for node in self.nodes]
        for index, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if index < self.MASTERS:
                first, beyond = (SLOTS * i // self.MASTERS for i in (index, index + 1))
                node.ask("CLUSTER", "ADDSLOTSRANGE", first, beyond - 1)
        self._meet()
        for index in range(self.MASTERS, self.NODES):
            self.nodes[index].ask("CLUSTER", "REPLICATE", self._ids[index - self.MASTERS])
        self.wait_ok()

    def _meet(self):
        """Everybody meets everybody: gossip alone would take seconds."""
        for node in self.nodes:
            for other, bus in zip(self.nodes, self._buses):
                if other is not node:
                    node.ask("CLUSTER", "MEET", "127.0.0.1", other.port, bus.number)
        wait_for("nodes that know each other", lambda: all(
            len(seen) == self.NODES and not any("handshake" in flags for _, flags, _, _ in seen)
            for seen in map(nodes_of, self.nodes)))

    def wait_ok(self):
        """Until all who live agree that every slot is served, and every replica follows."""
        def well():
            living = [node for node in self.nodes if node.running]
            roles = [node.ask("ROLE") for node in living]
            follow = [role for role in roles if role[0] == "slave" and role[3] == "connected"]
            masters = [role for role in roles if role[0] == "master"]
            return (len(masters) == self.MASTERS and len(masters) + len(follow) == len(living) and
                    all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in living) and
                    all(sum("master" in flags and bool(slots) for _, flags, _, slots in nodes_of(node)) == self.MASTERS
                        for node in living))
        wait_for("a cluster that is well", well)

    @property
    def url(self):
        """For penstock."""
        return f"redis+cluster://{self.nodes[0].login}" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def slot_of(self, key):
        return self.nodes[0].ask("CLUSTER", "KEYSLOT", key)

    def owner(self, slot):
        """Index of the master that serves it."""
        for index, node in enumerate(self.nodes):
            if is_master(node) and any(own == self._ids[index] and serves(slots, slot)
                                       for own, _, _, slots in nodes_of(node)):
                return index
        raise AssertionError(f"nobody serves slot {slot}")

    def replica_of(self, master):
        for index, node in enumerate(self.nodes):
            if node.running and any(own == self._ids[index] and of == self._ids[master]
                                    for own, _, of, _ in nodes_of(node)):
                return index
        raise AssertionError(f"node {master} has no replica")

    def failover(self, master):
        """By order; the new master's index."""
        return self._replaced(master, lambda replica: self.nodes[replica].ask("CLUSTER", "FAILOVER"))

    def kill_master(self, master):
        """By death; the new master's index."""
        return self._replaced(master, lambda _: self.nodes[master].kill())

    def _replaced(self, master, how):
        replica = self.replica_of(master)
        how(replica)
        wait_for("a replica that takes over", lambda: is_master(self.nodes[replica]))
        self.wait_ok()
        return replica

    # Moving a slot, in steps that a test may stop between.

    def begin_migration(self, slot, source, target):
        self.nodes[target].ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self._ids[source])
        self.nodes[source].ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self._ids[target])

    def move_keys(self, slot, source, target, count=100):
        """How many were moved."""
        keys = self.nodes[source].ask("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            self.nodes[source].ask("MIGRATE", "127.0.0.1", self.nodes[target].port, "", 0, 5_000, "AUTH2", *ADMIN, "KEYS",
                                   *keys)
        return len(keys)

    def end_migration(self, slot, target):
        for node in (self.nodes[target], *self.nodes):
            if is_master(node):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", self._ids[target])

    def migrate(self, slot, target):
        """All of it at once."""
        source = self.owner(slot)
        self.begin_migration(slot, source, target)
        while self.move_keys(slot, source, target):
            pass
        self.end_migration(slot, target)


def nodes_of(server):
    """(id, flags, master's id, slots) for every line of CLUSTER NODES."""
    lines = [line.split() for line in server.ask("CLUSTER", "NODES").splitlines()]
    return [(words[0], words[2], words[3], words[8:]) for words in lines]


def serves(ranges, slot):
    for text in ranges:
        if not text.startswith("["):  # else on its way
            first, _, last = text.partition("-")
            if int(first) <= slot <= int(last or first):
                return True
    return False
