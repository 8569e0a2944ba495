#!/usr/bin/env python3
"""The groups of servers that tests of failover stand on: masters are replaced, slots move, and all that is started ends."""
import harness
import redis_fleet
import redis_groups
from wire import Resp


class Sentinels(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.group = self.enterContext(redis_groups.SentinelSet())

    def test_replaced_by_order_and_by_death(self):
        first, second = self.group.servers
        self.assertIs(self.group.master, first)
        first.ask("SET", "pen:a", "1")
        self.group.wait_replicas()
        self.assertIs(self.group.failover(), second)
        self.assertEqual(second.ask("GET", "pen:a"), "1")
        self.group.wait_replicas()
        self.assertIs(self.group.kill_master(), second)
        self.assertIs(self.group.master, first)
        second.start()
        self.group.wait_replicas()
        self.assertEqual(second.ask("ROLE")[0], "slave")


class InACluster(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.group = self.enterContext(redis_groups.Cluster())

    def test_slots_move_and_masters_are_replaced(self):
        slot = self.group.slot_of("pen:{a}1")
        source = self.group.owner(slot)
        target = (source + 1) % 3
        for number in range(5):
            self.group.nodes[source].ask("SET", f"pen:{{a}}{number}", number)
        self.group.begin_migration(slot, source, target)
        self.assertEqual(self.group.move_keys(slot, source, target, 2), 2)
        with self.group.nodes[source].connect() as connection:
            replies = {connection.ask("GET", f"pen:{{a}}{number}").split()[0] for number in range(5)}
        self.assertEqual(replies - set("01234"), {"ASK"})
        while self.group.move_keys(slot, source, target):
            pass
        self.group.end_migration(slot, target)
        self.assertEqual(self.group.owner(slot), target)
        self.group.migrate(slot, source)
        self.assertEqual(self.group.owner(slot), source)
        self.assertEqual(self.group.nodes[source].ask("GET", "pen:{a}4"), "4")

        new = self.group.failover(source)
        self.assertEqual(self.group.owner(slot), new)
        newest = self.group.kill_master(new)
        self.assertEqual((newest, self.group.owner(slot)), (source, source))
        self.group.nodes[new].start()
        self.group.wait_ok()

    def test_penstock_gets_in_everywhere(self):
        for node in self.group.nodes:
            with Resp(("127.0.0.1", node.port)) as connection:
                self.assertEqual(connection.ask("AUTH", redis_fleet.USER, redis_fleet.PASSWORD), "OK")


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    harness.main()
