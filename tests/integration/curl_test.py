#!/usr/bin/env python3
"""Every verb of HTTP by curl, with the answers word for word. The server's clock stands still unless a test moves it."""
import json
import subprocess

import harness
from wire import Response

POLICY = """
listen: {trusted_proxies: [127.0.0.2/32]}
domains:
  api:
    limits:
      - name: per-user
        key: [user]
        rate: 100/min
        burst: 20
        overrides: [{match: {user: banned}, rate: 0}]
      - {name: quiet, key: [user], rate: 1/min, shadow: true}
  llm:
    limits:
      - {name: rpm, key: [user], rate: 10/min, algorithm: fixed_window}
      - {name: tpm, key: [user], unit: tokens, rate: 1000/min}
  web:
    limits:
      - {name: per-address, key: [ip], rate: 2/min}
  names:
    limits:
      - {name: per-name, key: [name, method, path, host], rate: 1/min}
"""

SECOND = 1_000_000
MINUTE = 60 * SECOND


class CurlCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(harness.testserver("--policy", self.write("policy.yaml", POLICY)))
        self.clock = self.server.clock()

    def curl(self, target, *options, body=None, method=None, server=None):
        """curl's answer as a Response; a body makes it a POST, as curl does."""
        host, port = (server or self.server).http
        command = ["curl", "-sS", "-i", "--max-time", str(harness.PATIENCE_S), *options]
        if method:
            command += ["-X", method]
        if body is not None:
            command += ["--data-binary", "@-"]
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        done = subprocess.run(command + [f"http://{host}:{port}{target}"], input=data or b"", capture_output=True,
                              timeout=harness.PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head, _, rest = rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        return Response(int(first.split()[1]), headers, rest)

    def check(self, body):
        return self.curl("/v1/check", body=body)

    def expect(self, response, status, **fields):
        """Status, and these top-level fields."""
        answer = response.json()
        self.assertEqual((response.status, {name: answer.get(name, "absent") for name in fields}), (status, fields),
                         response)
        return answer

    def expect_problem(self, response, status, words):
        self.assertEqual(response.status, status, response)
        self.assertEqual(response.headers["content-type"], "application/problem+json")
        problem = response.json()
        self.assertEqual(problem["status"], status)
        self.assertIn(words, problem["detail"])


def user(name, domain="api", **more):
    return {"domain": domain, "attributes": {"user": name}, **more}


class Check(CurlCase):
    def test_single(self):
        response = self.check(user("42"))
        self.assertEqual(response.status, 200)
        self.assertEqual(response.body.decode(), (
            '{"allowed":true,"outcome":"allowed","limit":20,"remaining":19,"retry_after_ms":0,"reset_after_ms":600,'
            '"wait_ms":0,"degraded":false,"limits":['
            '{"name":"per-user","outcome":"allowed","limit":20,"remaining":19,"retry_after_ms":0,"reset_after_ms":600,'
            '"shadow":false},'
            '{"name":"quiet","outcome":"allowed","limit":1,"remaining":0,"retry_after_ms":0,"reset_after_ms":60000,'
            '"shadow":true}]}'))
        self.assertEqual(response.headers.pop("date"), "Thu, 01 Jan 2026 00:00:00 GMT")  # where the clock stands
        self.assertEqual(response.headers, {
            "content-type": "application/json", "content-length": str(len(response.body)), "cache-control": "no-store",
            "ratelimit-policy": '"per-user";q=20;w=12', "ratelimit": '"per-user";r=19;t=1',
            "x-ratelimit-limit": "20", "x-ratelimit-remaining": "19", "x-ratelimit-reset": "1"})

    def test_refused_until_the_stated_instant(self):
        self.expect(self.check(user("42", cost=20)), 200, remaining=0)
        response = self.check(user("42", cost=2))
        self.expect(response, 429, allowed=False, outcome="denied", limit=20, remaining=0, retry_after_ms=1200,
                    reset_after_ms=12_000)
        self.assertEqual((response.headers["retry-after"], response.headers["ratelimit"]),
                         ("2", '"per-user";r=0;t=2'))
        self.clock.advance(1_200_000 - 1)
        self.expect(self.check(user("42", cost=2)), 429, outcome="denied", retry_after_ms=1)
        self.clock.advance(1)
        self.expect(self.check(user("42", cost=2)), 200, remaining=0)

    def test_never(self):
        for body in (user("42", cost=21), user("banned")):
            response = self.check(body)
            self.expect(response, 429, allowed=False, outcome="never", retry_after_ms=None)
            self.assertNotIn("retry-after", response.headers)

    def test_peek_and_refund(self):
        self.expect(self.check(user("42", cost=5)), 200, remaining=15)
        self.expect(self.check(user("42", cost=0)), 200, remaining=15)
        self.expect(self.check(user("42", cost=-2)), 200, remaining=17)
        self.expect(self.check(user("42", cost=-100)), 200, remaining=20, reset_after_ms=0)

    def test_force_is_charged_and_remembered(self):
        self.expect(self.check(user("42", cost=30, force=True)), 200, remaining=0, reset_after_ms=18_000)
        self.expect(self.check(user("42")), 429, retry_after_ms=6_600)

    def test_partial_takes_what_is_there(self):
        self.expect(self.check(user("42", cost=15)), 200, remaining=5)
        self.expect(self.check(user("42", cost=12, partial=True)), 200, remaining=0, taken={"requests": 5})
        self.expect(self.check(user("42", cost=12, partial=True)), 429, outcome="denied")

    def test_waiting_reserves(self):
        self.expect(self.check(user("42", cost=20)), 200, wait_ms=0)
        self.expect(self.check(user("42", max_wait_ms=1_000)), 200, wait_ms=600)
        self.expect(self.check(user("42", max_wait_ms=1_000)), 429, retry_after_ms=200)

    def test_a_request_id_charges_once(self):
        first = self.check(user("42", request_id="a"))
        again = self.check(user("42", request_id="a"))
        self.expect(again, 200, replayed=True, remaining=19)
        self.assertEqual({**first.json(), "replayed": True}, again.json())
        self.expect(self.check(user("42", cost=0)), 200, remaining=19)
        self.expect_problem(self.check(user("43", request_id="a")), 409, "request")

    def test_units(self):
        costs = {"requests": 1, "tokens": 600}
        self.expect(self.check(user("42", "llm", costs=costs)), 200, limit=10, remaining=9)  # the one with less left
        answer = self.expect(self.check(user("42", "llm", costs=costs)), 429, outcome="denied", limit=1000)
        self.assertEqual([(limit["name"], limit["outcome"], limit["remaining"]) for limit in answer["limits"]],
                         [("rpm", "allowed", 9), ("tpm", "denied", 400)], "a refusal by one spends nothing in the other")
        response = self.check(user("42", "llm"))
        self.assertEqual([limit["name"] for limit in response.json()["limits"]], ["rpm"])
        self.assertEqual(self.check(user("42", "llm", costs={"tokens": 1})).headers["ratelimit-policy"],
                         '"tpm";q=1000;qu="tokens";w=60')

    def test_nothing_that_applies(self):
        self.expect(self.check({"domain": "api", "attributes": {"account": "1"}}), 200, allowed=True, limit=None,
                    remaining=None, limits=[])

    def test_array(self):
        items = self.check([user("42"), user("42", cost=20), user("x", "nowhere"), {"domain": "api", "cost": "1"},
                            {"key": "k", "limit": {"rate": "1/s"}}]).json()
        self.assertEqual([item["status"] for item in items], [200, 429, 404, 400, 200])
        self.assertEqual([item.get("remaining") for item in items], [19, 19, None, None, 0])
        self.assertIn("cost", items[3]["detail"])
        self.assertEqual(len(self.check([user("many", cost=0)] * 1_000).json()), 1_000)
        self.expect_problem(self.check([user("many", cost=0)] * 1_001), 413, "1000")
        self.expect_problem(self.check([]), 400, "is empty")

    def test_ad_hoc(self):
        def ask(key, **limit):
            return self.check({"key": key, "limit": limit})
        self.expect(ask("user:42", rate="100/min", burst=20), 200, limit=20, remaining=19, reset_after_ms=600)
        self.expect(ask("user:42", rate="100/min", burst=5), 200, limit=5, remaining=3)
        self.expect(ask("w", rate="3/min", algorithm="fixed_window"), 200, remaining=2)
        self.expect(ask("w", rate="3/min", algorithm="sliding_window"), 200, remaining=2)
        self.expect(ask("w", rate="3/min", algorithm="sliding_log"), 200, remaining=2, reset_after_ms=60_000)
        self.clock.advance(SECOND)
        self.expect(ask("f", rate="3/min", algorithm="fixed_window", **{"from": "first_request"}), 200,
                    reset_after_ms=60_000)
        self.expect(ask("none", rate="0"), 429, outcome="never")
        self.expect(ask("all", rate="unlimited"), 200, limit=None, remaining=None)
        self.expect_problem(ask("k", rate="100/fortnight"), 400, "limit.rate")
        self.expect_problem(ask("k", rate="1/s", burst=0), 400, "burst")
        self.expect_problem(ask("k", rate="1/s", algorithm="token_buckett"), 400, 'did you mean "token_bucket"')


class Permits(CurlCase):
    SEMA = {"key": "sema:api", "limit": {"permits": 2, "lease": "30s"}}

    def acquire(self, **more):
        answer = self.expect(self.check({**self.SEMA, **more}), 200, allowed=True, limit=2)
        return answer["permit"]

    def release(self, permit_id, result, status=200):
        self.expect(self.curl("/v1/release", body={"id": permit_id}), status, result=result)

    def test_held_renewed_and_given_back(self):
        first = self.acquire(holder="a")
        second = self.acquire(holder="b")
        self.assertEqual((first["expires_in_ms"], first["waited_ms"]), (30_000, 0))
        self.assertGreater(second["fence"], first["fence"])
        self.expect(self.check(self.SEMA), 429, outcome="denied", remaining=0, retry_after_ms=30_000)
        self.expect(self.check({**self.SEMA, "weight": 3}), 429, outcome="never", retry_after_ms=None)
        self.clock.advance(20 * SECOND)
        self.expect(self.curl("/v1/renew", body={"id": first["id"]}), 200, result="renewed", expires_in_ms=30_000)
        self.clock.advance(10 * SECOND)
        self.release(second["id"], "expired")
        self.expect(self.curl("/v1/renew", body={"id": second["id"]}), 200, result="expired")
        self.release(first["id"], "released")
        self.release(first["id"], "unknown")  # C61
        self.expect(self.check({**self.SEMA, "cost": 0}), 200, remaining=2)

    def test_holders(self):
        self.acquire(holder="a")
        self.acquire(holder="b")
        answer = self.expect(self.curl("/v1/holders?key=sema:api"), 200, in_use=2, waiting=0, permits=None, more=False)
        self.assertEqual([entry["holder"] for entry in answer["holders"]], ["a", "b"])
        self.expect(self.curl("/v1/holders?key=sema:api&holder=a", method="DELETE"), 200, released=1, unavailable=0)
        answer = self.expect(self.curl("/v1/holders?key=sema:api"), 200, in_use=1)
        self.assertEqual([entry["holder"] for entry in answer["holders"]], ["b"])
        self.expect_problem(self.curl("/v1/holders?key=sema:api", method="DELETE"), 400, "holder")

    def test_of_the_policy_beside_a_rate(self):
        put = self.curl("/v1/limits/api/in-flight", body=b"{key: [user], permits: 1, lease: 10s}", method="PUT")
        self.assertEqual(put.status, 201, put)
        answer = self.expect(self.check(user("1")), 200, allowed=True, remaining=0)
        rest = [limit["remaining"] for limit in answer["limits"] if limit["name"] != "in-flight"]
        refused = self.expect(self.check(user("1")), 429, outcome="denied")
        self.assertEqual([limit["remaining"] for limit in refused["limits"] if limit["name"] != "in-flight"], rest,
                         "C69: a refusal by permits spends no rate")
        self.expect(self.curl("/v1/limits/api/in-flight/holders?user=1"), 200, permits=1, in_use=1, available=0)
        self.expect_problem(self.curl("/v1/limits/api/in-flight/holders"), 404, "attributes")
        answer = self.curl("/auth/api?header=X-User:user", "-H", "X-User: 1")
        self.assertEqual(answer.status, 200, "permits do not apply there")

    def test_arrays_and_bodies(self):
        ids = [self.acquire()["id"], self.acquire()["id"]]
        items = self.curl("/v1/release", body=[{"id": ids[0]}, {"id": "none"}, {"di": "x"}, {"id": ids[1]}]).json()
        self.assertEqual([(item["status"], item.get("result")) for item in items],
                         [(200, "released"), (200, "unknown"), (400, None), (200, "released")])
        for body in (b"", b"[]", b"7", b'{"id":7}', b'{}'):
            self.assertEqual(self.curl("/v1/release", body=body, method="POST").status, 400, body)
            self.assertEqual(self.curl("/v1/renew", body=body, method="POST").status, 400, body)

    def test_bounds_are_named(self):  # C71
        for limit, words in (({"permits": 5, "lease": "1ms"}, "100ms to 24h"), ({"permits": 5, "lease": "365d"}, "100ms to 24h"),
                             ({"permits": 0}, "1 to 2147483647"), ({"permits": 5, "rate": "1/s"}, "not both")):
            self.expect_problem(self.check({"key": "k", "limit": limit}), 400, words)
        self.expect_problem(self.check({**self.SEMA, "weight": 0}), 400, "1 to 2147483647")
        self.expect_problem(self.check({**self.SEMA, "lease_ms": 1}), 400, "100 to 86400000")


class Settle(CurlCase):
    def test_to_less_and_to_more(self):
        settle = {**user("42", "llm"), "request_id": "r"}
        self.expect(self.check({**settle, "costs": {"tokens": 600}, "settle_within_ms": 600_000}), 200, remaining=400)
        for tokens, left in ((150, 850), (150, 850), (700, 300)):  # twice to the same: nothing more
            self.expect(self.curl("/v1/settle", body={**settle, "costs": {"tokens": tokens}}), 200, allowed=True)
            self.expect(self.check(user("42", "llm", costs={"tokens": 0})), 200, remaining=left)

    def test_ad_hoc(self):
        check = {"key": "k", "limit": {"rate": "10/min"}, "request_id": "r"}
        self.expect(self.check({**check, "cost": 6}), 200, remaining=4)
        self.expect(self.curl("/v1/settle", body={**check, "cost": 1}), 200, remaining=9)

    def test_what_cannot_be_settled(self):
        settle = {**user("42", "llm"), "request_id": "r"}
        self.expect_problem(self.curl("/v1/settle", body=settle), 400, "costs: is missing")
        self.expect_problem(self.curl("/v1/settle", body=user("42", "llm", costs={"tokens": 1})), 400, "request_id")
        self.expect_problem(self.curl("/v1/settle", body={**settle, "costs": {"tokens": 1}}), 404, "request")
        self.check({**settle, "costs": {"tokens": 5}})
        self.clock.advance(2 * MINUTE)
        self.expect_problem(self.curl("/v1/settle", body={**settle, "costs": {"tokens": 1}}), 404, "request")


class Limits(CurlCase):
    def test_list_and_one(self):
        limits = self.curl("/v1/limits").json()
        self.assertEqual([(limit["domain"], limit["name"]) for limit in limits],
                         [("api", "per-user"), ("api", "quiet"), ("llm", "rpm"), ("llm", "tpm"), ("web", "per-address"),
                          ("names", "per-name")])
        one = self.curl("/v1/limits/api/per-user").json()
        self.assertGreater(one.pop("version"), 0)
        for override in one["overrides"]:
            override.pop("version")
        self.assertEqual(one, {
            "domain": "api", "name": "per-user", "unit": "requests", "key": ["user"], "algorithm": "token_bucket",
            "limit": 20, "count": 100, "period_us": 60_000_000, "shadow": False, "source": "file",
            "definition": {"name": "per-user", "key": ["user"], "rate": "100/min", "burst": 20,
                           "overrides": [{"match": {"user": {"exact": "banned"}}, "rate": "0"}]},
            "overrides": [{"algorithm": "token_bucket", "limit": 0, "count": 0, "period_us": 0}]})
        self.expect_problem(self.curl("/v1/limits/api/nothing"), 404, "nothing")
        self.expect_problem(self.curl("/v1/limits/api"), 404, "no such path")
        self.expect_problem(self.curl("/v1/limits/api/per-user", method="DELETE"), 404, "set at run time")
        self.assertEqual(self.curl("/v1/limits/api/per-user", method="POST").headers["allow"], "GET, HEAD, PUT, DELETE")

    def test_look_at_a_bucket_and_reset_it(self):
        bucket = "/v1/limits/api/per-user/buckets?user=a%20b"
        self.check(user("a b", cost=7))
        self.expect(self.curl(bucket), 200, limit=20, remaining=13, reset_after_ms=4_200)
        self.expect(self.curl(bucket, method="DELETE"), 200, remaining=20, reset_after_ms=0)
        self.expect(self.curl(bucket), 200, remaining=20)
        self.expect(self.check(user("a b")), 200, remaining=19)
        self.expect_problem(self.curl("/v1/limits/api/per-user/buckets?account=1"), 404, "applies to these attributes")
        self.expect_problem(self.curl("/v1/limits/api/nothing/buckets?user=1"), 404, "nothing")
        self.expect_problem(self.curl(bucket, method="PUT"), 405, "takes GET, HEAD, DELETE")


class Auth(CurlCase):
    def test_any_method_and_headers(self):
        for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"):
            response = self.curl("/auth/names?header=X-Name:name", "-H", f"X-Name: {method}", method=method)
            self.assertEqual((response.status, response.body), (200, b""), response)
            self.assertEqual(response.headers["x-penstock-outcome"], "allowed")
        response = self.curl("/auth/names?header=X-Name:name", "-H", "X-Name: GET")
        self.assertEqual((response.status, response.headers["retry-after"], response.headers["ratelimit"]),
                         (429, "60", '"per-name";r=0;t=60'))
        self.assertEqual(self.curl("/auth/names?header=X-Name:name&deny_status=403", "-H", "X-Name: GET").status, 403)
        self.assertEqual(self.curl("/auth/names/other?header=X-Name:name", "-H", "X-Name: GET").status, 200)
        self.assertEqual(self.curl("/auth/names", "-H", "X-Name: unused").status, 200, "no name: no limit applies")

    def test_whose_forwarded_headers_are_believed(self):
        def statuses(*options):
            return [self.curl("/auth/web", *options).status for _ in range(3)]
        self.assertEqual(statuses(), [200, 200, 429])
        # From an address that is not trusted, the header changes nothing.
        self.assertEqual(statuses("-H", "X-Forwarded-For: 192.0.2.1"), [429, 429, 429])
        trusted = ("--interface", "127.0.0.2")
        self.assertEqual(statuses(*trusted, "-H", "X-Forwarded-For: 192.0.2.1"), [200, 200, 429])
        self.assertEqual(statuses(*trusted, "-H", "X-Forwarded-For: 192.0.2.2"), [200, 200, 429])
        # The rightmost hop that is no proxy counts; what stands left of it anybody can write.
        self.assertEqual(statuses(*trusted, "-H", "X-Forwarded-For: 203.0.113.9, 192.0.2.2, 127.0.0.2"), [429, 429, 429])
        self.assertEqual(statuses(*trusted), [200, 200, 429], "without the header it is the proxy itself")

    def test_what_is_wrong_in_the_address(self):
        self.expect_problem(self.curl("/auth/nowhere"), 404, "nowhere")
        self.expect_problem(self.curl("/auth"), 404, "domain")
        for query, words in (("cost=-1", "cost"), ("deny_status=200", "deny_status"), ("header=X", "header"),
                             ("deny=1", "unknown parameter")):
            self.expect_problem(self.curl(f"/auth/web?{query}"), 400, words)


class Status(CurlCase):
    def test_health_and_readiness(self):
        self.assertEqual(self.curl("/healthz").json(), {"alive": True})
        self.assertEqual(self.curl("/readyz").json(), {"ready": True})
        head = self.curl("/healthz", "-I")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(self.curl("/healthz", method="POST").headers["allow"], "GET, HEAD")

    def test_token(self):
        with harness.testserver("--policy", self.folder / "policy.yaml", env={"PENSTOCK_TOKEN": "t0ken"}) as server:
            for target, status in (("/healthz", 200), ("/readyz", 200), ("/metrics", 401), ("/v1/limits", 401),
                                   ("/auth/web", 401), ("/v1/check", 401)):
                self.assertEqual(self.curl(target, server=server).status, status, target)
            for name, value, target, status in (
                    ("Authorization", "Bearer t0ken", "/metrics", 200),
                    ("Authorization", "bearer t0ken", "/metrics", 200),
                    ("Authorization", "Bearer t0ken2", "/metrics", 401),
                    ("Authorization", "Basic t0ken", "/metrics", 401),
                    ("Authorization", "Bearer t0ken", "/auth/web", 401),  # there it is the client's behind the proxy
                    ("X-Penstock-Token", "t0ken", "/auth/web", 200)):
                response = self.curl(target, "-H", f"{name}: {value}", server=server)
                self.assertEqual(response.status, status, f"{name}: {value} on {target}")
            self.assertEqual(self.curl("/metrics", server=server).headers["www-authenticate"], "Bearer")


class Mistakes(CurlCase):
    def test_bodies(self):
        for body, words in ((b"", "JSON"), (b"{", "JSON at byte 1"), (b"\xff\xfe", "JSON"), (b"17", "object or an array"),
                            (b"[" * 1000, "JSON"), (b'{"domain":"api"} x', "JSON"), (b'{"domian":"api"}', '"domain"'),
                            (b'{}', "domain"), (b'{"domain":"api","cost":1.5}', "cost"),
                            (b'{"domain":"api","cost":"1"}', "cost"),
                            (b'{"domain":"api","cost":9223372036854775808}', "cost"),
                            (b'{"domain":"api","cost":2147483648}', "cost"),
                            (b'{"domain":"api","cost":1,"costs":{"requests":1}}', "exclude"),
                            (b'{"domain":"api","attributes":{"user":1}}', "attributes.user"),
                            (b'{"domain":"api","max_wait_ms":60001}', "max_wait_ms"),
                            (b'{"domain":"api","request_id":""}', "request_id"),
                            (b'{"domain":"api","key":"k"}', "key"), (b'{"key":"k"}', "limit.rate")):
            with self.subTest(body=body):
                self.expect_problem(self.check(body), 400, words)
        self.expect_problem(self.check(user("1", "nowhere")), 404, "nowhere")
        self.expect_problem(self.check(b" " * (1024 * 1024 + 1)), 413, "")

    def test_a_refusal_has_a_date_too_and_it_goes_on(self):
        self.assertEqual(self.check(b"{").headers["date"], "Thu, 01 Jan 2026 00:00:00 GMT")
        self.clock.advance(86_400 * SECOND)
        harness.wait_for(lambda: self.check(b"{").headers["date"] == "Fri, 02 Jan 2026 00:00:00 GMT")

    def test_paths_and_methods(self):
        self.expect_problem(self.curl("/v2/check"), 404, "no such path")
        self.expect_problem(self.curl("/v1/check/x"), 404, "no such path")
        self.assertEqual(self.curl("/v1/check").headers["allow"], "POST")
        self.assertEqual(self.curl("/metrics", method="POST").headers["allow"], "GET, HEAD")
        self.assertEqual(self.curl("/" + "x" * 20_000).status, 414)
        self.assertEqual(self.curl("/healthz", "-H", "X: " + "x" * 20_000).status, 431)


if __name__ == "__main__":
    print(subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0],
          flush=True)
    harness.main()
