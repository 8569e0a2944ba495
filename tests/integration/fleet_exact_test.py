#!/usr/bin/env python3
"""Ten penstock processes on one Redis admit together exactly what a limit says, whatever the algorithm: 20,000 requests
for a bucket of 1,000."""
import collections
import threading

import harness
import redis_fleet
from wire import Resp, command

NODES, CONNECTIONS, REQUESTS, ADMITTED = 10, 2, 1_000, 1_000
AT_ONCE = 50  # requests that a connection sends together
ALGORITHMS = {
    # A day gives one back, no test takes so long.
    "token-bucket": {"rate": "1/d", "burst": ADMITTED},
    "fixed-window": {"rate": f"{ADMITTED}/d", "algorithm": "fixed_window", "from": "first_request"},
    "sliding-window": {"rate": f"{ADMITTED}/d", "algorithm": "sliding_window"},
    "sliding-log": {"rate": f"{ADMITTED}/d", "algorithm": "sliding_log"},
}
# A machine may be so busy that Redis does not answer a node for seconds. What a node does then alone is another test's
# matter: here it denies.
PATIENT = {"timeout": "30s", "on_failure": "deny"}


class Asker(threading.Thread):
    """One connection that sends REQUESTS checks and counts the outcomes."""

    def __init__(self, node, attributes):
        super().__init__()
        self.node = node
        pairs = [part for pair in attributes.items() for part in pair]
        self.check = command("PEN.CHECK", "api", len(attributes), *pairs)
        self.outcomes = collections.Counter()

    def run(self):
        with Resp(self.node.resp) as connection:
            for _ in range(REQUESTS // AT_ONCE):
                connection.send_bytes(self.check * AT_ONCE)
                for _ in range(AT_ONCE):
                    reply = connection.receive()
                    self.outcomes[reply[1] if isinstance(reply, list) else reply] += 1


class Exact(harness.TestCase):
    def admitted(self, limits, attributes, unix=False):
        """Outcomes of all requests, counted."""
        policy = self.write("policy.yaml", redis_fleet.policy(limits, **PATIENT))
        with redis_fleet.Redis() as redis:
            url = redis.unix_url if unix else redis.url()
            with redis_fleet.Fleet(NODES, policy, url, "--threads", 1) as fleet:
                fleet.wait_ready()
                askers = [Asker(node, attributes) for node in fleet for _ in range(CONNECTIONS)]
                for asker in askers:
                    asker.start()
                for asker in askers:
                    asker.join()
                return sum((asker.outcomes for asker in askers), collections.Counter())

    def exactly(self, limit, outcomes):
        """All that the limit has and nothing above it; less only where answers were lost."""
        lost = outcomes.pop("unavailable", 0)
        asked = NODES * CONNECTIONS * REQUESTS - lost
        if lost:
            print(f"(busy: {lost} requests were answered without Redis)", flush=True)
            self.assertLessEqual(outcomes["allowed"], limit)
            limit = outcomes["allowed"]
        self.assertEqual(outcomes, {"allowed": limit, "denied": asked - limit})

    def test_each_algorithm(self):
        for name, what in ALGORITHMS.items():
            with self.subTest(algorithm=name):
                outcomes = self.admitted([{"name": name, "key": ["user"], **what}], {"user": "42"})
                self.exactly(ADMITTED, outcomes)

    def test_all_of_them_at_once_over_a_unix_socket(self):
        """Of several limits the tightest counts, and what it refuses costs the others nothing."""
        limits = [{"name": name, "key": ["user"], **what} for name, what in ALGORITHMS.items()]
        limits.append({"name": "tight", "key": ["user"], "rate": "1/d", "burst": 700})
        self.exactly(700, self.admitted(limits, {"user": "42"}, unix=True))


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    harness.main()
