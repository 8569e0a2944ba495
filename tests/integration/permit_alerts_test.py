#!/usr/bin/env python3
"""The alert rules of deploy/prometheus: promtool finds them right, they name metrics that there are, and a Prometheus that
scrapes a node fires on drift, which is seen within one round of the node's watch."""
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request

import harness
import prometheus_text
import redis_fleet
from port import Port

RULES = harness.ROOT / "deploy" / "prometheus" / "penstock.rules.yml"
PERMITS = {"name": "in-flight", "key": ["user"], "permits": 5, "lease": "5min"}
WITHIN_S = 20

PROMETHEUS = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: penstock
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus:
    """A prometheus that scrapes one target under our rules."""

    def __init__(self, folder, target):
        self._port = Port()
        self.url = f"http://127.0.0.1:{self._port.number}"
        config = folder / "prometheus.yml"
        config.write_text(PROMETHEUS.format(rules=RULES, target=target))
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*redis_fleet.WITH_US, "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
                 f"--web.listen-address=127.0.0.1:{self._port.number}", "--log.level=warn"], stdout=log, stderr=log)

    def firing(self):
        try:
            with urllib.request.urlopen(self.url + "/api/v1/alerts", timeout=5) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except OSError:  # not there yet
            return set()
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(harness.PATIENCE_S)
        self._port.close()


class PermitAlerts(harness.TestCase):
    def promtool(self, *args):
        done = subprocess.run(["promtool", *args], cwd=RULES.parent, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_rules_are_right_and_fire_when_they_should(self):
        self.promtool("check", "rules", RULES.name)
        self.promtool("test", "rules", "penstock.rules.test.yml")

    def start(self):
        redis = self.enterContext(redis_fleet.Redis())
        policy = self.write("policy.yaml", redis_fleet.policy([PERMITS], timeout="3s"))
        node = self.enterContext(redis_fleet.Fleet(1, policy, redis.url()))[0]
        harness.wait_for(node.is_ready)
        return redis, node

    def gauges(self, node):
        return prometheus_text.parse(node.ask("GET", "/metrics").body.decode())

    def test_every_metric_of_the_rules_is_on_the_page(self):
        _, node = self.start()
        node.check({"user": "42"})
        names = set(re.findall(r"\bpenstock_\w+", " ".join(re.findall(r"expr: (.*)", RULES.read_text()))))
        self.assertGreater(len(names), 4)
        page = ""

        def there():
            nonlocal page
            page = node.ask("GET", "/metrics").body.decode()
            return all(f"\n{name}{{" in page for name in names)
        harness.wait_for(there, lambda: f"{[name for name in names if name + '{' not in page]} are not on the page")

    def test_a_holder_that_somebody_deletes_is_drift_and_fires(self):
        redis, node = self.start()
        prometheus = self.enterContext(Prometheus(self.folder, "%s:%d" % node.http[:2]))
        held = [node.check({"user": "42"}) for _ in range(3)]
        self.assertTrue(all(answer["allowed"] for answer in held))

        def value(name):
            try:
                return prometheus_text.value(self.gauges(node), name, domain="api", limit="in-flight")
            except KeyError:
                return None
        harness.wait_for(lambda: value("penstock_permits_in_use") == 3, lambda: "three are held")
        self.assertEqual((value("penstock_permits_available"), value("penstock_permits_drift")), (2, 0))
        self.delete_one_holder(redis)
        deleted = time.monotonic()
        harness.wait_for(lambda: value("penstock_permits_drift") == 1, lambda: "the drift is not seen")
        seen = time.monotonic() - deleted
        print(f"seen after {seen:.1f} s", file=sys.stderr)
        self.assertLess(seen, WITHIN_S)
        harness.wait_for(lambda: "PenstockPermitDrift" in prometheus.firing(), lambda: f"firing: {prometheus.firing()}")
        # The engine takes the set's word: what nobody holds can be had.
        harness.wait_for(lambda: value("penstock_permits_drift") == 0, lambda: "it drifts for ever")
        self.assertEqual(value("penstock_permits_in_use"), 2)
        more = [node.check({"user": "42"})["allowed"] for _ in range(4)]
        self.assertEqual(more, [True, True, True, False])

    def delete_one_holder(self, redis):
        bucket = next(key for key in redis.keys("pen:*p:*"))
        # The first of those whose score is an instant.
        script = "return redis.call('ZREM', KEYS[1], redis.call('ZRANGEBYSCORE', KEYS[1], 1, '+inf', 'LIMIT', 0, 1)[1])"
        self.assertEqual(redis.ask("EVAL", script, 1, bucket), 1)


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    if shutil.which("promtool") is None or shutil.which("prometheus") is None:
        print("SKIPPED: there is no prometheus, nor its promtool")
        sys.exit(harness.SKIPPED)
    harness.main()
