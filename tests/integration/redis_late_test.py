#!/usr/bin/env python3
"""What was answered `unavailable` is not charged, as far as anybody can know: a command that wakes up too late does nothing,
a reply that comes too late is undone, one that is lost for good is neither sent again nor, under its request id, charged
twice. And what ten thousand requests do that are under way when Redis freezes."""
import time
from pathlib import Path

import harness
import redis_books as books
import redis_fleet
import side_by_side
from tcp_proxy import Proxy
from wire import Http, Resp, RespError

DAILY = {"name": "daily", "key": ["user"], "rate": "1000/d", "on_failure": "deny"}
CALLERS = 30
# What has a meaning in a slot's name, in RESP, in C, in UTF-8; and the longest that is taken.
ODD = ["{", "}", "{}", "}{", "a{b}c", "a{b}d", "{b}", "a b", " ", "a\nb", "a\r\nb", "\0", "a\0b", "a\0c", "%00", "a:b", "a,b", "é",
       "*", "[a]", '"', "\\", "x" * 65_536, "x" * 65_535 + "y"]
ABOVE = "x" * 65_537


class Case(harness.TestCase):
    TIMEOUT = "500ms"

    def setUp(self):
        super().setUp()
        self.policy = self.write("policy.yaml", redis_fleet.policy([DAILY], timeout=self.TIMEOUT))
        self.redis = self.enterContext(redis_fleet.Redis())

    def node(self, url=None, *args):
        fleet = self.enterContext(redis_fleet.Fleet(1, self.policy, url or self.redis.url(), "--threads", "2", *args))
        fleet.wait_ready()
        return fleet[0]

    def behind_a_proxy(self):
        proxy = self.enterContext(Proxy(("127.0.0.1", self.redis.port)))
        return proxy, self.node(self.redis.url(proxy.port))

    def ask_all(self, node, users, **fields):
        """All at once, each over a connection of its own; the answers."""
        wires = [self.enterContext(Http(node.http[:2])) for _ in users]
        for wire, user in zip(wires, users):
            own = {name: value(user) for name, value in fields.items()}
            wire.send("POST", "/v1/check", {"domain": "api", "attributes": {"user": user}, **own})
        return [wire.receive().json() for wire in wires]

    def assert_all_unavailable(self, answers):
        self.assertEqual({answer["outcome"] for answer in answers}, {"unavailable"})
        self.assertEqual({answer["allowed"] for answer in answers}, {False})

    def until_back(self, node):
        """Until the engine decides for somebody else."""
        harness.wait_for(lambda: not node.check({"user": "somebody"})["degraded"], node.log)

    def metric(self, node, name):
        lines = node.ask("GET", "/metrics").body.decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{")))


class Late(Case):
    TIMEOUT = "2s"  # in which a command surely reaches Redis
    USERS = [f"u{i}" for i in range(CALLERS)]

    def test_commands_that_a_frozen_redis_runs_when_it_wakes_charge_nobody(self):
        node = self.node()
        for fields in {}, {"request_id": lambda user: f"id-{user}"}:
            self.until_back(node)
            self.redis.freeze()
            self.assert_all_unavailable(self.ask_all(node, self.USERS, **fields))
            self.redis.thaw()
            self.until_back(node)
            self.assertEqual(set(books.used(self.redis)) - {"somebody"}, set())
        self.assertGreater(self.metric(node, "penstock_redis_late_replies_total"), 0, "they were sent, and answered")
        again = self.ask_all(node, self.USERS, request_id=lambda user: f"id-{user}")
        self.assertEqual([(a["allowed"], a.get("replayed", False)) for a in again], [(True, False)] * CALLERS)

    def test_what_ran_is_taken_back_when_its_reply_comes_too_late(self):
        proxy, node = self.behind_a_proxy()
        for fields in {}, {"request_id": lambda user: f"id-{user}"}:
            self.until_back(node)
            proxy.black_hole(requests=False)
            self.assert_all_unavailable(self.ask_all(node, self.USERS, **fields))
            harness.wait_for(lambda: sum(books.used(self.redis).get(user, 0) for user in self.USERS) > 0)
            proxy.heal()
            self.until_back(node)
            harness.wait_for(lambda: not any(books.used(self.redis).get(user, 0) for user in self.USERS),
                             lambda: f"charged: {books.used(self.redis)}")
        self.assertGreater(self.metric(node, "penstock_undone_total"), 0)
        self.assertEqual(self.metric(node, "penstock_undo_lost_total"), 0)
        again = self.ask_all(node, self.USERS, request_id=lambda user: f"id-{user}")
        self.assertEqual([(a["allowed"], a.get("replayed", False)) for a in again], [(True, False)] * CALLERS)

    def test_a_reply_lost_for_good_is_charged_once_and_repeated_only_under_its_id(self):
        proxy, node = self.behind_a_proxy()
        proxy.black_hole(requests=False)
        answers = self.ask_all(node, ["with", "without"],
                               request_id=lambda user: "the-id" if user == "with" else "of-another")
        self.assert_all_unavailable(answers)
        self.assert_all_unavailable([node.check({"user": "plain"})])
        charged = {"with": 1, "without": 1, "plain": 1}
        harness.wait_for(lambda: {u: n for u, n in books.used(self.redis).items() if u in charged} == charged,
                         lambda: f"{books.used(self.redis)}")
        proxy.reset()  # what it held back is lost
        proxy.heal()
        self.until_back(node)
        time.sleep(0.5)  # for whoever would send it again
        self.assertEqual({u: books.used(self.redis)[u] for u in charged}, charged)

        first = node.check({"user": "with"}, request_id="the-id")
        self.assertEqual((first["allowed"], first["remaining"], first.get("replayed")), (True, 999, True))
        self.assertEqual(node.check({"user": "plain"})["remaining"], 998, "who has no id is charged again")
        self.assertEqual(books.used(self.redis)["with"], 1)


class ManyUnderWay(Case):
    CONNECTIONS, EACH, ROUNDS = 10, 1_000, 4
    MOST_MEMORY = 256 * 1024  # KiB on top: calls that were under way are kept for the next; a sanitizer keeps more

    def status(self, node, name):
        text = Path(f"/proc/{node.pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name + ":")))

    def test_ten_thousand_when_redis_freezes_are_answered_within_bounds_of_memory_and_threads(self):
        node = self.node()
        wires = [self.enterContext(Resp(node.resp)) for _ in range(self.CONNECTIONS)]
        self.until_back(node)
        threads, memory = self.status(node, "Threads"), self.status(node, "VmRSS")
        grown = []
        for turn in range(self.ROUNDS):
            self.redis.freeze()
            for number, wire in enumerate(wires):
                for i in range(self.EACH):
                    wire.send("PEN.CHECK", "api", 1, "user", f"m{turn}-{number}-{i}")
            replies = [wire.receive() for wire in wires for _ in range(self.EACH)]  # what hangs ends the wire's patience
            self.assertEqual({(reply[0], reply[1]) for reply in replies}, {(0, "unavailable")})
            self.assertEqual(self.status(node, "Threads"), threads)
            grown.append(self.status(node, "VmRSS") - memory)
            self.redis.thaw()
            self.until_back(node)
        self.assertLess(max(grown), self.MOST_MEMORY, grown)
        self.assertEqual({user for user in books.used(self.redis) if user.startswith("m")}, set())


class OddKeys(Case):
    TIMEOUT = "5s"

    def test_are_buckets_of_their_own_over_http_and_resp(self):
        node = self.node()
        with Resp(node.resp) as wire:
            for value in ODD:
                self.assertEqual(node.check({"user": value})["remaining"], 999, value[:20])
                self.assertEqual(wire.ask("PEN.CHECK", "api", 1, "user", value.encode())[3], 998, value[:20])
            for bytes_alone in (b"\xff\xfe", b"\xff"):  # no UTF-8: only RESP can say it
                self.assertEqual(wire.ask("PEN.CHECK", "api", 1, "user", bytes_alone)[3], 999)
            self.assertIsInstance(wire.ask("PEN.CHECK", "api", 1, "user", ABOVE), RespError)
        refused = node.ask("POST", "/v1/check", {"domain": "api", "attributes": {"user": ABOVE}})
        self.assertEqual(refused.status, 413, refused)
        names = self.redis.keys("pen:{api/*")
        self.assertEqual(len(names), len(ODD) + 2)
        for name in names:
            self.assertRegex(name, r"^pen:\{api/daily:[0-9a-f]{16}:[A-Za-z0-9._~()@/:+=%#-]*\}$")


class SaysWhy(Case):
    """What the log and the answer say where the cause is not the network; redis_faults_test.py has the others."""

    def fleet_on(self, url):
        return self.enterContext(redis_fleet.Fleet(1, self.policy, url))[0]

    def test_a_wrong_password(self):
        node = self.fleet_on(f"redis://{redis_fleet.USER}:wrong@127.0.0.1:{self.redis.port}")
        node.wait_log("WRONGPASS")
        self.assertIn("engine's URL", node.log())
        self.assertNotIn("wrong@", node.log())
        self.assertEqual(node.check({"user": "1"})["outcome"], "unavailable")

    def test_no_password(self):
        node = self.fleet_on(f"redis://127.0.0.1:{self.redis.port}")
        node.wait_log("give user and password in the engine's URL")

    def test_nobody_there(self):
        self.redis.stop()
        node = self.fleet_on(self.redis.url())
        node.wait_log("onnection refused")
        self.assertEqual(node.check({"user": "1"})["outcome"], "unavailable")
        self.redis.start()
        self.until_back(node)

    def test_something_under_its_keys_that_is_not_its(self):
        node = self.node()
        self.assertTrue(node.check({"user": "1"})["allowed"])
        self.assertTrue(node.check({"user": "2"})["allowed"])
        one, two = self.redis.keys("pen:{api/*")
        for foreign in (("SET", one, "something"), ("SET", one, "\x02" + "\0" * 41)):
            self.redis.ask(*foreign)
            self.assertEqual(node.check({"user": "1"})["outcome"], "unavailable")
            self.assertEqual(node.check({"user": "2"})["outcome"], "allowed")
        self.redis.ask("DEL", one)
        self.redis.ask("HSET", one, "field", "value")
        self.assertEqual(node.check({"user": "1"})["outcome"], "unavailable")
        self.assertEqual(self.redis.ask("HGET", one, "field"), "value", "nor is it written over")
        self.assertEqual(self.metric(node, "penstock_redis_unreadable_total"), 3)
        self.assertIn("is not ours; choose another prefix", node.log())
        self.assertIn("upgrade", node.log())
        self.assertNotEqual(one, two)


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    side_by_side.main(4)
