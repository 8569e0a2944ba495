#!/usr/bin/env python3
"""Penstock behind Sentinels: masters are replaced by order, by death and while they are frozen, Sentinels come and go, and
the nodes find the master by themselves."""
import harness
import redis_books as books
import redis_fleet
import redis_groups
import side_by_side
from fault_traffic import Traffic

LIMIT, KEYS = 100, 10
DAILY = {"name": "daily", "key": ["user"], "rate": f"{LIMIT}/d", "on_failure": "deny"}


class Case(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.policy = self.write("policy.yaml", redis_fleet.policy([DAILY], timeout="100ms"))
        self.set = self.enterContext(redis_groups.SentinelSet())

    def nodes(self, url=None):
        fleet = self.enterContext(redis_fleet.Fleet(2, self.policy, url or self.set.url, "--threads", "2"))
        fleet.wait_ready()
        return fleet

    def through(self, *events):
        """Traffic through the events, one after another, until everybody is refused."""
        with Traffic(self.nodes(), keys=KEYS) as traffic:
            traffic.wait_decided(100)
            for event in events:
                event()
                traffic.wait_decided(50)
            harness.wait_for(
                lambda: len({s.user for s in traffic.samples[-6 * KEYS:] if s.outcome == "denied"}) == KEYS,
                lambda: f"not everybody is refused in the end: {traffic.samples[-KEYS:]}")
        traffic.check(self)
        # What the new master did not know yet, once more.
        self.assertLessEqual(max(traffic.admitted.values()), 2 * LIMIT)
        return traffic


class TheMasterIsReplaced(Case):
    def test_by_order_and_back(self):
        def back():
            self.set.wait_replicas()
            self.set.failover()
        traffic = self.through(self.set.failover, back)
        self.assertEqual(set(books.used(self.set.master).values()), {LIMIT})
        self.assertGreaterEqual(min(traffic.admitted.values()), LIMIT // 2)

    def test_by_death_and_the_dead_one_comes_back_as_a_replica(self):
        dead = []

        def back():
            dead[0].start()
            self.set.wait_replicas()
        self.through(lambda: dead.append(self.set.kill_master()), back)
        self.assertEqual(books.used(self.set.master), books.used(dead[0]))

    def test_while_frozen_and_it_decides_nothing_more_when_it_wakes(self):
        old, other = self.set.servers

        def named():
            return {int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.set.NAME)[1])
                    for sentinel in self.set.sentinels}

        def frozen():
            old.freeze()
            redis_groups.wait_for("a new master", lambda: named() == {other.port} and redis_groups.is_master(other))

        def thawed():
            old.thaw()
            self.set.wait_replicas()
        self.through(frozen, thawed)
        self.assertEqual(books.used(self.set.master), books.used(old))


class SentinelsComeAndGo(Case):
    def test_without_any_the_master_is_kept_and_with_them_a_new_one_is_found(self):
        def die():
            for sentinel in self.set.sentinels:
                sentinel.kill()

        def back_and_switch():
            for sentinel in self.set.sentinels:
                sentinel.start()
            self.set.failover()
        traffic = self.through(die, back_and_switch)
        self.assertEqual(traffic.lost, [])

    def test_all_of_it_gone_and_back(self):
        everyone = [*self.set.sentinels, *self.set.servers]

        def gone():
            for server in everyone:
                server.kill()

        def back():
            for server in everyone:
                server.start()
        with Traffic(self.nodes(), keys=KEYS) as traffic:
            traffic.wait_decided()
            gone()
            harness.wait_for(lambda: traffic.count("unavailable") > 50)
            back()
            traffic.wait_decided()
        traffic.check(self)

    def test_a_master_that_they_do_not_know_is_named_in_the_log(self):
        with redis_fleet.Fleet(1, self.policy, self.set.url.replace("/main?", "/main-of-another?")) as fleet:
            fleet[0].wait_log("knows no master named main-of-another")
            self.assertEqual(fleet[0].check({"user": "1"})["outcome"], "unavailable")


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    side_by_side.main(3)
