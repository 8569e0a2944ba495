#!/usr/bin/env python3
"""Packets between nodes and their Redis really vanish: Redis runs in a network namespace of its own, behind a pair of virtual
interfaces of which one end is taken down. Needs the right to make namespaces; redis_faults_test.py does the same to a proxy,
anywhere."""
import os
import subprocess
import sys
import time

import harness
import redis_fleet
import side_by_side
from redis_faults_test import Faults
from wire import RespError

INSIDE = "--inside"
WAYS_IN = (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"])
NEAR, FAR = "10.199.7.1", "10.199.7.2"


def permitted(way):
    probe = "ip link set lo up && ip link add near type veth peer name far"
    try:
        return subprocess.run([*way, "sh", "-c", probe], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def enter():
    """Runs this script again in a namespace, or skips."""
    for way in WAYS_IN:
        if permitted(way):
            os.execvp(way[0], [*way, sys.executable, __file__, INSIDE, *sys.argv[1:]])
    print("SKIPPED: no right to make network namespaces with virtual interfaces, or no `ip`")
    sys.exit(harness.SKIPPED)


def run(*command):
    subprocess.run(command, check=True)


class FarRedis(redis_fleet.Redis):
    """In the namespace of `holder`, a process that does nothing."""

    def __init__(self, holder):
        self.AROUND = ("nsenter", "--target", str(holder.pid), "--net")
        super().__init__(f"bind {FAR}")

    def connect(self):
        """By its Unix socket, which no partition reaches."""
        connection = redis_fleet.UnixResp(self.socket_path)
        if isinstance(connection.ask("AUTH", *redis_fleet.ADMIN), RespError):
            raise AssertionError("Redis does not know the test's own user")
        return connection

    def url(self, port=None):
        return f"redis://{self.login}{FAR}:{port or self.port}"


class APartition(Faults):
    """One test after another: they share the interfaces' names."""

    def setUp(self):
        super().setUp()
        self.holder = subprocess.Popen([*redis_fleet.WITH_US, "unshare", "--net", "sleep", "infinity"])
        self.addCleanup(self.holder.wait)
        self.addCleanup(self.holder.kill)
        own = os.readlink("/proc/self/ns/net")
        harness.wait_for(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own)
        run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far")
        self.addCleanup(run, "ip", "link", "delete", "near")
        run("ip", "link", "set", "far", "netns", str(self.holder.pid))
        run("ip", "address", "add", f"{NEAR}/30", "dev", "near")
        run("ip", "link", "set", "near", "up")
        self.far("ip", "address", "add", f"{FAR}/30", "dev", "far")
        self.far("ip", "link", "set", "far", "up")
        self.store = self.enterContext(FarRedis(self.holder))
        self.fleet = self.nodes(self.store.url())

    def far(self, *command):
        run("nsenter", "--target", str(self.holder.pid), "--net", *command)

    def test_packets_vanish_both_ways(self):
        traffic = self.suffer(self.fleet, lambda: self.far("ip", "link", "set", "far", "down"),
                              lambda: self.far("ip", "link", "set", "far", "up"))
        self.assert_limit_kept(traffic, exactly_on=self.store)
        self.assert_nobody_waited(traffic)

    def test_packets_vanish_one_way(self):
        traffic = self.suffer(self.fleet, lambda: self.far("ip", "route", "add", "blackhole", f"{NEAR}/32"),
                              lambda: self.far("ip", "route", "delete", "blackhole", f"{NEAR}/32"))
        self.assert_limit_kept(traffic, exactly_on=self.store)
        self.assert_nobody_waited(traffic)

    def test_there_and_gone_and_there(self):
        def flap():
            for _ in range(5):
                self.far("ip", "link", "set", "far", "down")
                time.sleep(0.15)
                self.far("ip", "link", "set", "far", "up")
                time.sleep(0.15)
        self.assert_limit_kept(self.suffer(self.fleet, flap, pauses=False))


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    if INSIDE not in sys.argv:
        enter()
    sys.argv.remove(INSIDE)
    run("ip", "link", "set", "lo", "up")
    side_by_side.main(1)
