#!/usr/bin/env python3
"""Permits over HTTP, RESP and the command line, against one `penstock serve` with its memory engine. What `penstock run`
does with signals and losses is permits_run_test.py's."""
import json
import subprocess

import harness
from wire import Http, Resp, RespError

POLICY = """
domains:
  api:
    limits:
      - {name: in-flight, key: [user], permits: 2, lease: 30s}
  both:
    limits:
      - {name: jobs, key: [user], permits: 1, lease: 30s}
      - {name: rate, key: [user], rate: 10/h}
  short:
    limits:
      - {name: jobs, permits: 1, lease: 200ms}
  one:
    limits:
      - {name: jobs, permits: 1, lease: 30s}
"""


class Case(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(harness.penstock("--policy", self.write("p.yaml", POLICY)))
        self.url = f"http://127.0.0.1:{self.server.http[1]}"
        self.http = self.enterContext(Http(self.server.http))

    def penstock(self, code, *args):
        """Runs a command; its standard output, stripped."""
        done = harness.run(*args, env={"PENSTOCK_URL": self.url})
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}{done.stderr}")
        self.said = done.stderr
        return done.stdout.strip()

    def post(self, target, body, status=200):
        response = self.http.ask("POST", target, body)
        self.assertEqual(response.status, status, response)
        return response.json()

    def acquire(self, user="1", status=200, domain="api", **more):
        return self.post("/v1/check", {"domain": domain, "attributes": {"user": user}, **more}, status)

    def release(self, permit):
        return self.post("/v1/release", {"id": permit})["result"]

    def holders(self, target="/v1/limits/api/in-flight/holders?user=1"):
        response = self.http.ask("GET", target)
        self.assertEqual(response.status, 200, response)
        return response.json()

    def wait_for_waiting(self, count, target="/v1/limits/one/jobs/holders"):
        harness.wait_for(lambda: self.holders(target)["waiting"] == count)


class Commands(Case):
    def test_acquire_renew_holders_release(self):
        first = self.penstock(0, "acquire", "api", "user=1", "--holder", "me")
        self.assertRegex(first, r"^[A-Za-z0-9_-]{60}$")
        second = json.loads(self.penstock(0, "acquire", "api", "user=1", "--json"))
        self.assertEqual(second["remaining"], 0)
        self.assertEqual(second["permit"]["waited_ms"], 0)
        self.assertEqual(self.penstock(1, "acquire", "api", "user=1"), "")
        self.assertRegex(self.said, r"penstock: denied: 0 of 2 left, again in \d+ ms")
        self.assertEqual(json.loads(self.penstock(1, "acquire", "api", "user=1", "--json"))["outcome"], "denied")
        self.penstock(0, "acquire", "api", "user=2")  # a bucket of its own
        self.assertRegex(self.penstock(0, "renew", first), r"^renewed, expires in (29\d\d\d|30000) ms$")
        renewed = json.loads(self.penstock(0, "renew", first, "--lease", "10s", "--json"))
        self.assertEqual(renewed["result"], "renewed")
        self.assertGreater(renewed["expires_in_ms"], 20_000, "a renewal does not shorten")
        shown = self.penstock(0, "holders", "api", "in-flight", "user=1")
        self.assertIn("2 of 2 in use", shown)
        self.assertIn(", me", shown)
        self.assertIn(first, shown)
        self.assertEqual(json.loads(self.penstock(0, "holders", "api", "in-flight", "user=1", "--json"))["in_use"], 2)
        self.assertNotIn(second["permit"]["id"],
                         self.penstock(0, "holders", "api", "in-flight", "user=1", "--holder", "me"))
        self.assertEqual(self.penstock(0, "release", first), "released")
        answers = json.loads(self.penstock(1, "release", first, second["permit"]["id"], "--json"))
        self.assertEqual([answer["result"] for answer in answers], ["unknown", "released"])
        self.assertEqual(self.penstock(1, "renew", first), "unknown")
        self.assertIn("0 of 2 in use", self.penstock(0, "holders", "api", "in-flight", "user=1"))

    def test_release_by_the_holders_name(self):
        for name in ("me", "me", ):
            self.penstock(0, "acquire", "api", "user=1", "--holder", name)
        self.penstock(0, "acquire", "api", "user=2", "--holder", "me")
        at = ("--domain", "api", "--limit", "in-flight", "user=1")
        self.assertEqual(self.penstock(1, "release", "--holder", "you", *at), "0 released")
        self.assertEqual(self.penstock(0, "release", "--holder", "me", *at), "2 released")
        self.assertEqual(self.holders()["in_use"], 0)
        self.assertEqual(self.holders("/v1/limits/api/in-flight/holders?user=2")["in_use"], 1)

    def test_a_holders_name_cannot_move_the_terminal(self):
        self.penstock(0, "acquire", "api", "user=1", "--holder", "a\x1b[2J\u009b\nb é")
        shown = self.penstock(0, "holders", "api", "in-flight", "user=1")
        self.assertTrue(shown.endswith(r", a\x1b[2J\x9b\x0ab é"), shown)

    def test_without_a_policy(self):
        ad_hoc = ("--key", "sema: a&b", "--permits", "1", "--lease", "10s")
        permit = self.penstock(0, "acquire", *ad_hoc, "--holder", "me")
        self.penstock(1, "acquire", *ad_hoc)
        self.assertIn("1 in use", self.penstock(0, "holders", "--key", "sema: a&b"))
        self.assertRegex(self.penstock(0, "renew", permit, "--lease", "10s"), "^renewed")
        self.assertEqual(self.penstock(0, "release", "--holder", "me", "--key", "sema: a&b"), "1 released")
        self.assertEqual(self.penstock(1, "release", permit), "unknown")

    def test_weights_and_a_request_id(self):
        self.assertIn("never", self.penstock(1, "acquire", "api", "user=1", "--weight", "3") + self.said)
        heavy = self.penstock(0, "acquire", "api", "user=1", "--weight", "2", "--request-id", "r1")
        self.penstock(1, "acquire", "api", "user=1")
        self.assertEqual(self.penstock(0, "acquire", "api", "user=1", "--weight", "2", "--request-id", "r1"), heavy)
        self.assertEqual(self.holders()["in_use"], 2)

    def test_what_is_wrong_is_said(self):
        self.assertIn("apx", self.penstock(2, "acquire", "apx", "user=1") + self.said)
        self.penstock(2, "acquire")
        self.penstock(2, "acquire", "api", "user=1", "--key", "k", "--permits", "1")
        self.penstock(2, "acquire", "--key", "k")
        self.penstock(2, "acquire", "api", "user")
        self.penstock(2, "acquire", "api", "user=1", "--wait", "soon")
        self.penstock(2, "acquire", "api", "user=1", "--wait", "2min")
        self.assertIn("max_wait_ms", self.said)
        self.penstock(2, "acquire", "api")  # no limit applies: a slip
        self.penstock(2, "release")
        self.penstock(2, "release", "--holder", "me")
        self.penstock(2, "renew")
        self.penstock(2, "holders", "api")
        self.penstock(2, "holders", "api", "nowhere", "user=1")
        self.penstock(2, "holders", "both", "rate", "user=1")  # no permit limit
        self.penstock(1, "release", "no-id-of-ours")
        self.penstock(1, "renew", "no-id-of-ours")
        self.server.stop()
        for args in (["acquire", "api", "user=1"], ["release", "x"], ["renew", "x"],
                     ["holders", "api", "in-flight", "user=1"], ["run", "api", "user=1", "--", "true"]):
            self.penstock(3, *args)

    def test_bounds_are_named_c71(self):
        self.acquire(lease_ms=1, status=400)
        self.acquire(lease_ms=366 * 24 * 3_600_000, status=400)
        self.acquire(weight=0, status=400)
        self.penstock(2, "acquire", "api", "user=1", "--weight", "0")
        self.assertIn("weight", self.said)
        self.penstock(2, "acquire", "api", "user=1", "--lease", "1ms")
        self.assertIn("lease", self.said)
        for _ in range(3):  # costs that are all 0: a peek
            peek = self.acquire(cost=0)
            self.assertEqual((peek["allowed"], peek["remaining"], "permit" in peek), (True, 2, False))


class Lives(Case):
    """Of permits, over HTTP."""

    def test_a_refusal_by_permits_spends_no_rate_c69(self):
        held = self.acquire(domain="both")
        self.assertEqual([limit["remaining"] for limit in held["limits"]], [0, 9])
        self.assertEqual(self.acquire(domain="both", status=429)["outcome"], "denied")
        self.assertEqual(self.release(held["permit"]["id"]), "released")
        self.assertEqual([limit["remaining"] for limit in self.acquire(domain="both")["limits"]], [0, 8])

    def test_released_twice_by_a_stranger_after_expiry_c61(self):
        mine = self.acquire()["permit"]["id"]
        self.acquire()
        self.assertEqual(self.release(mine), "released")
        self.assertEqual(self.release(mine), "unknown")
        self.assertEqual(self.release("AAAA"), "unknown")
        other = self.acquire(user="stranger")["permit"]["id"]
        self.assertEqual(self.release(other), "released")
        self.assertEqual(self.holders()["in_use"], 1)
        short = self.acquire(domain="short")["permit"]
        harness.wait_for(lambda: self.holders("/v1/limits/short/jobs/holders")["in_use"] == 0)
        self.assertEqual(self.release(short["id"]), "expired")
        harness.wait_for(lambda: self.release(short["id"]) == "unknown")

    def test_a_late_renewal_is_told_and_acquires_nothing_c63(self):
        late = self.acquire(domain="short")["permit"]["id"]
        harness.wait_for(lambda: self.holders("/v1/limits/short/jobs/holders")["in_use"] == 0)
        self.assertIn(self.post("/v1/renew", {"id": late})["result"], ("expired", "unknown"))
        self.assertEqual(self.holders("/v1/limits/short/jobs/holders")["in_use"], 0)

    def test_several_at_once(self):
        ids = [self.acquire()["permit"]["id"] for _ in range(2)]
        answers = self.post("/v1/release", [{"id": ids[0]}, {"id": "AAAA"}, {"id": ids[1]}])
        self.assertEqual([answer["result"] for answer in answers], ["released", "unknown", "released"])

    def test_the_fence_grows(self):
        fences = []
        for _ in range(5):
            permit = self.acquire(domain="one")["permit"]
            fences.append(permit["fence"])
            self.release(permit["id"])
        self.assertEqual(fences, sorted(set(fences)))

    def test_as_curl_sees_it(self):
        def curl(path, body, *more):
            done = subprocess.run(["curl", "-s", *more, f"{self.url}{path}", "-d", body], capture_output=True, text=True,
                                  check=True, timeout=harness.PATIENCE_S)
            return json.loads(done.stdout)
        answer = curl("/v1/check", '{"key":"sema:api","limit":{"permits":5,"lease":"30s"},"holder":"curl"}')
        self.assertEqual((answer["limit"], answer["remaining"]), (5, 4))
        permit = answer["permit"]
        self.assertEqual(permit["expires_in_ms"], 30_000)
        held = self.holders("/v1/holders?key=sema:api")
        self.assertEqual((held["in_use"], held["holders"][0]["holder"], held["holders"][0]["id"]),
                         (1, "curl", permit["id"]))
        self.assertEqual(curl("/v1/renew", json.dumps({"id": permit["id"], "lease_ms": 30_000}))["result"], "renewed")
        self.assertEqual(curl("/v1/release", json.dumps({"id": permit["id"]})), {"result": "released"})


class Waiting(Case):
    def held(self, domain="one"):
        return self.acquire(domain=domain)["permit"]["id"]

    def test_in_order(self):
        held = self.held()
        order = []
        waiters = []
        for number in range(4):
            waiter = Http(self.server.http)
            self.addCleanup(waiter.close)
            waiter.send("POST", "/v1/check", {"domain": "one", "attributes": {}, "max_wait_ms": 60_000})
            waiters.append(waiter)
            self.wait_for_waiting(number + 1)
        self.assertEqual(self.acquire(domain="one", status=429)["outcome"], "denied")  # C74: it does not overtake
        for waiter in waiters:
            self.assertEqual(self.release(held), "released")
            answer = waiter.receive()
            self.assertEqual(answer.status, 200, answer)
            order.append(answer.json()["permit"]["fence"])
            held = answer.json()["permit"]["id"]
        self.assertEqual(order, sorted(order))

    def test_the_command_waits(self):
        held = self.held()
        waiting = subprocess.Popen([harness.program("penstock"), "acquire", "one", "--wait", "60s", "--server", self.url],
                                   stdout=subprocess.PIPE, text=True, env=harness.environment())
        self.wait_for_waiting(1)
        self.release(held)
        out, _ = waiting.communicate(timeout=harness.PATIENCE_S)
        self.assertEqual(waiting.returncode, 0)
        self.assertEqual(self.release(out.strip()), "released")

    def test_the_wait_ends(self):
        self.held()
        self.penstock(1, "acquire", "one", "--wait", "100ms")
        self.assertIn("denied", self.said)

    def test_who_goes_away_waits_no_more(self):
        held = self.held()
        waiting = subprocess.Popen([harness.program("penstock"), "run", "one", "--wait", "60s", "--server", self.url, "--",
                                    "true"], env=harness.environment())
        self.wait_for_waiting(1)
        waiting.terminate()
        self.assertEqual(waiting.wait(harness.PATIENCE_S), 128 + 15)
        self.wait_for_waiting(0)
        self.assertEqual(self.release(held), "released", "nobody was served before")
        self.assertEqual(self.holders("/v1/limits/one/jobs/holders")["in_use"], 0)

    def test_who_said_close_is_missed_too(self):
        held = self.held()
        for headers in ([], [("Connection", "close")]):
            with Http(self.server.http) as waiter:
                waiter.send("POST", "/v1/check", {"domain": "one", "attributes": {}, "max_wait_ms": 60_000}, headers)
                self.wait_for_waiting(1)
            self.wait_for_waiting(0)
        self.assertEqual(self.release(held), "released", "nobody was served before")
        self.assertEqual(self.holders("/v1/limits/one/jobs/holders")["in_use"], 0)

    def test_an_expiry_serves_the_waiter(self):
        self.held("short")
        granted = self.acquire(domain="short", max_wait_ms=60_000)
        self.assertTrue(granted["allowed"])
        self.assertGreater(granted["permit"]["waited_ms"], 0)


class OverResp(Case):
    def setUp(self):
        super().setUp()
        self.resp = self.enterContext(Resp(self.server.resp))

    def test_acquire_renew_release_holders(self):
        ok, permit, expires_in, fence = self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000, "HOLDER", "me")
        self.assertEqual((ok, expires_in), (1, 30_000))
        self.assertGreater(fence, 0)
        second = self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000)
        self.assertGreater(second[3], fence)
        refused = self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000)
        self.assertEqual((refused[0], refused[1], refused[3]), (0, "denied", 2))
        self.assertGreater(refused[2], 0)
        self.assertEqual(self.resp.ask("PEN.ACQUIRE", "sema", 2, 30_000, "WEIGHT", 3)[:3], [0, "never", None])
        renewed = self.resp.ask("PEN.RENEW", permit, 30_000)
        self.assertEqual(renewed[0], 1)
        self.assertIn(permit, json.dumps(self.resp.ask("PEN.HOLDERS", "sema")))
        self.assertEqual(self.resp.ask("PEN.RELEASE", permit, permit, second[1]), ["released", "unknown", "released"])
        self.assertEqual(self.resp.ask("PEN.RENEW", permit, 30_000), [0, "unknown"])

    def test_check_grants_permits_too(self):
        answer = self.resp.ask("PEN.CHECK", "api", 1, "user", "1", "HOLDER", "me")
        self.assertEqual((answer[0], answer[9]), (1, 30_000))
        self.assertEqual(self.release(answer[8]), "released")

    def test_a_waiting_command_delays_replies_but_not_what_follows(self):
        held = self.resp.ask("PEN.ACQUIRE", "sema", 1, 30_000)
        self.resp.send("PEN.ACQUIRE", "sema", 1, 30_000, "WAIT", 60_000)
        self.resp.send("PEN.RELEASE", held[1])
        self.assertEqual(self.resp.receive()[0], 1)
        self.assertEqual(self.resp.receive(), ["released"])

    def test_it_is_http_s_semaphore_too(self):
        permit = self.resp.ask("PEN.ACQUIRE", "shared", 1, 30_000)[1]
        self.post("/v1/check", {"key": "shared", "limit": {"permits": 1, "lease": "30s"}}, 429)
        self.assertEqual(self.release(permit), "released")

    def test_what_is_wrong_is_an_error(self):
        for command in (["PEN.ACQUIRE", "sema"], ["PEN.ACQUIRE", "sema", 0, 30_000], ["PEN.ACQUIRE", "sema", 1, 1],
                        ["PEN.ACQUIRE", "sema", 1, 30_000, "WEIGHT", 0], ["PEN.RELEASE"], ["PEN.RENEW", "x"],
                        ["PEN.ACQUIRE", "sema", 1, 30_000, "WAIT", 3_600_000]):
            self.assertIsInstance(self.resp.ask(*command), RespError, command)


if __name__ == "__main__":
    harness.main()
