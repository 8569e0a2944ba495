#!/usr/bin/env python3
"""The operator's checklist for permits, on a real Redis: what must hold when clients crash, Redis stops, a network is cut.
Holders are `penstock run` processes; that never more than N run is judged by intervals that the commands note themselves."""
import os
import signal
import subprocess
import sys
import time

import harness
import permits_intervals
import redis_fleet
from tcp_proxy import Proxy

LEASE_S = 4
PATIENT = {"timeout": "3s"}  # where it is not about the time-out, a slow machine must not decide


def limits(count, lease=f"{LEASE_S}s", **more):
    return [{"name": "jobs", "permits": count, "lease": lease, **more}]


def skip_without_permits():
    """Ends the test as skipped while the engine refuses a policy with permits."""
    policy = harness.ROOT / "build" / f"permits-probe-{os.getpid()}.yaml"
    policy.parent.mkdir(exist_ok=True)
    policy.write_text(redis_fleet.policy(limits(1)))
    try:
        with redis_fleet.Redis() as redis, redis_fleet.Fleet(1, policy, redis.url()):
            pass
    except AssertionError as error:
        if "cannot hold" not in str(error):
            raise
        print("SKIPPED: this engine holds no permits yet")
        sys.exit(harness.SKIPPED)
    finally:
        policy.unlink()


class Case(harness.TestCase):
    def fleet(self, count, policy_limits, **engine):
        """(Redis, nodes)"""
        redis = self.enterContext(redis_fleet.Redis())
        policy = self.write("policy.yaml", redis_fleet.policy(policy_limits, **engine))
        fleet = self.enterContext(redis_fleet.Fleet(count, policy, redis.url()))
        fleet.wait_ready()
        return redis, fleet

    @staticmethod
    def run_line(node_or_port, *args):
        port = node_or_port if isinstance(node_or_port, int) else node_or_port.http[1]
        return [str(part) for part in (harness.program("penstock"), "run", "--server", f"http://127.0.0.1:{port}", "api", *args)]

    def start(self, line, **more):
        process = subprocess.Popen(line, env=harness.environment(), start_new_session=True, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def held(node):
        return node.ask("GET", "/v1/limits/api/jobs/holders").json()

    def wait_in_use(self, node, count):
        harness.wait_for(lambda: self.held(node).get("in_use") == count, lambda: f"not {count}: {self.held(node)}")


class Clients(Case):
    def test_ten_processes_and_five_permits_never_more_than_five_at_once(self):
        _, fleet = self.fleet(2, limits(5, "30s"), **PATIENT)
        log = self.folder / "intervals"
        clients = [self.start(["sh", "-c", permits_intervals.loop(self.run_line(fleet[number % 2], "--wait", "60s"), 5, log)])
                   for number in range(10)]
        for client in clients:
            self.assertEqual(client.wait(harness.PATIENCE_S), 0)
        intervals = permits_intervals.read(log)
        self.assertEqual(len(intervals), 50)
        self.assertLessEqual(permits_intervals.most_at_once(intervals), 5)
        for node in fleet:
            self.assertEqual(self.held(node)["in_use"], 0)

    def test_half_of_200_holders_killed_are_reclaimed_within_one_lease(self):
        lease_s = 10
        _, fleet = self.fleet(2, limits(200, f"{lease_s}s"), **PATIENT)
        holders = [self.start(self.run_line(fleet[number % 2], "--wait", "30s", "--on-loss", "kill", "--", "sleep", "1000"))
                   for number in range(200)]
        self.wait_in_use(fleet[0], 200)
        for holder in holders[::2]:
            holder.kill()
        # In the queue for as long as a lease, and a little for the way: all hundred must come back in it.
        answer = fleet[0].check({}, weight=100, max_wait_ms=(lease_s + 2) * 1_000)
        self.assertTrue(answer["allowed"], answer)
        self.assertEqual(self.held(fleet[1])["in_use"], 200, "the other half holds on")
        self.assertEqual([holder.poll() for holder in holders[1::2]], [None] * 100)
        fleet[1].ask("POST", "/v1/release", {"id": answer["permit"]["id"]})
        for holder in holders[1::2]:
            holder.terminate()
        self.assertEqual({holder.wait(harness.PATIENCE_S) for holder in holders[1::2]}, {128 + signal.SIGTERM})
        self.assertEqual(self.held(fleet[0])["in_use"], 0)


class RedisStops(Case):
    """Answers come within the time-out, and say what the policy says."""

    def stopped(self, on_failure, count=5):
        redis, fleet = self.fleet(2, limits(count, "30s"), timeout="200ms", on_failure=on_failure, fleet_size=2)
        self.assertTrue(fleet[0].check({})["allowed"])
        redis.stop()
        return redis, fleet

    def test_deny(self):
        _, fleet = self.stopped("deny")
        response = fleet[0].ask("POST", "/v1/check", {"domain": "api", "attributes": {}})
        answer = response.json()
        self.assertEqual((response.status, answer["allowed"], answer["outcome"]), (503, False, "unavailable"), answer)
        self.assertIn(answer["reason"], ("timeout", "engine_down"))
        done = subprocess.run(self.run_line(fleet[0], "--", "true"), env=harness.environment(), timeout=harness.PATIENCE_S,
                              capture_output=True, check=False, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_allow(self):
        _, fleet = self.stopped("allow")
        answer = fleet[0].check({})
        self.assertEqual((answer["allowed"], answer["outcome"], answer["degraded"]), (True, "unavailable", True), answer)
        self.assertNotIn("permit", answer)
        done = subprocess.run(self.run_line(fleet[0], "--", "true"), env=harness.environment(), timeout=harness.PATIENCE_S,
                              capture_output=True, check=False, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("without a permit", done.stderr)

    def test_local_is_a_share_less_what_was_seen_held_and_is_reported(self):
        redis, fleet = self.stopped("local", count=4)
        granted = []
        for node in fleet:
            answers = [node.check({}) for _ in range(4)]
            granted.append([answer["permit"]["id"] for answer in answers if answer["allowed"]])
            self.assertTrue(all(answer["degraded"] for answer in answers), answers)
        # Two each; but of the one that was granted before, the first node knows.
        self.assertEqual([len(permits) for permits in granted], [1, 2])
        redis.start()
        # That one is forgotten with the Redis that held it.
        self.wait_in_use(fleet[0], 3)
        for node, permits in zip(fleet, granted):
            for permit in permits:
                self.assertEqual(node.ask("POST", "/v1/release", {"id": permit}).json()["result"], "released")
        self.wait_in_use(fleet[1], 0)


class APartition(Case):
    def start_holder(self, run, **more):
        """Once its command runs, so that it knows of its permit."""
        runs = self.folder / "runs"
        holder = self.start([*run, "--on-loss", "kill", "--", "sh", "-c", f"touch {runs}; exec sleep 1000"], **more)
        harness.wait_for(runs.exists)
        return holder

    def told(self, victim, nodes, cut, heal):
        """`victim` holds one of N = 2 and is cut off: it is told, its lease runs out, and N can be held again."""
        holder = self.start_holder(victim, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(self.held(nodes[0])["in_use"], 1)
        cut()
        said, _ = holder.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual(holder.returncode, 128 + signal.SIGTERM, said)
        self.assertIn("the permit is lost", said)
        self.wait_in_use(nodes[0], 0)
        heal()
        permits = [node.check({})["permit"]["id"] for node in nodes]
        self.assertEqual(self.held(nodes[0])["in_use"], 2)
        for node, permit in zip(nodes, permits):
            self.assertEqual(node.ask("POST", "/v1/release", {"id": permit}).json()["result"], "released")

    def test_of_a_client(self):
        _, fleet = self.fleet(2, limits(2), **PATIENT)
        with Proxy(fleet[1].http) as way:
            self.told(self.run_line(way.port), fleet, way.black_hole, way.heal)

    def test_of_a_node(self):
        redis = self.enterContext(redis_fleet.Redis())
        way = self.enterContext(Proxy(("127.0.0.1", redis.port)))
        policy = self.write("policy.yaml", redis_fleet.policy(limits(2), timeout="200ms", on_failure="deny"))
        fleet = self.enterContext(redis_fleet.Fleet(2, policy, urls=[redis.url(), redis.url(way.port)]))
        fleet.wait_ready()

        def heal():
            way.heal()
            harness.wait_for(lambda: fleet[1].check({}, cost=0).get("outcome") == "allowed")
        self.told(self.run_line(fleet[1]), fleet, way.black_hole, heal)

    def test_shorter_than_the_lease_is_survived(self):
        _, fleet = self.fleet(2, limits(2, "30s"), **PATIENT)
        with Proxy(fleet[1].http) as way:
            # A lease of 6 s is renewed from 2 s on, until 5.7 s.
            holder = self.start_holder(self.run_line(way.port, "--lease", "6s"))
            way.cut()
            time.sleep(3)
            way.heal()
            time.sleep(6)
            self.assertIsNone(holder.poll())
            self.assertEqual(self.held(fleet[0])["in_use"], 1)


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    skip_without_permits()
    harness.main()
