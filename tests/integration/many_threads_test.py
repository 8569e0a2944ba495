#!/usr/bin/env python3
"""64 client threads at once: a bucket of 1,000 admits exactly 1,000 of 20,000, over HTTP and over RESP, each with a
remainder of its own; of two limits at once the one that does not refuse loses nothing by the other's refusals."""
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import harness
from wire import Http, Resp

THREADS = 64
ASKED = 20_000
SIZE = 1_000
SMALL = 300

# A day's rate: in the time of this test not one token comes back.
POLICY = f"""
domains:
  one: {{limits: [{{name: all, rate: {SIZE}/d}}]}}
  two:
    limits:
      - {{name: wide, key: [who], rate: {SIZE}/d}}
      - {{name: narrow, rate: {SMALL}/d}}
"""


class HttpAsker:
    """Answers as (allowed, remaining)."""

    def __init__(self, server, domain):
        self.wire = Http(server.http)
        self.body = {"domain": domain, "attributes": {"who": "all"}}

    def send(self):
        self.wire.send("POST", "/v1/check", self.body)

    def receive(self):
        response = self.wire.receive()
        answer = response.json()
        assert response.status == (200 if answer["allowed"] else 429), response
        return answer["allowed"], answer["remaining"]


class CheckAsker:
    def __init__(self, server, domain):
        self.wire = Resp(server.resp)
        self.domain = domain

    def send(self):
        self.wire.send("PEN.CHECK", self.domain, 1, "who", "all")

    def receive(self):
        reply = self.wire.receive()
        return reply[0] == 1, reply[3]


class ThrottleAsker:
    def __init__(self, server, _):
        self.wire = Resp(server.resp)

    def send(self):
        self.wire.send("CL.THROTTLE", "all", SIZE - 1, SIZE, 86_400)

    def receive(self):
        reply = self.wire.receive()
        return reply[0] == 0, reply[2]


def ask_with_threads(asker, server, domain):
    """All answers. Every thread has a connection and keeps up to 20 requests in flight; they begin together."""
    barrier = threading.Barrier(THREADS)
    answers = [[] for _ in range(THREADS)]
    failures = []

    def work(index):
        share = ASKED // THREADS + (index < ASKED % THREADS)
        client = asker(server, domain)
        with client.wire:
            barrier.wait()
            while len(answers[index]) < share:
                now = min(20, share - len(answers[index]))
                for _ in range(now):
                    client.send()
                answers[index] += [client.receive() for _ in range(now)]

    def guarded(index):
        try:
            work(index)
        except Exception as error:  # pylint: disable=broad-except; reported by the main thread
            failures.append(f"thread {index}: {error!r}")
            barrier.abort()

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, "\n".join(failures)
    return [answer for part in answers for answer in part]


def expect_exactly(answers, size, name):
    assert len(answers) == ASKED, f"{name}: {len(answers)} answers"
    remainders = Counter(remaining for allowed, remaining in answers if allowed)
    admitted = sum(remainders.values())
    assert admitted == size, f"{name}: {admitted} admitted of {size}"
    assert remainders == Counter(range(size)), f"{name}: two callers were admitted with the same remainder"
    refused = {remaining for allowed, remaining in answers if not allowed}
    assert refused == {0}, f"{name}: refused with {sorted(refused)} remaining"


def main():
    with tempfile.TemporaryDirectory() as temporary:
        policy = Path(temporary) / "policy.yaml"
        policy.write_text(POLICY)
        for asker, name in ((HttpAsker, "HTTP"), (CheckAsker, "PEN.CHECK"), (ThrottleAsker, "CL.THROTTLE")):
            began = time.monotonic()
            with harness.penstock("--policy", policy, "--threads", 4) as server:
                expect_exactly(ask_with_threads(asker, server, "one"), SIZE, name)
                if asker is not ThrottleAsker:
                    expect_exactly(ask_with_threads(asker, server, "two"), SMALL, name + ", two limits")
                    with Http(server.http) as http:
                        wide = http.ask("GET", "/v1/limits/two/wide/buckets?who=all").json()
                    assert wide["remaining"] == SIZE - SMALL, f"{name}: narrow's refusals cost wide something: {wide}"
            print(f"{name}: of {ASKED} by {THREADS} threads exactly {SIZE} admitted"
                  f"{'' if asker is ThrottleAsker else f'; {SMALL} under two limits, the other untouched'}; "
                  f"{time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
