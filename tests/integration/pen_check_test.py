#!/usr/bin/env python3
"""PEN.CHECK with each of its options and CL.THROTTLE by redis-cell's rules, field by field, under RESP2 and RESP3; and
that both protocols speak of the same buckets and the same request ids. The clock stands still unless a test moves it."""
import harness
from wire import Http, Resp, RespError

POLICY = """
domains:
  api:
    limits:
      - {name: per-user, key: [user], rate: 100/min, burst: 20}
      - {name: quiet, key: [user], rate: 1/min, shadow: true}
  llm:
    limits:
      - {name: rpm, key: [user], rate: 10/min}
      - {name: tpm, key: [user], unit: tokens, rate: 1000/min}
  free:
    limits:
      - {name: everyone, rate: unlimited}
"""

FIELDS = ("allowed", "outcome", "limit", "remaining", "retry_after_ms", "reset_after_ms", "wait_ms", "degraded", "permit",
          "expires_in_ms", "fence", "taken", "replayed", "replayable")


class RespCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(harness.testserver("--policy", self.write("policy.yaml", POLICY)))
        self.clock = self.server.clock()
        self.resp = self.enterContext(Resp(self.server.resp))
        self.http = self.enterContext(Http(self.server.http))

    def check(self, domain, user, *options, **fields):
        """Asks, and compares the fields that are named; the rest must be what it is for an ordinary answer."""
        reply = self.resp.ask("PEN.CHECK", domain, 1, "user", user, *options)
        self.assertNotIsInstance(reply, RespError)
        got = dict(zip(FIELDS, reply, strict=True))
        usual = {"allowed": 1, "outcome": "allowed", "retry_after_ms": 0, "wait_ms": 0, "degraded": 0, "permit": None,
                 "expires_in_ms": None, "fence": None, "taken": None, "replayed": 0, "replayable": 1}
        wanted = {**usual, **fields}
        self.assertEqual({name: got[name] for name in wanted}, wanted)

    def expect_error(self, words, *command):
        reply = self.resp.ask(*command)
        self.assertIsInstance(reply, RespError)
        self.assertEqual(reply[:len(words)], words)


class Check(RespCase):
    def test_cost(self):
        self.check("api", "1", limit=20, remaining=19, reset_after_ms=600)
        self.check("api", "1", "COST", 5, remaining=14, reset_after_ms=3_600)
        self.check("api", "1", "cost", 0, remaining=14)
        self.check("api", "1", "COST", -2, remaining=16)
        self.check("api", "1", "COST", 17, allowed=0, outcome="denied", remaining=16, retry_after_ms=600)
        self.check("api", "1", "COST", 21, allowed=0, outcome="never", remaining=16, retry_after_ms=None)

    def test_costs(self):
        self.check("llm", "1", "COSTS", 2, "requests", 1, "tokens", 995, limit=1000, remaining=5)
        self.check("llm", "1", "COSTS", 2, "requests", 1, "tokens", 6, allowed=0, outcome="denied", retry_after_ms=60)
        self.check("llm", "1", limit=10, remaining=8)

    def test_wait_force_partial(self):
        self.check("api", "1", "COST", 20, remaining=0)
        self.check("api", "1", "WAIT", 600, wait_ms=600, remaining=0)
        self.check("api", "1", "FORCE", "COST", 3, remaining=0, reset_after_ms=14_400)
        self.clock.advance(6_000_000)
        self.check("api", "1", "COST", 9, "PARTIAL", remaining=0, taken=["requests", 6])
        self.check("api", "1", "PARTIAL", allowed=0, outcome="denied", taken=["requests", 0], retry_after_ms=600)

    def test_nothing_finite(self):
        self.check("free", "1", limit=None, remaining=None, reset_after_ms=0)
        self.assertEqual(self.resp.ask("PEN.CHECK", "api", 0)[:5], [1, "allowed", None, None, 0])

    def test_the_same_under_resp3(self):
        first = self.resp.ask("PEN.CHECK", "api", 1, "user", "1", "COST", 21)
        self.assertEqual(self.resp.ask("HELLO", 3)["proto"], 3)
        self.assertEqual(self.resp.ask("PEN.CHECK", "api", 1, "user", "1", "COST", 21), first)
        self.resp.send("PEN.CHECK", "api", 1, "user", "1", "COST", 21)
        self.assertEqual([self.resp.line() for _ in range(7)][-3:], [b":20", b":20", b"_"], "null is null in RESP3")

    def test_errors(self):
        self.expect_error("NOTFOUND ", "PEN.CHECK", "nowhere", 0)
        self.expect_error("ERR COST and COSTS exclude each other", "PEN.CHECK", "api", 0, "COST", 1, "COSTS", 1, "a", 1)
        self.expect_error("ERR ", "PEN.CHECK", "api", 0, "WAIT", 60_001)
        self.expect_error("ERR ", "PEN.CHECK", "api", 0, "REQUESTID", "")
        self.expect_error("ERR ", "PEN.CHECK", "api", 0, "REQUESTID", "x" * 129)
        self.expect_error("ERR ", "PEN.CHECK", "api", 0, "COST", 2_147_483_648)


class Permits(RespCase):
    def acquire(self, *options):
        allowed, permit, expires_in_ms, fence = self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000, *options)
        self.assertEqual((allowed, expires_in_ms), (1, 30_000))
        return permit, fence

    def test_held_renewed_and_given_back(self):
        first, fence = self.acquire("HOLDER", "a")
        second, later = self.acquire("HOLDER", "b")
        self.assertGreater(later, fence)
        self.assertEqual(self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000), [0, "denied", 30_000, 2])
        self.assertEqual(self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000, "WEIGHT", 3), [0, "never", None, 2])
        in_use, waiting, more, entries = self.resp.ask("PEN.HOLDERS", "sema")
        self.assertEqual((in_use, waiting, more), (2, 0, 0))
        self.assertEqual(entries, [[first, "a", 1, fence, 30_000], [second, "b", 1, later, 30_000]])
        self.clock.advance(20_000_000)
        self.assertEqual(self.resp.ask("PEN.RENEW", first, 30_000), [1, 30_000])
        self.clock.advance(10_000_000)
        self.assertEqual(self.resp.ask("PEN.RENEW", second, 0), [0, "expired"])
        self.assertEqual(self.resp.ask("PEN.RELEASE", first, second, "none"), ["released", "expired", "unknown"])
        self.assertEqual(self.resp.ask("PEN.HOLDERS", "sema"), [0, 0, 0, []])

    def test_one_semaphore_over_both_protocols(self):
        self.acquire()
        answer = self.http.check({"key": "sema", "limit": {"permits": 2, "lease": "30s"}}).json()
        self.assertEqual(answer["remaining"], 0)
        self.assertEqual(self.resp.ask("PEN.RELEASE", answer["permit"]["id"]), ["released"])

    def test_who_waits_is_served_when_one_gives_back(self):
        held = [self.acquire()[0], self.acquire()[0]]
        with Resp(self.server.resp) as other:
            other.send("PEN.ACQUIRE", "sema", 2, 30_000, "WAIT", 60_000)
            other.send("PING")
            while self.resp.ask("PEN.HOLDERS", "sema")[1] == 0:
                pass  # until it waits
            self.assertEqual(self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000)[:2], [0, "denied"])
            self.assertEqual(self.resp.ask("PEN.RELEASE", *held), ["released", "released"])
            self.assertEqual(other.receive()[0], 1)
            self.assertEqual(other.receive(), "PONG")

    def test_who_closes_waits_no_more(self):
        held = [self.acquire()[0], self.acquire()[0]]
        with Resp(self.server.resp) as other:
            other.send("PEN.ACQUIRE", "sema", 2, 30_000, "WAIT", 60_000)
            while self.resp.ask("PEN.HOLDERS", "sema")[1] == 0:
                pass
        while self.resp.ask("PEN.HOLDERS", "sema")[1] > 0:
            pass
        self.assertEqual(self.resp.ask("PEN.RELEASE", *held), ["released", "released"])
        self.assertEqual(self.resp.ask("PEN.HOLDERS", "sema")[0], 0)


class Throttle(RespCase):
    def ask(self, *args):
        return self.resp.ask("CL.THROTTLE", *args)

    def test_as_redis_cell(self):
        self.assertEqual(self.ask("k", 15, 30, 60), [0, 16, 15, -1, 2])
        self.assertEqual(self.ask("k", 15, 30, 60, 15), [0, 16, 0, -1, 32])
        self.assertEqual(self.ask("k", 15, 30, 60), [1, 16, 0, 2, 32])
        self.clock.advance(1_999_999)
        self.assertEqual(self.ask("k", 15, 30, 60), [1, 16, 0, 1, 31])
        self.clock.advance(1)
        self.assertEqual(self.ask("k", 15, 30, 60), [0, 16, 0, -1, 32])

    def test_its_corners(self):
        self.assertEqual(self.ask("one", 0, 1, 60), [0, 1, 0, -1, 60])
        self.assertEqual(self.ask("one", 0, 1, 60), [1, 1, 0, 60, 60])
        self.assertEqual(self.ask("peek", 15, 30, 60, 0), [0, 16, 16, -1, 0])
        self.assertEqual(self.ask("all", 15, 30, 60, 16), [0, 16, 0, -1, 32])
        self.assertEqual(self.ask("more", 15, 30, 60, 17), [1, 16, 16, -1, 0], "it can never pass")
        self.assertEqual(self.ask("fast", 9, 1_000_000, 1), [0, 10, 9, -1, 1], "no truncated interval")
        for _ in range(9):
            self.ask("fast", 9, 1_000_000, 1)
        self.assertEqual(self.ask("fast", 9, 1_000_000, 1)[0], 1)
        self.clock.advance(1)
        self.assertEqual(self.ask("fast", 9, 1_000_000, 1)[0], 0)

    def test_a_clock_that_steps_back_mints_nothing(self):
        self.ask("k", 15, 30, 60, 16)
        self.clock.advance(-3_600_000_000)
        self.assertEqual(self.ask("k", 15, 30, 60), [1, 16, 0, 3_602, 3_632])
        self.clock.advance(3_602_000_000)
        self.assertEqual(self.ask("k", 15, 30, 60), [0, 16, 0, -1, 32])


class Both(RespCase):
    def test_one_bucket_by_a_key(self):
        self.assertEqual(self.resp.ask("CL.THROTTLE", "k", 19, 100, 60), [0, 20, 19, -1, 1])
        answer = self.http.check({"key": "k", "limit": {"rate": "100/min", "burst": 20}}).json()
        self.assertEqual(answer["remaining"], 18)
        self.assertEqual(self.resp.ask("CL.THROTTLE", "k", 19, 100, 60, 0)[2], 18)

    def test_one_bucket_by_a_policy(self):
        self.check("api", "1", "COST", 4, remaining=16)
        self.assertEqual(self.http.ask("GET", "/v1/limits/api/per-user/buckets?user=1").json()["remaining"], 16)
        self.assertEqual(self.http.ask("DELETE", "/v1/limits/api/per-user/buckets?user=1").status, 200)
        self.check("api", "1", remaining=19)

    def test_one_memory_of_request_ids(self):
        self.check("llm", "1", "REQUESTID", "r", "COSTS", 1, "tokens", 600, remaining=400)
        self.check("llm", "1", "REQUESTID", "r", "COSTS", 1, "tokens", 600, remaining=400, replayed=1)
        check = {"domain": "llm", "attributes": {"user": "1"}, "request_id": "r"}
        answer = self.http.check({**check, "costs": {"tokens": 600}}).json()
        self.assertEqual((answer["remaining"], answer["replayed"]), (400, True))
        self.expect_error("CONFLICT ", "PEN.CHECK", "llm", 1, "user", "2", "REQUESTID", "r", "COSTS", 1, "tokens", 600)
        self.assertEqual(self.http.ask("POST", "/v1/settle", {**check, "costs": {"tokens": 100}}).status, 200)
        self.check("llm", "1", "COSTS", 1, "tokens", 0, remaining=900)
        self.clock.advance(61_000_000)
        self.check("llm", "2", "REQUESTID", "r", "COSTS", 1, "tokens", 600, remaining=400)


if __name__ == "__main__":
    harness.main()
