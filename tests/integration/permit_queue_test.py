#!/usr/bin/env python3
"""The queue for permits as two nodes on a real Redis share it: hints that are lost, waiters who go at the instant of their
grant, limits that change, heavy ones, and who does not wait. PENSTOCK_SEED says which rounds."""
import os
import random
import re
import select
import socket
import time

import harness
import redis_fleet
from wire import Http, Resp, RespError, command

KEY = "sema"
LEASE_MS = 60_000
WAIT_MS = 60_000
MOMENT_S = 0.2  # in which nothing may come


class QueueCase(harness.TestCase):
    lease_ms = LEASE_MS

    def setUp(self):
        super().setUp()
        self.redis = self.enterContext(redis_fleet.Redis())
        policy = self.write("policy.yaml", redis_fleet.policy([], timeout="10s"))  # a busy machine is no failure
        self.fleet = self.enterContext(redis_fleet.Fleet(2, policy, self.redis.url()))
        self.fleet.wait_ready()
        self.controls = [self.enterContext(Resp(node.resp)) for node in self.fleet]

    def acquire(self, node, permits, *options):
        """[1, id, …], or [0, outcome, …], at once."""
        return self.controls[node].ask("PEN.ACQUIRE", KEY, permits, self.lease_ms, *options)

    def granted(self, reply):
        self.assertNotIsInstance(reply, RespError)
        self.assertEqual(reply[0], 1, reply)
        return reply[1]

    def wait(self, node, permits, *options):
        """A connection whose command stands in the queue, behind all who stood there before."""
        before = self.state()[1]
        connection = self.enterContext(Resp(self.fleet[node].resp))
        connection.send("PEN.ACQUIRE", KEY, permits, self.lease_ms, "WAIT", WAIT_MS, *options)
        harness.wait_for(lambda: self.state()[1] == before + 1, lambda: f"it does not wait: {self.state()}")
        return connection

    def state(self):
        """[in use, waiting]"""
        return self.controls[0].ask("PEN.HOLDERS", KEY)[:2]

    def release(self, node, permit):
        self.assertEqual(self.controls[node].ask("PEN.RELEASE", permit), ["released"])

    def assert_waits_on(self, connection):
        self.assertEqual(select.select([connection.socket], [], [], MOMENT_S)[0], [], "it was answered")


class LostHints(QueueCase):  # C66
    CHAIN = 8
    # Were nobody to look at the queue, each of them would wait for half a minute.
    MUCH_S = 30

    def serve_a_chain(self, spoil):
        held = self.granted(self.acquire(0, 1))
        waiting = [self.wait(i % 2, 1) for i in range(self.CHAIN)]
        delays, last = [], 0
        for i, connection in enumerate(waiting):
            spoil()
            began = time.monotonic()
            self.release((i + 1) % 2, held)
            reply = connection.receive()
            delays.append(time.monotonic() - began)
            held = self.granted(reply)
            self.assertGreater(reply[3], last)
            last = reply[3]
        self.release(0, held)
        self.assertEqual(self.state(), [0, 0])
        print(f"{self._testMethodName}: served {max(delays):.3f} s after a release at the latest, together {sum(delays):.3f} s")
        self.assertLess(sum(delays), self.MUCH_S)

    def test_with_hints(self):
        self.serve_a_chain(lambda: None)

    def test_the_connections_for_hints_are_killed(self):
        self.serve_a_chain(lambda: self.redis.ask("CLIENT", "KILL", "TYPE", "pubsub"))

    def test_publish_is_refused(self):
        self.redis.ask("ACL", "SETUSER", redis_fleet.USER, "-publish")
        self.serve_a_chain(lambda: None)

    def test_nobody_may_listen(self):
        self.redis.ask("ACL", "SETUSER", redis_fleet.USER, "-subscribe", "resetchannels")
        self.redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
        self.serve_a_chain(lambda: None)


class Forgotten(QueueCase):  # C66, C60
    lease_ms = 700

    def test_an_expiry_gives_no_hint_and_serves_all_the_same(self):
        self.redis.ask("ACL", "SETUSER", redis_fleet.USER, "-publish")
        self.granted(self.acquire(0, 1))
        began = time.monotonic()
        waiting = []
        for i in range(4):  # nobody gives back
            waiting.append(self.enterContext(Resp(self.fleet[i % 2].resp)))
            waiting[-1].send("PEN.ACQUIRE", KEY, 1, self.lease_ms, "WAIT", WAIT_MS)
        fences = sorted(connection.receive()[3] for connection in waiting)
        print(f"4 leases of 0.7 s, one after the other: {time.monotonic() - began:.3f} s")
        for earlier, later in zip(fences, fences[1:]):
            self.assertGreaterEqual(later - earlier, self.lease_ms * 1_000, "by the engine's clock: no two at once")
        self.assertLess(time.monotonic() - began, LostHints.MUCH_S)


class Gone(QueueCase):  # C67
    ROUNDS, MOST_ROUNDS = 200, 1_500
    HANDED_BACK = 10  # so often at least it shall have been the very instant

    def handed_back(self):
        pages = self.fleet.metrics(str)
        lines = [line for page in pages for line in page.splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("penstock_permits_handed_back_total "))

    def begin(self, over_http, node):
        if over_http:
            connection = Http(self.fleet[node].http)
            connection.send("POST", "/v1/check", {"key": KEY, "limit": {"permits": 1, "lease": "60s"},
                                                  "max_wait_ms": WAIT_MS})
        else:
            connection = Resp(self.fleet[node].resp)
            connection.send("PEN.ACQUIRE", KEY, 1, self.lease_ms, "WAIT", WAIT_MS)
        harness.wait_for(lambda: self.state()[1] == 1, lambda: f"it does not wait: {self.state()}")
        return connection

    def test_who_closes_at_the_instant_of_his_grant_hands_it_back(self):
        seed = int(os.environ.get("PENSTOCK_SEED", "20261129"))
        print(f"PENSTOCK_SEED={seed}")
        chance = random.Random(seed)
        rounds = served = 0
        while rounds < self.ROUNDS or (self.handed_back() < self.HANDED_BACK and rounds < self.MOST_ROUNDS):
            rounds += 1
            held = self.granted(self.acquire(rounds % 2, 1))
            waiting = self.begin(over_http=chance.random() < 0.3, node=chance.randrange(2))
            self.controls[1].send_bytes(command("PEN.RELEASE", held))
            time.sleep(chance.uniform(0, 0.003))
            # He says that he goes, and what was on its way to him by then is his to give back: nobody else can know.
            waiting.socket.shutdown(socket.SHUT_WR)
            answer = waiting.until_closed()
            waiting.close()
            self.assertEqual(self.controls[1].receive(), ["released"])
            if found := re.search(rb'\*4\r\n:1\r\n\$\d+\r\n([^\r]+)|"permit":\{"id":"([^"]+)"', answer):
                served += 1
                self.release(0, found.group(1) or found.group(2))
            harness.wait_for(lambda: self.state() == [0, 0], lambda: f"in round {rounds}: {self.state()} {answer}")
        print(f"{rounds} rounds: {served} were served, {self.handed_back()} grants handed back, the others left in time")
        self.assertGreaterEqual(self.handed_back(), 1)
        self.assertEqual(self.state(), [0, 0])


class InTurn(QueueCase):
    def test_a_heavy_waiter_is_served_in_his_turn_and_nobody_overtakes_him_c70_c74(self):
        held = [self.granted(self.acquire(i % 2, 3)) for i in range(3)]
        heavy = self.wait(0, 3, "WEIGHT", 3)
        light = [self.wait(1, 3), self.wait(0, 3)]
        self.assertEqual(self.acquire(1, 3, "WEIGHT", 4, "WAIT", WAIT_MS)[:2], [0, "never"], "more than there are")
        for i, permit in enumerate(held):
            self.assert_waits_on(heavy)
            self.release(i % 2, permit)
            if i == 2:
                break
            for node in range(2):  # there is room, but others wait before them
                self.assertEqual(self.acquire(node, 3)[:2], [0, "denied"])
                answer = self.fleet[node].ask("POST", "/v1/check", {"key": KEY, "limit": {"permits": 3, "lease": "60s"}})
                self.assertEqual((answer.status, answer.json()["outcome"]), (429, "denied"))
        first = heavy.receive()
        for connection in light:
            self.assert_waits_on(connection)
        self.assertEqual(self.state(), [3, 2])
        self.release(1, self.granted(first))
        fences = [first[3]]
        for connection in light:
            reply = connection.receive()
            self.granted(reply)
            fences.append(reply[3])
        self.assertEqual(fences, sorted(fences))
        self.granted(self.acquire(1, 3))
        self.assertEqual(self.state(), [3, 0])


class Changes(QueueCase):  # C65
    ATTRIBUTES = ("api", 1, "user", "7")

    def put(self, node, permits):
        body = f"{{key: [user], permits: {permits}, lease: 60s}}".encode()
        self.assertIn(self.fleet[node].ask("PUT", "/v1/limits/api/in-flight", body).status, (200, 201))
        for each in self.fleet:
            harness.wait_for(lambda each=each: each.check({"user": "7"}, cost=0).get("limit") == permits)

    def state(self):
        answer = self.fleet[0].ask("GET", "/v1/limits/api/in-flight/holders?user=7").json()
        return [answer["in_use"], answer["waiting"]]

    def take(self, node, *options):
        reply = self.controls[node].ask("PEN.CHECK", *self.ATTRIBUTES, *options)
        return reply[8] if reply[0] else reply[1]

    def stand(self, node):
        before = self.state()[1]
        connection = self.enterContext(Resp(self.fleet[node].resp))
        connection.send("PEN.CHECK", *self.ATTRIBUTES, "WAIT", WAIT_MS)
        harness.wait_for(lambda: self.state()[1] == before + 1, lambda: f"it does not wait: {self.state()}")
        return connection

    def test_more_permits_wake_who_waits_and_fewer_grant_nothing_until_below_c65(self):
        self.put(0, 2)
        held = [self.take(0), self.take(1)]
        waiting = [self.stand(1), self.stand(0)]
        for node, connection in enumerate(waiting):
            self.assert_waits_on(connection)
            self.put(node, 3 + node)
            held.append(connection.receive()[8])
        self.assertNotIn("denied", held)
        self.assertEqual(self.state(), [4, 0])
        self.put(1, 2)
        self.assertEqual(self.state(), [4, 0], "nobody lost what he held")
        late = self.stand(0)
        for i in range(3):
            self.assertEqual(self.take(i % 2), "denied")
            self.assert_waits_on(late)
            self.release(i % 2, held[i])
        self.assertEqual(late.receive()[0], 1)
        self.assertEqual(self.state(), [2, 0])


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    harness.main()
