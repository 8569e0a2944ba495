#!/usr/bin/env python3
"""examples/service does what its README says, against real nodes that are stopped, frozen, cut off."""
import concurrent.futures
import http.server
import signal
import sys
import threading

import harness
import redis_fleet
from tcp_proxy import Proxy
from wire import Http

SERVICE = harness.ROOT / "examples" / "service" / "service.py"
LIMITS = [{"name": "per-user", "key": ["user"], "rate": "3/h"},
          {"name": "closed", "match": {"user": "banned"}, "rate": 0}]
PATIENT = {"BUDGET_MS": "30000"}  # where it is not about the budget, a slow machine must not decide


class Service(harness.Server):
    """The example on a free port, before these nodes."""

    WRAPPER = (*redis_fleet.WITH_US, sys.executable)

    def __init__(self, nodes, **environment):
        super().__init__(SERVICE, [], {"LISTEN": "127.0.0.1:0", "PENSTOCK_NODES": ",".join(nodes), **environment})

    def wait_ready(self):
        line = self.lines.get(timeout=harness.PATIENCE_S)
        assert line and line.startswith("ready http="), f"said {line!r}:\n{self.log()}"
        self.ready_line = line
        self.http = harness.address(line.split("=", 1)[1])

    def get(self, target):
        with Http(self.http) as http:
            return http.ask("GET", target)

    def report(self, user):
        """(status, left, degraded, Retry-After or None)"""
        response = self.get(f"/report?user={user}")
        body = response.json()
        return response.status, body.get("left"), body.get("degraded"), response.headers.get("retry-after")


def url(node):
    return "http://{}:{}".format(*node.http)


class WithNodes(harness.TestCase):
    def setUp(self):
        super().setUp()
        policy = self.write("policy.yaml", redis_fleet.policy(LIMITS).replace('"api"', '"reports"'))
        self.fleet = self.enterContext(redis_fleet.Fleet(2, policy))

    def service(self, *nodes, **environment):
        return self.enterContext(Service(nodes, **environment))

    def test_admits_then_passes_on_the_wait(self):
        service = self.service(url(self.fleet[0]), **PATIENT)
        first = service.get("/report?user=42")
        self.assertEqual((first.status, first.json()), (200, {"report": "all about 42", "left": 2, "degraded": False}))
        self.assertEqual(first.headers["ratelimit"], '"per-user";r=2;t=1200')
        self.assertIn("per-user", first.headers["ratelimit-policy"])
        self.assertNotIn("retry-after", first.headers)
        self.assertEqual([service.report(42)[:3] for _ in range(3)], [(200, 1, False), (200, 0, False), (429, 0, False)])
        status, _, _, wait = service.report(42)
        self.assertEqual(status, 429)
        self.assertIn(int(wait), range(1_100, 1_201))
        self.assertEqual(service.report("banned"), (429, 0, False, None), "never: waiting does not help")

    def test_other_paths_ask_nobody(self):
        service = self.service("http://127.0.0.1:1", **PATIENT)
        self.assertEqual([service.get(target).status for target in ("/healthz", "/", "/report", "/report?user=")],
                         [200, 404, 400, 400])
        self.assertNotIn("penstock at", service.log())

    def test_all_nodes_are_asked_in_turn(self):
        service = self.service(*map(url, self.fleet), **PATIENT)
        self.assertEqual([service.report(7)[:2] for _ in range(8)],
                         [(200, 2), (200, 2), (200, 1), (200, 1), (200, 0), (200, 0), (429, 0), (429, 0)])

    def test_a_node_that_is_gone_costs_nobody_an_answer(self):
        service = self.service(*map(url, self.fleet), **PATIENT)
        service.report(7)
        service.report(7)
        self.fleet.kill(0)
        self.assertEqual([service.report(8)[:3] for _ in range(4)],
                         [(200, 2, False), (200, 1, False), (200, 0, False), (429, 0, False)])

    def test_a_frozen_node_takes_its_share_of_the_budget(self):
        service = self.service(*map(url, self.fleet), BUDGET_MS="4000")
        self.fleet[0].signal(signal.SIGSTOP)
        self.addCleanup(self.fleet[0].signal, signal.SIGCONT)
        self.assertEqual([service.report(8)[:3] for _ in range(4)],
                         [(200, 2, False), (200, 1, False), (200, 0, False), (429, 0, False)])
        self.assertIn("TimeoutError", service.log())

    def test_a_lost_answer_is_not_charged_twice(self):
        proxy = self.enterContext(Proxy(self.fleet[0].http))
        service = self.service(f"http://127.0.0.1:{proxy.port}", url(self.fleet[0]), BUDGET_MS="4000")
        proxy.black_hole(requests=False)
        self.assertEqual(service.report(9)[:2], (200, 2))
        self.assertIn("TimeoutError", service.log(), "the first answer was lost")
        self.assertEqual(self.fleet[0].check({"user": "9"}, domain="reports", cost=0)["remaining"], 2)

    def test_without_any_node_it_does_as_told(self):
        for told, status in (("allow", 200), ("deny", 503)):
            service = self.service("http://127.0.0.1:1", "http://127.0.0.1:2", WHEN_UNASKED=told)
            self.assertEqual(service.report(42)[:3], (status, None, True))
            self.assertEqual(service.stop(), 0)

    def test_connections_are_kept_and_replaced_when_closed(self):
        proxy = self.enterContext(Proxy(self.fleet[0].http))
        service = self.service(f"http://127.0.0.1:{proxy.port}", **PATIENT)
        self.assertEqual([service.report(user)[0] for user in range(5)], [200] * 5)
        self.assertEqual(proxy.accepted, 1)
        proxy.reset()
        self.assertEqual([service.report(user)[:2] for user in range(5)], [(200, 1)] * 5)
        self.assertEqual(proxy.accepted, 2)

    def test_a_mistake_of_its_own_is_no_verdict(self):
        policy = self.write("other.yaml", redis_fleet.policy(LIMITS))  # without its domain
        with redis_fleet.Fleet(1, policy) as other:
            service = self.service(url(other[0]), **PATIENT)
            self.assertEqual(service.get("/report?user=42").status, 500)
            self.assertIn("404", service.log())

    def test_what_is_no_verdict_is_no_answer(self):
        """A balancer that has lost its nodes, say: the next one is asked."""
        class Balancer(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.send_error(503)

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Balancer) as balancer:
            threading.Thread(target=balancer.serve_forever, daemon=True).start()
            service = self.service(f"http://127.0.0.1:{balancer.server_port}", url(self.fleet[0]), **PATIENT)
            self.assertEqual([service.report(3)[:3] for _ in range(2)], [(200, 2, False), (200, 1, False)])
            self.assertIn("503 without a verdict", service.log())
            balancer.shutdown()

    def test_token(self):
        policy = self.write("policy.yaml", redis_fleet.policy(LIMITS).replace('"api"', '"reports"'))
        with redis_fleet.Fleet(1, policy, env={"PENSTOCK_TOKEN": "let-me-in-please"}) as closed:
            self.assertEqual(self.service(url(closed[0]), PENSTOCK_TOKEN="let-me-in-please", **PATIENT).report(1)[0], 200)
            self.assertEqual(self.service(url(closed[0]), **PATIENT).report(1)[0], 500)

    def test_many_at_once_are_counted_right(self):
        service = self.service(url(self.fleet[0]), **PATIENT)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            statuses = list(pool.map(lambda i: service.report(i % 4)[0], range(64)))
        self.assertEqual((statuses.count(200), statuses.count(429)), (12, 52))


if __name__ == "__main__":
    harness.main()
