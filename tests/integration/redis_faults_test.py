#!/usr/bin/env python3
"""Two nodes go on answering while their Redis is stopped, frozen, killed, emptied, cut off, full or closed to it: nothing is
lost, nothing hangs, the engine decides again by itself, and as long as Redis kept its data no bucket admits above its
limit. What was answered `unavailable` is not charged, where Redis says it can be known."""
import time

import harness
import redis_books as books
import redis_fleet
import side_by_side
from fault_traffic import Traffic
from tcp_proxy import Proxy

LIMIT, KEYS = 100, 10
# A day's rate: in the time of a test not one token comes back. `deny`: what the engine did not decide is not admitted.
DAILY = {"name": "daily", "key": ["user"], "rate": f"{LIMIT}/d", "on_failure": "deny"}
DURABLE = ("appendonly yes", "appendfsync always")
WELL_S, FAULT_S = 0.4, 1.5


class Faults(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.policy = self.write("policy.yaml", redis_fleet.policy([DAILY], timeout="40ms"))

    def redis(self, *lines):
        return self.enterContext(redis_fleet.Redis(*lines))

    def nodes(self, url):
        fleet = self.enterContext(redis_fleet.Fleet(2, self.policy, url, "--threads", "2"))
        fleet.wait_ready()
        return fleet

    def suffer(self, fleet, fails, heals=lambda: None, pauses=True):
        """Traffic through the fault and until the engine decides again. `pauses`: nothing is decided meanwhile."""
        self.fleet = fleet
        with Traffic(fleet, keys=KEYS) as traffic:
            traffic.wait_decided()
            time.sleep(WELL_S)
            fails()
            self.failed = time.monotonic()
            time.sleep(FAULT_S)
            if pauses:
                since = self.failed + FAULT_S / 2  # by then what was under way at the fault is answered
                self.assertEqual(traffic.decided(since), 0, "there is nobody to decide it")
                self.assertGreater(traffic.count("unavailable", since), 10)
            heals()
            traffic.wait_decided()
            self.spend(traffic)
        traffic.check(self)
        return traffic

    def spend(self, traffic):
        """Until every bucket has refused after all."""
        harness.wait_for(lambda: len({s.user for s in traffic.samples[-4 * KEYS:] if s.outcome == "denied"}) == KEYS,
                         lambda: f"not everybody is refused in the end: {traffic.samples[-KEYS:]}")

    def assert_limit_kept(self, traffic, exactly_on=None):
        """No bucket admitted more; `exactly_on` this Redis: nothing is charged there that was not admitted."""
        self.assertLessEqual(max(traffic.admitted.values()), LIMIT, traffic.admitted)
        if exactly_on is None or self.counted("penstock_redis_connections_given_up_total"):
            return  # given up: what was under way after seconds of silence is of unknown fate

        def too_much():
            used = books.used(exactly_on)
            self.assertEqual({user: n for user, n in traffic.admitted.items() if used[user] < n}, {})
            return sum(used.values()) - sum(traffic.admitted.values())
        # On a machine that is too busy an undo may itself be late; it is counted then.
        harness.wait_for(lambda: too_much() <= self.counted("penstock_undo_lost_total"),
                         lambda: f"{too_much()} charged in vain: {books.used(exactly_on)}, {traffic.admitted}")

    def counted(self, name):
        lines = [line for node in self.fleet for line in node.ask("GET", "/metrics").body.decode().splitlines()]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{")))


    def assert_nobody_waited(self, traffic):
        """Once the first time-outs had opened the breaker, requests were refused at once. Not counted: what was under way
        then, and connections that Redis takes in the fault's last moments."""
        late = [s for s in traffic.samples if s.reason and self.failed + FAULT_S / 2 < s.sent < self.failed + FAULT_S]
        self.assertGreater(len(late), 0)
        self.assertEqual({sample.reason for sample in late}, {"engine_down"})


class OnAServerThatKeepsItsData(Faults):
    def test_stopped_in_order_and_started(self):
        redis = self.redis(*DURABLE)
        traffic = self.suffer(self.nodes(redis.url()), redis.stop, redis.start)
        self.assert_limit_kept(traffic)

    def test_killed_and_started(self):
        redis = self.redis(*DURABLE)
        traffic = self.suffer(self.nodes(redis.url()), redis.kill, redis.start)
        self.assert_limit_kept(traffic)

    def test_frozen_what_was_not_answered_in_time_is_not_charged_when_it_wakes(self):
        redis = self.redis()
        traffic = self.suffer(self.nodes(redis.url()), redis.freeze, redis.thaw)
        self.assert_limit_kept(traffic, exactly_on=redis)
        self.assert_nobody_waited(traffic)

    def test_frozen_and_killed_and_started(self):
        redis = self.redis(*DURABLE)

        def start():
            redis.kill()
            redis.start()
        self.assert_limit_kept(self.suffer(self.nodes(redis.url()), redis.freeze, start))

    def test_on_a_unix_socket_killed_and_started(self):
        redis = self.redis(*DURABLE)
        self.assert_limit_kept(self.suffer(self.nodes(redis.unix_url), redis.kill, redis.start))

    def test_its_scripts_flushed_nobody_notices(self):
        redis = self.redis()
        self.fleet = fleet = self.nodes(redis.url())
        with Traffic(fleet, keys=KEYS) as traffic:
            traffic.wait_decided()
            for _ in range(10):
                redis.ask("SCRIPT", "FLUSH")
                traffic.wait_decided(10)
            self.spend(traffic)
        traffic.check(self)
        self.assert_limit_kept(traffic, exactly_on=redis)

    def test_busy_with_a_script_of_somebody_elses(self):
        redis = self.redis("lua-time-limit 50")
        fleet = self.nodes(redis.url())
        endless = redis.connect()
        self.addCleanup(endless.close)

        def kill():
            redis.ask("SCRIPT", "KILL")
            self.assertIn("killed", endless.receive().lower())
        traffic = self.suffer(fleet, lambda: endless.send("EVAL", "while true do end", 0), kill)
        self.assert_limit_kept(traffic)


class OnANetworkThatFails(Faults):
    def setUp(self):
        super().setUp()
        self.store = self.redis()
        self.proxy = self.enterContext(Proxy(("127.0.0.1", self.store.port)))
        self.fleet = self.nodes(self.store.url(self.proxy.port))

    def test_packets_vanish_both_ways(self):
        traffic = self.suffer(self.fleet, self.proxy.black_hole, self.proxy.heal)
        self.assert_limit_kept(traffic, exactly_on=self.store)
        self.assert_nobody_waited(traffic)

    def test_replies_vanish_and_what_they_charged_is_taken_back_when_they_come(self):
        traffic = self.suffer(self.fleet, lambda: self.proxy.black_hole(requests=False), self.proxy.heal)
        self.assert_limit_kept(traffic, exactly_on=self.store)

    def test_connections_are_cut_and_refused(self):
        self.assert_limit_kept(self.suffer(self.fleet, self.proxy.cut, self.proxy.heal))

    def test_connections_are_cut_and_taken_again_at_once(self):
        traffic = self.suffer(self.fleet, self.proxy.reset, pauses=False)
        self.assert_limit_kept(traffic)

    def test_slower_than_the_time_out(self):
        traffic = self.suffer(self.fleet, lambda: self.proxy.delay(0.2), lambda: self.proxy.delay(0))
        self.assert_limit_kept(traffic, exactly_on=self.store)


class OnAServerThatRefuses(Faults):
    def setUp(self):
        super().setUp()
        self.store = self.redis("min-replicas-max-lag 1", "enable-protected-configs yes")
        self.fleet = self.nodes(self.store.url())

    def told(self, *words):
        for word in words:
            self.assertIn(word, self.fleet[0].log())

    def setting(self, name, value, back):
        return (lambda: self.store.ask("CONFIG", "SET", name, value)), (lambda: self.store.ask("CONFIG", "SET", name, back))

    def test_at_maxmemory(self):
        traffic = self.suffer(self.fleet, *self.setting("maxmemory", "1mb", "0"))
        self.assert_limit_kept(traffic, exactly_on=self.store)
        self.told("OOM", "raise maxmemory", "noeviction")

    def test_without_the_replicas_that_it_wants(self):
        traffic = self.suffer(self.fleet, *self.setting("min-replicas-to-write", 1, 0))
        self.assert_limit_kept(traffic, exactly_on=self.store)
        self.told("NOREPLICAS", "min-replicas-to-write")

    def test_that_cannot_save(self):
        def fails():
            self.store.ask("CONFIG", "SET", "dir", "/proc/self")  # where nobody can write
            self.store.ask("CONFIG", "SET", "save", "3600 1")
            with self.store.connect() as connection:
                connection.ask("BGSAVE")
            harness.wait_for(lambda: self.store.info("persistence")["rdb_last_bgsave_status"] == "err")
        traffic = self.suffer(self.fleet, fails, lambda: self.store.ask("CONFIG", "SET", "save", ""))
        self.assert_limit_kept(traffic, exactly_on=self.store)
        self.told("MISCONF", "disk")

    def test_that_takes_a_command_from_its_user(self):
        rules = "ACL", "SETUSER", redis_fleet.USER
        traffic = self.suffer(self.fleet, lambda: self.store.ask(*rules, "-evalsha"),
                              lambda: self.store.ask(*rules, "+evalsha"))
        self.assert_limit_kept(traffic, exactly_on=self.store)
        self.told("the rule +evalsha is missing")

    def test_that_takes_from_its_user_what_scripts_do(self):
        rules = "ACL", "SETUSER", redis_fleet.USER
        traffic = self.suffer(self.fleet, lambda: self.store.ask(*rules, "-set"), lambda: self.store.ask(*rules, "+set"))
        self.assert_limit_kept(traffic)
        self.told("ACL")

    def test_that_switches_its_user_off(self):
        rules = "ACL", "SETUSER", redis_fleet.USER

        def off():
            self.store.ask(*rules, "off")
            self.store.ask("CLIENT", "KILL", "USER", redis_fleet.USER)
        traffic = self.suffer(self.fleet, off, lambda: self.store.ask(*rules, "on"))
        self.assert_limit_kept(traffic)
        self.told("WRONGPASS", "engine's URL")

    def test_that_is_a_replica_for_a_while(self):
        other = self.redis()

        def back():
            self.store.ask("REPLICAOF", "NO", "ONE")
        traffic = self.suffer(self.fleet, lambda: self.store.ask("REPLICAOF", "127.0.0.1", other.port), back)
        self.told("READONLY")
        # What the other server has is nothing: by following it this one lost its data.
        self.assertLessEqual(max(traffic.admitted.values()), 2 * LIMIT)


class OnAServerThatLosesItsData(Faults):
    def test_restarted_empty_a_bucket_is_given_out_once_more_at_most(self):
        redis = self.redis()
        traffic = self.suffer(self.nodes(redis.url()), redis.kill, redis.start)
        self.assertLessEqual(max(traffic.admitted.values()), 2 * LIMIT)

    def test_emptied_a_bucket_is_given_out_once_more_at_most(self):
        redis = self.redis()
        traffic = self.suffer(self.nodes(redis.url()), lambda: redis.ask("FLUSHALL"), pauses=False)
        self.assertLessEqual(max(traffic.admitted.values()), 2 * LIMIT)
        self.assertEqual(set(books.used(redis).values()), {LIMIT})


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    side_by_side.main(5)
