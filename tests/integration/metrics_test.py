#!/usr/bin/env python3
"""/metrics is what Prometheus reads, and counts what was answered. promtool looks at it too where it is on PATH."""
import shutil
import subprocess

import harness
import prometheus_text
from prometheus_text import value
from wire import Http, Resp

POLICY = """
domains:
  api:
    limits:
      - {name: per-user, key: [user], rate: 3/min}
      - {name: tokens, key: [user], unit: tokens, rate: 10/min}
      - {name: quiet, key: [user], rate: 1/min, shadow: true}
"""

ASKED = [  # cost by unit -> outcomes of per-user, tokens
    {"requests": 1}, {"requests": 1, "tokens": 8}, {"requests": 1, "tokens": 8}, {"requests": 1}, {"requests": 1},
    {"requests": 4}, {"tokens": 11}]


class Metrics(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(harness.testserver("--policy", self.write("policy.yaml", POLICY)))

    def page(self):
        with Http(self.server.http) as http:
            response = http.ask("GET", "/metrics")
        self.assertEqual(response.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        return response.body.decode()

    def ask_something(self):
        with Http(self.server.http) as http, Resp(self.server.resp) as resp:
            for costs in ASKED:
                http.check({"domain": "api", "attributes": {"user": "1"}, "costs": costs})
            http.check({"domain": "api"})
            http.check({"domain": "nowhere"})
            http.check({"key": "k", "limit": {"rate": "1/s"}})
            for _ in range(2):
                http.check({"key": "k", "limit": {"rate": "1/s"}, "request_id": "r"})
            http.check({"domain": "api", "request_id": "r2", "attributes": {"user": "2"}})
            http.check({"domain": "api", "request_id": "r2", "attributes": {"user": "3"}})
            for _ in range(2):
                resp.ask("CL.THROTTLE", "c", 0, 1, 60)

    def test_it_counts_what_was_answered(self):
        self.ask_something()
        samples = prometheus_text.parse(self.page())

        def outcomes(domain, limit):
            return [value(samples, "penstock_decisions_total", domain=domain, limit=limit, outcome=outcome, degraded="false")
                    for outcome in ("allowed", "denied", "never", "unavailable")]
        self.assertEqual(outcomes("api", "per-user"), [5, 1, 1, 0])
        self.assertEqual(outcomes("api", "tokens"), [1, 1, 1, 0])
        self.assertEqual(outcomes("(ad hoc)", "(ad hoc)"), [2, 3, 0, 0])
        self.assertEqual(value(samples, "penstock_requests_unmatched_total"), 1)
        self.assertEqual(value(samples, "penstock_request_id_conflicts_total"), 1)
        self.assertEqual(value(samples, "penstock_engine_errors_total", engine="memory", reason="full"), 0)
        self.assertEqual(value(samples, "penstock_decision_seconds_count", protocol="resp"), 2)
        self.assertEqual(value(samples, "penstock_policy_reloads_total", result="failed"), 0)

    def test_promtool(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool (package prometheus) is not on PATH; our own parser looked at the page")
        self.ask_something()
        done = subprocess.run(["promtool", "check", "metrics"], input=self.page(), capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_nothing_else_passes_the_parser(self):
        head = "# HELP a_total Help.\n# TYPE a_total counter\n"
        prometheus_text.parse(head + 'a_total{b="c\\"\\\\\\n"} 1\n')
        for wrong in (head + "a_total 1", head + "a_total one\n", head + "a_total 1\na_total 1\n", head + "a_total -1\n",
                      head + 'a_total{b="c} 1\n', head + 'a_total{b="c",} 1\n', head + 'a_total{b="c",b="d"} 1\n',
                      head + "b_total 1\n", "a_total 1\n", head + "a_total 1\n" + head, "# TYPE a_total counter\na_total 1\n",
                      "# HELP a Help.\n# TYPE a counter\na 1\n", "# HELP a Help.\n# TYPE a histogram\na_bucket 1\n",
                      '# HELP a H.\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 0\na_count 1\n',
                      '# HELP a H.\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 0\na_count 2\n'):
            with self.subTest(wrong=wrong), self.assertRaises((prometheus_text.Malformed, KeyError)):
                prometheus_text.parse(wrong)


if __name__ == "__main__":
    harness.main()
