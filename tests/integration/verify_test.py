#!/usr/bin/env python3
"""`penstock verify` against real servers: fine where all is well, and each thing that is broken on purpose is found."""
import json
import socket
import threading
import time

import harness
import redis_fleet
import redis_groups
from wire import Resp

NODE, NODE_PASSWORD = redis_fleet.USER, redis_fleet.PASSWORD
# What docs/engines.md gives to the user that verify runs as, beyond what a node has.
MORE = ("+config|get +info +acl|whoami +acl|getuser +acl|dryrun +scan +pttl +getrange +script|exists +client|list "
        "+cluster|info +cluster|nodes +cluster|failover")
PASSWORD = "verify-secret"
USERS = redis_fleet.USERS.read_text()
NODE_RULES = next(line for line in USERS.splitlines() if line.startswith(f"user {NODE} ")).split(" ", 3)[3]
WITH_VERIFY = f"{USERS.rstrip()}\nuser verify on >{PASSWORD} {NODE_RULES} {MORE}\n"
SOUND = ("maxmemory 256mb", "appendonly yes", "min-replicas-max-lag 10")
EVERYWHERE = {"atomicity", "scripts", "builds", "clock", "ttl", "ttl-covers", "layout", "acl", "acl-excess", "version",
              "eviction", "memory", "persistence", "connections", "replication", "latency", "failover"}


class Report:
    """One run of verify with --json."""

    def __init__(self, *args):
        done = harness.run("verify", "--json", *args, timeout=180)
        self.code, self.text, self.log = done.returncode, done.stdout, done.stderr
        try:
            self.json = json.loads(self.text)
        except ValueError:
            raise AssertionError(f"exit {self.code}, no JSON: {self.text!r} {self.log!r}") from None
        self.checks = {check["name"]: check for check in self.json["checks"]}
        self.findings = {name for name, check in self.checks.items() if check["status"] in ("warning", "failed")}

    def __str__(self):
        return f"exit {self.code}\n{json.dumps(self.json, indent=1)}\n{self.log}"


class Case(harness.TestCase):
    def setUp(self):
        super().setUp()
        # The machine that runs tests is busy: only the test of latencies has the usual time-out.
        self.calm = ("--policy", self.write("calm.yaml", "engine: {timeout: 5s}\ndomains: {}\n"))

    def of(self, report, name, status):
        """The check, which has the status."""
        self.assertIn(name, report.checks, report)
        check = report.checks[name]
        self.assertEqual(check["status"], status, report)
        self.assertTrue(check["figure"] and check["meaning"], report)
        if status in ("warning", "failed"):
            self.assertTrue(check["remedy"], report)
            self.assertEqual(report.code, 1, report)
        return check


def url(redis, user="verify", password=PASSWORD):
    return f"redis://{user}:{password}@127.0.0.1:{redis.port}"


class OneServer(Case):
    def setUp(self):
        super().setUp()
        self.redis = self.enterContext(redis_fleet.Redis(*SOUND, users=WITH_VERIFY))

    def verify(self, *args):
        return Report("--engine", url(self.redis), *self.calm, *args)

    def test_a_sound_server_has_no_finding_and_keeps_nothing_of_the_run(self):
        report = self.verify()
        self.assertEqual((report.code, report.findings, report.json["ok"]), (0, set(), True), report)
        self.assertEqual(set(report.checks), EVERYWHERE)
        self.assertEqual({name for name, check in report.checks.items() if check["status"] == "skipped"},
                         {"replication", "failover"}, report)
        self.assertEqual(report.json["engine"], f"redis://127.0.0.1:{self.redis.port}")
        # Buckets that are dropped or forgotten at once; keys that were tried live for a second.
        harness.wait_for(lambda: self.redis.keys() == [], lambda: f"left behind: {self.redis.keys()}")

    def test_settings_that_lose_limits(self):
        self.redis.ask("SETRANGE", "filler", 60_000_000, "x")  # so that what connections take matters little
        used = int(self.redis.info("memory")["used_memory"])
        cases = [
            ("eviction", "failed", {"maxmemory-policy": "allkeys-lru"}),
            ("eviction", "failed", {"maxmemory-policy": "volatile-ttl"}),
            ("persistence", "failed", {"appendonly": "no", "save": ""}),
            ("persistence", "warning", {"appendonly": "no", "save": "3600 1"}),
            ("persistence", "warning", {"appendfsync": "no"}),
            ("memory", "warning", {"maxmemory": "0"}),
            ("memory", "warning", {"maxmemory": str(used * 5 // 4)}),
            ("memory", "failed", {"maxmemory": str(used * 20 // 19)}),
        ]
        for name, status, settings in cases:
            with self.subTest(name=name, **settings):
                before = {setting: self.redis.ask("CONFIG", "GET", setting)[1] for setting in settings}
                for setting, value in settings.items():
                    self.redis.ask("CONFIG", "SET", setting, value)
                report = self.verify()
                for setting, value in before.items():
                    self.redis.ask("CONFIG", "SET", setting, value)
                self.of(report, name, status)
                self.assertEqual(report.findings, {name}, report)

    def test_rights_that_are_missing_are_named(self):
        for taken, rule in (("-evalsha", "+evalsha"), ("-script|load", "+script|load"), ("-set", "+set"),
                            ("resetkeys ~other:*", "~pen:*"), ("-time", "+time")):
            with self.subTest(taken=taken):
                self.redis.ask("ACL", "SETUSER", "verify", *taken.split())
                report = self.verify()
                self.redis.ask("ACL", "SETUSER", "verify", "reset", "on", f">{PASSWORD}", *NODE_RULES.split(), *MORE.split())
                check = self.of(report, "acl", "failed")
                self.assertIn(f"ACL SETUSER verify {rule}", check["remedy"], report)
                if rule != "+script|load":  # an earlier run has loaded them
                    self.assertIn("atomicity", report.findings, report)

    def test_rights_without_which_all_is_slower_are_a_warning(self):
        for taken, rule in (("-publish", "+publish"), ("-subscribe", "+subscribe"), ("resetchannels", "&pen:*")):
            with self.subTest(taken=taken):
                self.redis.ask("ACL", "SETUSER", "verify", taken)
                report = self.verify()
                self.redis.ask("ACL", "SETUSER", "verify", *NODE_RULES.split(), *MORE.split())
                check = self.of(report, "acl", "warning")
                self.assertIn(f"ACL SETUSER verify {rule}", check["remedy"], report)
                self.assertEqual(report.findings, {"acl"}, report)

    def test_rights_of_another_user(self):
        report = self.verify("--acl-user", NODE)
        self.assertEqual(report.findings, set(), report)
        self.redis.ask("ACL", "SETUSER", NODE, "-evalsha", "resetkeys")
        report = self.verify("--acl-user", NODE)
        check = self.of(report, "acl", "failed")
        self.assertIn(f"user {NODE} lacks +evalsha ~pen:*", check["figure"])
        self.assertEqual(report.findings, {"acl"}, report)

    def test_a_user_that_may_do_everything(self):
        check = self.of(Report("--engine", url(self.redis, *redis_fleet.ADMIN)), "acl-excess", "warning")
        self.assertIn("delete everything", check["figure"])
        self.assertIn("ACL SETUSER penstock on >PASSWORD resetkeys ~pen:*", check["remedy"])
        with redis_fleet.Redis(*SOUND, users=None) as open_to_all:
            check = self.of(Report("--engine", open_to_all.url()), "acl-excess", "warning")
            self.assertIn("without password", check["figure"])

    def test_what_a_node_may_not_ask_is_skipped_and_says_why(self):
        self.redis.ask("ACL", "SETUSER", NODE, "-info", "-config|get")
        report = Report("--engine", self.redis.url(), *self.calm)
        # Strict limits alone need it.
        self.assertEqual((report.code, report.findings), (1, {"acl"}), report)
        self.assertIn("lacks +info", self.of(report, "acl", "warning")["figure"])
        for name in ("eviction", "memory", "persistence", "version", "builds", "ttl", "acl-excess"):
            self.assertIn("NOPERM", " ".join(self.of(report, name, "skipped")["details"]), report)
        for name in ("atomicity", "scripts", "clock", "latency"):
            self.of(report, name, "ok")

    def test_keys_without_ttl_and_values_of_others(self):
        self.redis.ask("SET", "pen:planted", "text")
        self.redis.ask("SET", "elsewhere", "text")
        report = self.verify()
        self.assertEqual(self.of(report, "ttl", "warning")["details"][-1], "without TTL: pen:planted")
        self.assertEqual(self.of(report, "layout", "warning")["details"][-1], "not Penstock's: pen:planted")
        self.assertEqual(report.findings, {"ttl", "layout"}, report)
        self.redis.ask("SET", "pen:planted", b"\x02 a newer layout", "PX", 60_000)
        report = self.verify()
        self.assertIn("1 newer", self.of(report, "layout", "warning")["figure"])

    def test_nodes_of_this_build_and_of_another(self):
        policy = self.write("policy.yaml", redis_fleet.policy([{"name": "a", "key": ["user"], "rate": "100/s"}]))
        with redis_fleet.Fleet(1, policy, self.redis.url()) as fleet, Resp(("127.0.0.1", self.redis.port)) as other:
            fleet.wait_ready()
            self.assertEqual(fleet[0].check({"user": "1"})["outcome"], "allowed")
            check = self.of(self.verify(), "builds", "ok")
            self.assertNotIn("0 connections of this build", check["figure"])
            other.ask("AUTH", *redis_fleet.ADMIN)
            other.ask("CLIENT", "SETNAME", "penstock-0123456789ab")
            check = self.of(self.verify(), "builds", "warning")
            self.assertIn("scripts 0123456789ab: 1 connections, another build", check["details"])

    def test_a_time_out_that_the_server_does_not_keep(self):
        stop = threading.Event()

        def hold_up():
            with self.redis.connect() as connection:
                while not stop.is_set():
                    connection.ask("EVAL", "local t = redis.call('TIME') local e = t[1] * 1000000 + t[2] + 60000 "
                                           "repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > e", 0)
                    time.sleep(0.02)
        holder = threading.Thread(target=hold_up)
        holder.start()
        try:
            report = Report("--engine", url(self.redis))
        finally:
            stop.set()
            holder.join()
        self.of(report, "latency", "failed")

    def test_settings_come_from_the_policy(self):
        self.redis.ask("ACL", "SETUSER", "verify", "~other:*")
        policy = self.write("policy.yaml", json.dumps({"engine": {"url": url(self.redis), "prefix": "other:"},
                                                       "domains": {"api": {"limits": [{"name": "a", "rate": "1/s"}]}}}))
        report = Report("--policy", policy)
        self.assertIn("other:", self.of(report, "ttl", "ok")["figure"])

    def test_text_for_people(self):
        self.redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        done = harness.run("verify", "--engine", url(self.redis))
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("failed   eviction          maxmemory-policy allkeys-lru\n", done.stdout)
        self.assertIn("-> CONFIG SET maxmemory-policy noeviction", done.stdout)
        self.assertNotIn(PASSWORD, done.stdout + done.stderr)


class ShiftedClock:
    """Between verify and a Redis: passes everything on, but what TIME answers is `shift` seconds ahead."""

    HEAD = b"*2\r\n$10\r\n"

    def __init__(self, redis, shift):
        self.redis, self.shift = redis, shift
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sockets = [self.listener]
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.redis.port))
            self.sockets += [client, server]
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source, target, shifts):
        try:
            while data := source.recv(65_536):
                # The answer to a TIME that was asked alone; what scripts do with their own clock is theirs.
                if shifts and data.startswith(self.HEAD):
                    seconds = data[len(self.HEAD):][:10]
                    data = self.HEAD + b"%d" % (int(seconds) + self.shift) + data[len(self.HEAD) + 10:]
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for opened in self.sockets:
            opened.close()


class Clocks(Case):
    def test_a_server_whose_clock_is_wrong(self):
        with redis_fleet.Redis(*SOUND, users=WITH_VERIFY) as redis, ShiftedClock(redis, 30) as shifted:
            report = Report("--engine", f"redis://verify:{PASSWORD}@127.0.0.1:{shifted.port}")
        self.assertRegex(self.of(report, "clock", "warning")["figure"], r"^(29999|30000)\.\d+ ms from our clock$")


class Sentinels(Case):
    def setUp(self):
        super().setUp()
        self.group = self.enterContext(redis_groups.SentinelSet(*SOUND, "min-replicas-to-write 1"))
        for server in self.group.servers:
            server.ask("ACL", "SETUSER", "verify", "on", f">{PASSWORD}", *NODE_RULES.split(), *MORE.split())
        # On the sentinels it is one who may order a failover: their default user.
        self.url = self.group.url.partition("?")[0].replace(f"{NODE}:{NODE_PASSWORD}@", f"verify:{PASSWORD}@")

    def test_sound_then_failover_then_broken_step_by_step(self):
        report = Report("--engine", self.url, *self.calm, "--failover")
        self.assertEqual((report.code, report.findings), (0, set()), report)
        self.assertEqual(set(report.checks), EVERYWHERE | {"sentinel"})
        self.assertIn("3 of 3 sentinels answer", self.of(report, "sentinel", "ok")["figure"])
        self.assertRegex(self.of(report, "failover", "ok")["figure"], r"^decisions unavailable for \d+ ms, \d+ of \d+$")
        self.assertIs(self.group.master, self.group.servers[1])
        self.group.wait_replicas()
        redis_groups.wait_for("sentinels that have seen it", lambda: all(
            "err" not in sentinel.ask("SENTINEL", "REPLICAS", self.group.NAME)[0] for sentinel in self.group.sentinels))

        self.group.sentinels[2].kill()
        report = Report("--engine", self.url, *self.calm)
        self.assertIn("2 of 3 sentinels answer", self.of(report, "sentinel", "warning")["figure"])
        self.assertEqual(report.findings, {"sentinel"}, report)

        self.group.sentinels[1].kill()
        self.assertIn("1 of 3", self.of(Report("--engine", self.url, *self.calm), "sentinel", "failed")["figure"])

    def test_settings_of_masters_and_replicas(self):
        master, replica = self.group.servers
        master.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        replica.ask("CONFIG", "SET", "replica-read-only", "no")
        replica.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        replica.ask("ACL", "SETUSER", "verify", "-evalsha")
        report = Report("--engine", self.url, *self.calm)
        check = self.of(report, "replication", "failed")
        self.assertEqual(check["figure"], "replica-read-only no")
        self.assertIn(f"127.0.0.1:{master.port}: min-replicas-to-write 0", check["details"])
        self.of(report, "eviction", "failed")
        self.assertIn("+evalsha", self.of(report, "acl", "failed")["remedy"])  # it would show after a failover

    def test_a_replica_that_is_gone(self):
        self.group.servers[0].ask("CONFIG", "SET", "min-replicas-to-write", 0)
        self.group.servers[1].kill()
        redis_groups.wait_for("sentinels that miss the replica", lambda: all(
            "down" in str(sentinel.ask("SENTINEL", "REPLICAS", self.group.NAME)) for sentinel in self.group.sentinels))
        check = self.of(Report("--engine", self.url, *self.calm), "sentinel", "failed")
        self.assertEqual(check["figure"], "no replica that could be promoted")


class InACluster(Case):
    def setUp(self):
        super().setUp()
        self.group = self.enterContext(redis_groups.Cluster(*SOUND, "min-replicas-to-write 1",
                                                            "cluster-require-full-coverage no"))
        for node in self.group.nodes:
            node.ask("ACL", "SETUSER", "verify", "on", f">{PASSWORD}", *NODE_RULES.split(), *MORE.split())
        self.url = self.group.url.replace(f"{NODE}:{NODE_PASSWORD}@", f"verify:{PASSWORD}@")

    def test_sound_then_failover_then_broken_step_by_step(self):
        report = Report("--engine", self.url, *self.calm, "--failover")
        self.assertEqual((report.code, report.findings), (0, set()), report)
        self.assertEqual(set(report.checks),
                         EVERYWHERE | {"cluster-slots", "cluster-replicas", "cluster-full-coverage"})
        self.assertIn("16384 of 16384 slots served, 6 nodes", self.of(report, "cluster-slots", "ok")["figure"])
        self.of(report, "failover", "ok")
        self.group.wait_ok()

        for node in self.group.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes")
        report = Report("--engine", self.url, *self.calm)
        self.of(report, "cluster-full-coverage", "warning")
        self.assertEqual(report.findings, {"cluster-full-coverage"}, report)
        for node in self.group.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
            node.ask("CLUSTER", "DELSLOTS", 7)
        check = self.of(Report("--engine", self.url, *self.calm), "cluster-slots", "failed")
        self.assertIn("16383 of 16384", check["figure"])

    def test_a_master_without_replica(self):
        self.group.nodes[0].ask("CONFIG", "SET", "min-replicas-to-write", 0)
        self.group.nodes[self.group.replica_of(0)].kill()
        redis_groups.wait_for("a cluster that misses it", lambda: all(
            any("fail" in flags.split(",") for _, flags, _, _ in redis_groups.nodes_of(node))
            for node in self.group.nodes if node.running))
        check = self.of(Report("--engine", self.url, *self.calm), "cluster-replicas", "failed")
        self.assertEqual(check["figure"], "3 masters, 1 without replica")


class Usage(Case):
    def test_exit_codes(self):
        run = harness.run
        self.assertEqual(run("verify").returncode, 2)
        self.assertEqual(run("verify", "--engine", "").returncode, 2)
        self.assertEqual(run("verify", "--engine", "redis://h:port").returncode, 2)
        self.assertEqual(run("verify", "--engine", "mysql://h").returncode, 2)
        self.assertEqual(run("verify", "--engine", "memory:", "--prefix", "a b").returncode, 2)
        self.assertEqual(run("verify", "--policy", "/nowhere.yaml").returncode, 2)
        self.assertEqual(run("verify", "--help").returncode, 0)

    def test_memory_has_nothing_to_ask(self):
        report = Report("--engine", "memory:")
        self.assertEqual((report.code, report.checks["engine"]["status"]), (0, "skipped"), report)

    def test_what_cannot_be_reached(self):
        with redis_fleet.Redis(*SOUND, users=WITH_VERIFY) as redis:
            report = Report("--engine", url(redis, password="wrong-secret"))
            self.assertEqual(report.code, 3, report)
            self.assertIn("WRONGPASS", report.json["unreachable"])
            self.assertNotIn("wrong-secret", report.text + report.log)
            self.assertEqual(report.json["ok"], False)
            gone = url(redis)
        report = Report("--engine", gone)
        self.assertEqual((report.code, report.checks), (3, {}), report)
        self.assertIn(gone.rsplit("@", 1)[1], report.json["unreachable"])


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    harness.main()
