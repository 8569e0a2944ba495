#!/usr/bin/env python3
"""Limits that are changed at run time: what a PUT says holds at once, beats the file through reloads and restarts, and ends
with its DELETE; revisions; the commands `penstock limits …`."""
import json
import signal

import harness
from wire import Http

POLICY = """
%s
engine: {snapshot: {path: %s, every: 60s}}
domains:
  api:
    limits:
      - {name: per-user, key: [user], rate: %d/d}
"""
LIMIT = "/v1/limits/api/per-user"


class Limits(harness.TestCase):
    def policy(self, rate, revision=None):
        first = f"revision: {revision}" if revision else ""
        return self.replace("p.yaml", POLICY % (first, self.folder / "state", rate))

    def serve(self):
        return harness.penstock("--policy", self.folder / "p.yaml")

    def ask(self, server, method, target, body=b"", headers=()):
        with Http(server.http) as http:
            return http.ask(method, target, body, headers)

    def limit(self, server):
        return self.ask(server, "GET", LIMIT).json()

    def remaining(self, server, cost=0, user="1"):
        with Http(server.http) as http:
            answer = http.check({"domain": "api", "attributes": {"user": user}, "cost": cost}).json()
        return answer["limit"], answer["remaining"]

    def reload(self, server, rate, revision=None):
        """The file says something else; until the server has read it."""
        before = server.log().count(" reloaded")
        self.policy(rate, revision)
        server.signal(signal.SIGHUP)
        harness.wait_for(lambda: server.log().count(" reloaded") > before, server.log)

    def put(self, server, rate, **headers):
        answer = self.ask(server, "PUT", LIMIT, {"key": ["user"], "rate": f"{rate}/d"}, headers.items())
        self.assertEqual(answer.status, 200, answer)
        return answer

    def test_a_put_holds_at_once_and_what_was_used_stays_used(self):
        self.policy(100)
        with self.serve() as server:
            self.assertEqual(self.remaining(server, 30), (100, 70))
            answer = self.put(server, 40)
            self.assertEqual(self.remaining(server), (40, 10))
            one = self.ask(server, "GET", LIMIT)
            self.assertEqual(one.headers["etag"], answer.headers["etag"])
            self.assertEqual(one.json()["source"], "put")
            self.assertEqual(one.json()["definition"], {"name": "per-user", "key": ["user"], "rate": "40/d"})
            self.assertEqual(self.ask(server, "DELETE", LIMIT).json()["source"], "file")
            self.assertEqual(self.remaining(server), (100, 70))
            self.assertEqual(self.ask(server, "DELETE", LIMIT).status, 404)

    def test_precedence_through_reloads_and_restarts(self):
        self.policy(100)
        with self.serve() as server:
            self.remaining(server, 30)
            version = self.put(server, 40).json()["version"]
            self.reload(server, 50)
            self.assertEqual(self.remaining(server), (40, 10), "the file waits")
        with self.serve() as server:
            self.assertEqual(self.remaining(server), (40, 10), "after a restart too")
            self.assertEqual(self.limit(server)["version"], version)
            self.reload(server, 60)
            self.assertEqual(self.remaining(server), (40, 10))
            removed = self.ask(server, "DELETE", LIMIT).json()
            self.assertGreater(removed["version"], version)
            self.assertEqual(self.remaining(server), (60, 30), "the newest file's")
        with self.serve() as server:
            self.assertEqual(self.remaining(server), (60, 30))
            self.assertEqual(self.limit(server)["version"], removed["version"], "equal content keeps its version")

    def test_revisions_through_reloads_and_restarts(self):
        self.policy(100, revision=7)
        with self.serve() as server:
            self.assertEqual(self.limit(server)["revision"], 7)
            self.reload(server, 50, revision=6)
            self.assertEqual(self.remaining(server)[0], 100, "a lower one follows")
        with self.serve() as server:
            self.assertEqual(self.remaining(server)[0], 100, "after a restart too")
            self.reload(server, 50)
            self.assertEqual(self.remaining(server)[0], 100, "none is the lowest")
            self.reload(server, 50, revision=7)
            server.wait_log("the limit api/per-user: revision 7 is registered with other content")
            self.assertEqual(self.remaining(server)[0], 100)
            self.reload(server, 50, revision=8)
            harness.wait_for(lambda: self.remaining(server)[0] == 50, server.log)
            self.put(server, 20)
            self.reload(server, 30, revision=9)
        self.policy(31, revision=9)
        done = harness.run("serve", "--policy", self.folder / "p.yaml", "--http", "127.0.0.1:0", "--resp", "off")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("api/per-user: revision 9 is registered with other content", done.stderr)
        self.policy(30, revision=9)
        with self.serve() as server:
            self.assertEqual(self.remaining(server)[0], 20, "a put needs no revision")
            self.ask(server, "DELETE", LIMIT)
            self.assertEqual(self.remaining(server)[0], 30)

    def test_limits_that_no_file_has(self):
        self.policy(100)
        fresh = "/v1/limits/jobs/exports"
        with self.serve() as server:
            answer = self.ask(server, "PUT", fresh, b"rate: 5/d\noverrides:\n  - {match: {plan: big}, rate: 9/d}\n")
            self.assertEqual(answer.status, 201, answer)
            self.assertEqual(self.remaining(server)[0], 100)
        with self.serve() as server:
            with Http(server.http) as http:
                for plan, limit in (("small", 5), ("big", 9)):
                    body = {"domain": "jobs", "attributes": {"plan": plan}, "cost": 1}
                    self.assertEqual(http.check(body).json()["limit"], limit)
            self.assertEqual(self.ask(server, "DELETE", fresh).json()["source"], None)
            self.assertEqual(self.ask(server, "GET", fresh).status, 404)
        with self.serve() as server:
            self.assertEqual(self.ask(server, "GET", fresh).status, 404)

    def test_without_a_policy_file(self):
        with harness.penstock() as server:
            self.assertEqual(self.ask(server, "PUT", LIMIT, b"rate: 5/d").status, 201)
            self.assertEqual(self.remaining(server, 1), (5, 4))

    def test_what_is_wrong_is_named_and_changes_nothing(self):
        self.policy(100)
        with self.serve() as server:
            version = self.limit(server)["version"]
            for body, words in ((b'{"rate":"3/d","brst":2}', "did you mean burst"), (b'{"rate":"3/dy"}', "rate: "),
                                (b"", "mapping"), (b'{"permits":3,"rate":"3/d"}', "not both"), (b'{"name":"x","rate":"3/d"}', "path"),
                                (b"key: [user]\nrate: 5/dy\n", "line 2: rate: ")):
                answer = self.ask(server, "PUT", LIMIT, body)
                self.assertEqual(answer.status, 400, answer)
                self.assertEqual(answer.headers["content-type"], "application/problem+json")
                self.assertIn(words, answer.json()["detail"])
            self.assertEqual(self.ask(server, "PUT", "/v1/limits/api/a%2Fb", b"rate: 1/d").status, 400)
            stale = self.ask(server, "PUT", LIMIT, b"rate: 3/d", [("If-Match", f'"{version - 1}"')])
            self.assertEqual(stale.status, 412, stale)
            self.assertEqual(self.limit(server)["version"], version)
            self.put(server, 3, **{"If-Match": f'"{version}"'})
            self.assertEqual(self.ask(server, "DELETE", LIMIT, headers=[("If-Match", f'"{version}"')]).status, 412)
            self.assertEqual(self.ask(server, "DELETE", LIMIT, headers=[("If-Match", "*")]).status, 200)

    def test_every_loop_has_it_when_it_is_answered(self):
        self.policy(100_000)
        with harness.penstock("--policy", self.folder / "p.yaml", "--threads", "4") as server:
            for rate in range(1_000, 1_020):
                self.put(server, rate)
                for _ in range(8):  # connections spread over the loops
                    self.assertEqual(self.remaining(server, user=str(rate))[0], rate)

    def run_limits(self, server, *args, code=0):
        url = f"http://{server.http[0]}:{server.http[1]}"
        done = harness.run("limits", *args, "--server", url)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def test_the_commands(self):
        self.policy(100, revision=3)
        with self.serve() as server:
            listed = self.run_limits(server, "list")
            self.assertRegex(listed, r"^api/per-user: token_bucket, 100/d, version \d+, from file, revision 3\n$")
            version = json.loads(self.run_limits(server, "get", "api", "per-user", "--json"))["version"]
            self.assertIn("version", self.run_limits(server, "set", "api", "per-user", "{key: [user], rate: 7/d}",
                                                     "--if-match", version - 1, code=1))
            self.assertIn("from put", self.run_limits(server, "set", "api", "per-user", "{key: [user], rate: 7/d}",
                                                      "--if-match", version))
            self.assertIn('"rate":"7/d"', self.run_limits(server, "get", "api", "per-user"))
            self.assertEqual(self.remaining(server, 3), (7, 4))
            self.assertIn("7 of 7 left", self.run_limits(server, "reset", "api", "per-user", "user=1"))
            path = self.write("limit.yaml", "rate: 2/d\n")
            self.assertIn("jobs/new: version", self.run_limits(server, "set", "jobs", "new", "--file", path))
            self.assertIn("did you mean rate", self.run_limits(server, "set", "jobs", "new", "{rte: 2/d}", code=2))
            self.assertIn("no longer in force", self.run_limits(server, "delete", "jobs", "new"))
            self.assertIn("from file", self.run_limits(server, "delete", "api", "per-user"))
            self.assertIn("no such limit", self.run_limits(server, "delete", "api", "per-user", code=2))
            self.run_limits(server, "set", "api", "per-user", code=2)
            self.assertNotEqual(harness.run("limits").returncode, 0)


if __name__ == "__main__":
    harness.main()
