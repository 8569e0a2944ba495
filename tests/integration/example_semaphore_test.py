#!/usr/bin/env python3
"""examples/semaphore does what its README says, built here with the Go on PATH. Skipped, with the reason, where there is
none."""
import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys

import harness
import redis_fleet
import resp_server
from wire import Http

FOLDER = harness.ROOT / "examples" / "semaphore"
ENVIRONMENT = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
PROGRAM = resp_server.workshop("semaphore") / "semaphore"
HOLDERS = "/v1/holders?key=third-party:pictures"


def build():
    subprocess.run(["go", "build", "-o", PROGRAM, "."], cwd=FOLDER, env={**os.environ, **ENVIRONMENT}, check=True)
    unformatted = subprocess.run(["gofmt", "-l", "."], cwd=FOLDER, capture_output=True, text=True, check=False).stdout
    assert not unformatted, f"gofmt would change {unformatted}"


class Pictures(harness.Server):
    """The example on a free port."""

    WRAPPER = redis_fleet.WITH_US

    def __init__(self, node, **environment):
        super().__init__(PROGRAM, [], {"LISTEN": "127.0.0.1:0", "PENSTOCK_URL": "http://{}:{}".format(*node.http),
                                       **environment})

    def wait_ready(self):
        line = self.lines.get(timeout=harness.PATIENCE_S)
        assert line and line.startswith("ready http="), f"said {line!r}:\n{self.log()}"
        self.ready_line = line
        self.http = harness.address(line.split("=", 1)[1])

    def get(self, of="42"):
        with Http(self.http) as http:
            return http.ask("GET", f"/picture?of={of}")


class Semaphore(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.node = self.enterContext(harness.penstock())

    def holders(self):
        with Http(self.node.http) as http:
            return http.ask("GET", HOLDERS).json()

    def test_two_services_call_two_at_a_time_and_give_back(self):
        services = [self.enterContext(Pictures(self.node, CALL_MS="50")) for _ in range(2)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: services[number % 2].get(number), range(8)))
        self.assertEqual([answer.status for answer in answers], [200] * 8, answers)
        harness.wait_for(lambda: self.holders()["in_use"] == 0)

    def test_who_comes_while_two_are_under_way_waits_and_is_refused(self):
        service = self.enterContext(Pictures(self.node, CALL_MS="6000"))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            under_way = [pool.submit(service.get) for _ in range(2)]
            harness.wait_for(lambda: self.holders()["in_use"] == 2)
            refused = service.get()
            self.assertEqual((refused.status, refused.json()["error"]), (503, "busy"))
            self.assertEqual([answer.result().status for answer in under_way], [200, 200])

    def test_a_client_that_goes_away_gives_its_permit_back(self):
        service = self.enterContext(Pictures(self.node, CALL_MS="1000000"))
        with Http(service.http) as http:
            http.send("GET", "/picture?of=1")
            harness.wait_for(lambda: self.holders()["in_use"] == 1)
        harness.wait_for(lambda: self.holders()["in_use"] == 0)

    def test_longer_than_its_lease(self):
        service = self.enterContext(Pictures(self.node, CALL_MS="12000"))
        self.assertEqual(service.get().status, 200)
        self.assertEqual(self.holders()["in_use"], 0)

    def test_could_not_ask_is_no_yes(self):
        service = self.enterContext(Pictures(self.node))
        self.node.stop()
        refused = service.get()
        self.assertEqual((refused.status, refused.json()["error"]), (503, "the semaphore cannot be asked"))

    def test_stopped_it_ends_in_order(self):
        service = self.enterContext(Pictures(self.node, CALL_MS="500"))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            under_way = pool.submit(service.get)
            harness.wait_for(lambda: self.holders()["in_use"] == 1)
            service.signal(signal.SIGTERM)
            self.assertEqual(under_way.result().status, 200)
        self.assertEqual(service.wait(), 0)
        self.assertEqual(self.holders()["in_use"], 0)


if __name__ == "__main__":
    if shutil.which("go") is None:
        sys.exit(resp_server.skipped("there is no Go on PATH"))
    build()
    harness.main()
