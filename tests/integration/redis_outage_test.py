#!/usr/bin/env python3
"""Four nodes with `on_failure: local` while their engine is away: what a bucket admits in all is at most its limit where
nobody had touched it, at most what was left where all had seen it, and k of n nodes cut off alone add at most k/n of it.
When the engine is back its books say what was used, counted in Redis."""
import time
from concurrent.futures import ThreadPoolExecutor

import harness
import redis_books as books
import redis_fleet
import side_by_side
from fault_traffic import Traffic
from tcp_proxy import Proxy

NODES = 4


def limit(rate, **more):
    return {"name": "daily", "key": ["user"], "rate": rate, "on_failure": "local", **more}


class Case(harness.TestCase):
    def start(self, *limits, urls=None, **engine):
        """Redis and NODES nodes that know how many they are. The time-out is one that a busy machine keeps, too: what fails
        here fails at once."""
        engine = {"timeout": "3s", **engine}
        self.policy = self.write("policy.yaml", redis_fleet.policy(list(limits), **engine))
        if urls is None:
            self.redis = self.enterContext(redis_fleet.Redis("appendonly yes", "appendfsync always"))
        self.fleet = self.enterContext(redis_fleet.Fleet(NODES, self.policy, urls and None or self.redis.url(), "--threads", "1",
                                                         urls=urls))
        self.fleet.wait_ready()
        harness.wait_for(lambda: self.fleet.metrics(nodes_known) == [NODES] * NODES,
                         lambda: f"they do not know each other: {self.fleet.metrics(nodes_known)}")

    def spend(self, user, asked=40, nodes=None):
        """Every node is asked so often, side by side; how many each admitted, and whether any answer was the engine's."""
        nodes = self.fleet.nodes if nodes is None else nodes

        def ask(node):
            answers = [node.check({"user": user}) for _ in range(asked)]
            return (sum(answer["allowed"] for answer in answers), all(answer["degraded"] for answer in answers),
                    any(answer["degraded"] for answer in answers))
        with ThreadPoolExecutor(len(nodes)) as pool:
            told = list(pool.map(ask, nodes))
        self.degraded, self.any_degraded = all(d for _, d, _ in told), any(d for *_, d in told)
        return [admitted for admitted, *_ in told]

    def all_see(self, user):
        """Every node hears of the engine how full the bucket is."""
        for node in self.fleet:
            self.assertFalse(node.check({"user": user}, cost=0)["degraded"])

    def engine_fails(self):
        """And every node has noticed: nobody asks it any more."""
        self.redis.kill()
        for node in self.fleet:
            harness.wait_for(lambda node=node: node.check({"user": "nobody"}, cost=0)["degraded"])

    def engine_returns(self):
        """With all that it knew."""
        self.redis.start()
        self.until_back()

    def until_back(self):
        for node in self.fleet:
            harness.wait_for(lambda node=node: not node.check({"user": "nobody"}, cost=0)["degraded"], node.log)

    def assert_booked(self, redis, user, count):
        harness.wait_for(lambda: books.used(redis).get(user, 0) == count,
                         lambda: f"{user}: {books.used(redis)}, not {count}; {self.fleet.metrics(told)}")
        time.sleep(0.5)  # nobody tells more
        self.assertEqual(books.used(redis).get(user, 0), count)


def value(page, name):
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in page.splitlines() if line.startswith((name + " ", name + "{")))


def nodes_known(page):
    return value(page, "penstock_fleet_nodes")


def told(page):
    return {name: value(page, name) for name in ("penstock_reconciled_total", "penstock_reconciliation_lost_total",
                                                 "penstock_local_buckets", "penstock_undo_lost_total")}


class TheEngineIsAwayForAll(Case):
    """Every algorithm: 100 a day."""

    def away(self, **more):
        self.start(limit("100/d", **more))
        for node in self.fleet:
            for _ in range(15):
                self.assertTrue(node.check({"user": "seen"})["allowed"])
        self.all_see("seen")
        self.engine_fails()
        self.assertEqual(self.spend("untouched"), [25] * NODES)
        self.assertTrue(self.degraded)
        self.assertEqual(self.spend("seen"), [10] * NODES, "60 of 100 were used: 40 are left")
        self.engine_returns()
        for user in "untouched", "seen":
            self.assert_booked(self.redis, user, 100)
            self.assertEqual(self.spend(user, 5), [0] * NODES)
            self.assertFalse(self.any_degraded)

    def test_a_token_bucket(self):
        self.away()

    def test_a_fixed_window(self):
        self.away(algorithm="fixed_window")

    def test_a_sliding_window(self):
        self.away(algorithm="sliding_window")

    def test_a_sliding_log(self):
        self.away(algorithm="sliding_log")

    def test_a_burst_smaller_than_the_fleet_gives_one_to_each_of_the_first(self):
        self.start(limit("3/d"))
        self.engine_fails()
        self.assertEqual(sorted(self.spend("untouched", 5)), [0, 1, 1, 1])
        self.engine_returns()
        self.assert_booked(self.redis, "untouched", 3)

    def test_one_saw_it_used_up_and_three_never_saw_it(self):
        self.start(limit("100/d"), {**limit("3/d"), "name": "three", "key": ["three"]})
        self.assertTrue(self.fleet[0].check({"user": "u"}, cost=100)["allowed"])
        self.engine_fails()
        self.assertEqual(self.spend("u"), [0, 25, 25, 25])
        self.engine_returns()
        self.assert_booked(self.redis, "u", 175)
        self.assertEqual(self.spend("u", 3), [0] * NODES)

    def test_what_drained_away_meanwhile_is_not_charged_again_and_what_was_used_is(self):
        """A bucket at 100, 5 a second for the fleet: each node has a quarter of it as seed, admits 3 when 3 have drained, and
        3 each are what is charged."""
        self.start(limit("5/s", burst=100))
        self.assertTrue(self.fleet[0].check({"user": "u"}, cost=100)["allowed"])
        self.all_see("u")
        before = books.token_bucket(self.redis, "u")
        self.engine_fails()
        admitted = 0
        for node in self.fleet:
            own = 0
            while own < 3:
                own += node.check({"user": "u"})["allowed"]
                time.sleep(0.02)
            admitted += own
        self.engine_returns()
        harness.wait_for(lambda: sum(told(node.ask("GET", "/metrics").body.decode())["penstock_reconciled_total"]
                                     for node in self.fleet) == admitted, lambda: f"{self.fleet.metrics(told)}")
        after = books.token_bucket(self.redis, "u")
        self.assertEqual(before[2:], after[2:])
        drains, unit = after[2:]
        tick = 1_000_000 * drains // (5 * unit)  # us, as 5 tokens are drained in a second
        drained = drains * (after[0] // tick - before[0] // tick)
        self.assertEqual(after[1], before[1] - drained + admitted * unit)


class WindowsAndOptions(Case):
    def test_use_of_a_window_that_ended_in_the_outage_is_not_charged_to_the_next(self):
        window_s = 4
        self.start(limit(f"40/{window_s}s", algorithm="fixed_window"))
        time.sleep(window_s - time.time() % window_s + 0.05)
        self.engine_fails()
        began = time.time() // window_s
        self.assertEqual(sum(self.spend("u", 20)), 40)
        self.assertEqual(time.time() // window_s, began, "the machine is too slow for this test")
        time.sleep(window_s - time.time() % window_s + 0.2)
        self.engine_returns()
        harness.wait_for(lambda: not any(t["penstock_local_buckets"] for t in self.fleet.metrics(told)),
                         lambda: f"{self.fleet.metrics(told)}")
        self.assertEqual(books.used(self.redis).get("u", 0), 0)

    def test_who_starts_in_the_outage_denies_until_it_knows_the_fleet(self):
        self.start(limit("100/d"))
        self.engine_fails()
        self.fleet.kill(3)
        fresh = self.fleet.start_again(3)
        answer = fresh.check({"user": "u"})
        self.assertEqual((answer["allowed"], answer["outcome"], answer["degraded"]), (False, "unavailable", True))
        self.assertEqual(self.spend("u", nodes=self.fleet.nodes[:3]), [25] * 3)
        self.redis.start()
        harness.wait_for(lambda: not fresh.check({"user": "u"})["degraded"])

    def test_who_starts_in_the_outage_with_a_configured_size_admits_its_share(self):
        self.start(limit("100/d"), fleet_size=NODES)
        self.engine_fails()
        self.fleet.kill(3)
        self.fleet.start_again(3)
        self.assertEqual(self.spend("u"), [25] * NODES)
        self.engine_returns()
        self.assert_booked(self.redis, "u", 100)


class SomeAreCutOff(Case):
    def test_two_of_four_add_at_most_a_half(self):
        self.redis = self.enterContext(redis_fleet.Redis())
        proxy = self.enterContext(Proxy(("127.0.0.1", self.redis.port)))
        self.start(limit("100/d"), urls=[self.redis.url()] * 2 + [self.redis.url(proxy.port)] * 2)
        proxy.cut()
        for node in self.fleet.nodes[2:]:
            harness.wait_for(lambda node=node: node.check({"user": "nobody"}, cost=0)["degraded"])
        with_engine = self.spend("u", 120, self.fleet.nodes[:2])
        self.assertEqual((sum(with_engine), self.any_degraded), (100, False))
        self.assertEqual(self.spend("u", nodes=self.fleet.nodes[2:]), [25, 25])
        proxy.heal()
        self.until_back()
        self.assert_booked(self.redis, "u", 150)
        self.assertEqual(self.spend("u", 5), [0] * NODES)


class UnderTraffic(Case):
    def through(self, fails, heals):
        self.start(limit("200/d"), timeout="100ms")
        with Traffic(self.fleet, connections=16, keys=10) as traffic:
            traffic.wait_decided(200)
            fails()
            time.sleep(1)
            self.assertEqual(traffic.decided(time.monotonic() - 0.3), 0)
            heals()
            traffic.wait_decided(100)
            self.until_back()
        traffic.check(self)
        degraded = sum(sample.degraded and sample.outcome == "admitted" for sample in traffic.samples)
        self.assertGreater(degraded, 0, "local decisions were made")
        return traffic

    def assert_books(self, traffic, unknown):
        """Redis knows of every request that was admitted, and besides of at most `unknown`."""
        def missing():
            used = books.used(self.redis)
            return {user: (count, used.get(user, 0)) for user, count in traffic.admitted.items() if used.get(user, 0) < count}
        harness.wait_for(lambda: not missing(), lambda: f"admitted, booked: {missing()}; {self.fleet.metrics(told)}")
        time.sleep(0.5)
        used = books.used(self.redis)
        self.assertEqual(missing(), {})
        self.assertLessEqual(sum(used.values()) - sum(traffic.admitted.values()), unknown)

    def test_frozen_and_back_the_books_are_right(self):
        self.redis = None
        traffic = self.through(lambda: self.redis.freeze(), lambda: self.redis.thaw())
        self.assert_books(traffic, unknown=16 * 5)

    def test_killed_and_started_the_books_are_right(self):
        traffic = self.through(lambda: self.redis.kill(), lambda: self.redis.start())
        self.assert_books(traffic, unknown=16 * 5)


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    side_by_side.main(3)
