#!/usr/bin/env python3
"""Limits that are changed while nodes share a Redis: by PUT under traffic, by files, revisions, restarts and a registry that
was lost. No node admits above a limit that was lowered, and what was used stays used."""
import time

import harness
import redis_books as books
import redis_fleet
import side_by_side
from fault_traffic import Traffic

LIMIT = "/v1/limits/api/daily"
FOLLOWS_S = 1.0  # by then every node has what a PUT said


def limit(rate, **more):
    return {"name": "daily", "key": ["user"], "rate": rate, "on_failure": "deny", **more}


class Case(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.redis = self.enterContext(redis_fleet.Redis("appendonly yes", "appendfsync always"))

    def file(self, rate, revision=None, name="policy.yaml", **more):
        text = redis_fleet.policy([limit(rate, **more)], timeout="2s")
        return self.write(name, text if revision is None else text.replace("{", f'{{"revision": {revision},', 1))

    def start(self, count, policy, url=None):
        fleet = self.enterContext(redis_fleet.Fleet(count, policy, url or self.redis.url(), "--threads", "2"))
        fleet.wait_ready()
        return fleet

    def put(self, node, rate, **more):
        answer = node.ask("PUT", LIMIT, limit(rate, **more))
        self.assertEqual(answer.status, 200, answer)
        return answer.json()["version"]

    def capacity(self, node, user="nobody"):
        answer = node.check({"user": user}, cost=0)
        self.assertFalse(answer["degraded"], answer)
        return answer["limit"]

    def follows(self, nodes, capacity):
        harness.wait_for(lambda: all(self.capacity(node) == capacity for node in nodes),
                         lambda: f"{[self.capacity(node) for node in nodes]}, not {capacity}")


class UnderTraffic(Case):
    def test_once_it_is_lowered_no_node_admits_above_it(self):
        exact = {"algorithm": "sliding_log"}  # in which nothing drains meanwhile
        fleet = self.start(4, self.file("10000/d", **exact))
        with Traffic(fleet, connections=16, keys=10) as traffic:
            harness.wait_for(lambda: min(traffic.admitted[f"u{i}"] for i in range(10)) > 60)
            self.put(fleet[0], "50/d", **exact)
            put = time.monotonic()
            self.assertEqual(fleet[0].check({"user": "u3"})["outcome"], "denied")
            told = time.monotonic()
            time.sleep(FOLLOWS_S + 0.5)
            fresh = [node.check({"user": "fresh"})["allowed"] for _ in range(20) for node in fleet]
            self.assertEqual(sum(fresh), 50)
            end = time.monotonic()
            removed = fleet[1].ask("DELETE", LIMIT)
            self.assertEqual(removed.status, 200, removed)
            self.follows(fleet, 10_000)
            since = time.monotonic()
            harness.wait_for(lambda: traffic.count("admitted", since) > 20)
        traffic.check(self)
        above = [sample for sample in traffic.samples if sample.outcome == "admitted" and sample.sent < end and
                 (sample.sent > told and sample.user == "u3" or sample.sent > put + FOLLOWS_S)]
        self.assertEqual(above, [])
        self.assertEqual(books.used(self.redis)["u5"], traffic.admitted["u5"], "what was used stayed used")

    def test_each_node_hears_of_a_change_on_one_connection(self):
        def heard(page):
            lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("penstock_redis_hints"))
            return int(lines["penstock_redis_hints_listening"]), int(lines['penstock_redis_hints_total{kind="limits"}'])
        fleet = self.start(3, self.file("100/d"))  # with two loops each
        harness.wait_for(lambda: all(listens for listens, _ in fleet.metrics(heard)), lambda: fleet.metrics(heard))
        self.assertEqual(self.redis.ask("PUBSUB", "NUMSUB", "pen:hints"), ["pen:hints", 3])
        before = fleet.metrics(heard)
        self.put(fleet[0], "50/d")
        harness.wait_for(lambda: fleet.metrics(heard) == [(1, hints + 1) for _, hints in before], lambda: fleet.metrics(heard))
        self.follows(fleet, 50)

    def test_a_node_that_has_not_heard_of_it_is_told_by_the_bucket(self):
        # Without hints: a node that was not asked hears of a change only when it asks, once a second.
        self.redis.ask("ACL", "SETUSER", redis_fleet.USER, "resetchannels", "-subscribe")
        fleet = self.start(2, self.file("100000/d"))
        for turn in range(12):
            user = f"user{turn}"
            self.put(fleet[turn % 2], f"{1_000 - turn}/d")
            self.assertTrue(fleet[turn % 2].check({"user": user}, cost=900)["allowed"])
            self.put(fleet[turn % 2], f"{800 - turn}/d")
            self.assertEqual(fleet[turn % 2].check({"user": user})["outcome"], "denied", "and the bucket knows it")
            answer = fleet[1 - turn % 2].check({"user": user})
            self.assertEqual((answer["outcome"], answer["limit"], answer["degraded"]), ("denied", 800 - turn, False))

    def test_what_drained_before_the_change_drained_by_the_old_rate(self):
        """On Redis and in memory: 100 used under 100 in 2 s, lowered to 1 an hour, first asked when 2 s are over."""
        policy = self.file("100/2s")
        fleets = [self.start(1, policy), self.start(1, policy, "memory:")]
        for (node,) in fleets:
            self.assertTrue(node.check({"user": "u"}, cost=100)["allowed"])
        used = time.monotonic()
        for (node,) in fleets:
            self.put(node, "1/h", burst=100)
        time.sleep(max(0.0, used + 2.1 - time.monotonic()))
        answers = [node.check({"user": "u"}) for (node,) in fleets]
        self.assertEqual([(a["outcome"], a["limit"], a["remaining"]) for a in answers], [("allowed", 100, 99)] * 2)
        self.assertEqual([node.check({"user": "u"})["remaining"] for (node,) in fleets], [98] * 2, "and no more by the old rate")


class WhoWins(Case):
    def test_put_beats_files_until_its_delete_through_restarts(self):
        fleet = self.start(2, self.file("100/d", 7))
        self.assertTrue(fleet[0].check({"user": "u"}, cost=30)["allowed"])
        version = self.put(fleet[1], "40/d")
        self.follows(fleet, 40)
        self.file("50/d", 8)
        for index in range(2):  # one after another, as a fleet is rolled out
            fleet.nodes[index].stop()
            fleet.start_again(index)
            self.follows(fleet, 40)
        self.assertEqual(fleet[0].ask("GET", LIMIT).json()["version"], version)
        self.redis.restart()
        harness.wait_for(lambda: not any(node.check({"user": "u"}, cost=0)["degraded"] for node in fleet))
        self.assertEqual([node.check({"user": "u"}, cost=0)["remaining"] for node in fleet], [10, 10])
        self.assertEqual(fleet[0].ask("DELETE", LIMIT).status, 200)
        self.follows(fleet, 50)
        self.assertEqual([node.check({"user": "u"}, cost=0)["remaining"] for node in fleet], [20, 20])
        for index in range(2):
            fleet.kill(index)
            fleet.start_again(index)
        self.follows(fleet, 50)

    def test_the_highest_revision_wins_and_the_same_with_other_content_is_refused(self):
        first = self.start(1, self.file("100/d", 7, "seven.yaml"))
        older = self.start(1, self.file("10/d", 6, "six.yaml"))
        none = self.start(1, self.file("9/d", name="none.yaml"))
        nodes = [first[0], older[0], none[0]]
        self.follows(nodes, 100)
        other = harness.run("serve", "--policy", self.file("101/d", 7, "other.yaml"), "--engine", self.redis.url(),
                            "--http", "127.0.0.1:0", "--resp", "off")
        self.assertEqual(other.returncode, 2, other.stderr)
        self.assertIn("revision 7 is registered with other content", other.stderr)
        newer = self.start(1, self.file("80/d", 8, "eight.yaml"))
        self.follows([*nodes, newer[0]], 80)
        first.kill(0)
        first.start_again(0)
        self.follows([first[0], *nodes[1:], newer[0]], 80)

    def lose_the_registry(self, before_the_next_starts):
        """Three nodes hold a PUT on top of revision 8; the store is emptied and one of them starts again with an older file.
        (that version, the nodes)"""
        fleet = self.start(3, self.file("100/d", 8))
        self.put(fleet[0], "60/d")
        self.follows(fleet, 60)
        version = fleet[2].ask("GET", LIMIT).json()["version"]
        fleet.kill(2)
        self.redis.ask("FLUSHALL")
        before_the_next_starts()
        self.file("10/d", 7)
        fleet.start_again(2)
        return version, fleet

    def assert_at_rest(self, fleet):
        """Nobody goes round in circles about who is newer."""
        with Traffic(fleet, keys=5) as traffic:
            harness.wait_for(lambda: len(traffic.samples) > 500)
        traffic.check(self)
        self.assertLess(traffic.count("unavailable"), 25)
        return traffic

    def test_a_registry_that_was_lost_is_written_again_by_those_who_remember_it(self):
        def written():
            harness.wait_for(lambda: self.redis.ask("EXISTS", "pen:{registry}") == 1)
        version, fleet = self.lose_the_registry(written)
        self.follows(fleet, 60)
        self.assertEqual(fleet[2].ask("GET", LIMIT).json()["version"], version)
        self.assertEqual(max(self.assert_at_rest(fleet).admitted.values()), 60)

    def test_who_starts_before_they_have_does_not_take_them_back_behind_their_version(self):
        version, fleet = self.lose_the_registry(lambda: None)
        harness.wait_for(lambda: len({self.capacity(node) for node in fleet}) == 1)
        time.sleep(2 * FOLLOWS_S)
        found = {node.ask("GET", LIMIT).json()["version"] for node in fleet}
        self.assertEqual(len(found), 1)
        self.assertGreaterEqual(found.pop(), version)
        self.assert_at_rest(fleet)


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    side_by_side.main(3)
