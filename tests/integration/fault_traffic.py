"""Steady traffic on nodes while something fails, and what came of it: every request is answered, and soon, whatever
happens to the store.

    with fault_traffic.Traffic(fleet) as traffic:
        time.sleep(0.5); redis.freeze(); ...
    traffic.admitted["u3"]; traffic.lost; traffic.slowest

Half of the connections speak HTTP, the others RESP; each has one request under way. They ask for users u0 to u<KEYS-1>
in turn, so that every key is asked for over every connection.
"""
import itertools
import threading
import time
from collections import Counter

import harness
from wire import Closed, Http, Resp, RespError

HANG_S = 4.0  # no answer takes so long on a machine that has time for it: the time-outs are some 10 ms
PAUSE_S = 0.01


class Sample:
    """One request: when it was sent and answered (monotonic), by which node, for whom, and what came."""

    def __init__(self, node, user, sent, done, outcome, degraded, reason):  # pylint: disable=too-many-arguments
        self.node, self.user, self.sent, self.done = node, user, sent, done
        self.outcome, self.degraded, self.reason = outcome, degraded, reason

    @property
    def took(self):
        return self.done - self.sent

    def __repr__(self):
        return (f"<{self.user} at {self.sent:.3f} by node {self.node}: {self.outcome}"
                f"{' degraded' if self.degraded else ''} {self.reason} in {self.took * 1e3:.0f} ms>")


def ask_http(wire, user, fields):
    """(allowed, outcome, degraded, reason)"""
    reply = wire.ask("POST", "/v1/check", {"domain": "api", "attributes": {"user": user}, **fields})
    assert reply.status in (200, 429, 503), reply
    answer = reply.json()
    return answer["allowed"], answer["outcome"], answer["degraded"], answer.get("reason", "")


def ask_resp(wire, user, fields):
    options = ["REQUESTID", fields["request_id"]] if "request_id" in fields else []
    reply = wire.ask("PEN.CHECK", "api", 1, "user", user, *options)
    assert not isinstance(reply, RespError), reply
    return reply[0] == 1, reply[1], reply[7] == 1, ""


class Traffic:
    """Begins at once; ends with `with`, or by stop(). `nodes` have http and resp."""

    def __init__(self, nodes, connections=8, keys=10, pause=PAUSE_S, **fields):
        self.keys, self.pause, self.fields = keys, pause, fields
        self.samples = []  # appended to by every thread: list.append is one step
        self.lost = []     # (when, which node, what happened): connections that broke with a request under way
        self._ends = threading.Event()
        self._turns = itertools.count()
        targets = [(index, node) for index, node in enumerate(nodes)]
        self._threads = [threading.Thread(target=self._run, args=(*targets[i % len(targets)], i // len(targets) % 2))
                         for i in range(connections)]
        self.starved = 0.0  # the longest that one who wanted to sleep for a moment slept in excess
        self._threads.append(threading.Thread(target=self._watch))
        for thread in self._threads:
            thread.start()

    def _watch(self):
        while not self._ends.is_set():
            began = time.monotonic()
            time.sleep(0.02)
            self.starved = max(self.starved, time.monotonic() - began - 0.02)

    def _run(self, index, node, speaks_http):
        ask = ask_http if speaks_http else ask_resp
        wire = None
        while not self._ends.is_set():
            turn = next(self._turns)
            user = f"u{turn % self.keys}"
            fields = {name: value(turn) for name, value in self.fields.items()}
            sent = time.monotonic()
            try:
                if wire is None:
                    wire = Http(node.http[:2]) if speaks_http else Resp(node.resp)
                allowed, outcome, degraded, reason = ask(wire, user, fields)
            except (OSError, Closed) as error:
                self.lost.append((sent, index, repr(error)))
                wire = None
                self._ends.wait(0.05)
                continue
            except AssertionError as error:
                self.lost.append((sent, index, repr(error)))
                return
            word = "admitted" if allowed else outcome if outcome != "allowed" else "contradiction"
            self.samples.append(Sample(index, user, sent, time.monotonic(), word, degraded, reason))
            self._ends.wait(self.pause)
        if wire is not None:
            wire.close()

    def stop(self):
        self._ends.set()
        for thread in self._threads:
            thread.join(harness.PATIENCE_S)
        assert not any(thread.is_alive() for thread in self._threads), "a request hangs"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # --- what came --------------------------------------------------------------------------------------------

    @property
    def admitted(self):
        """How often each user was told that he may go."""
        return Counter(sample.user for sample in list(self.samples) if sample.outcome == "admitted")

    def count(self, outcome, since=0.0, until=float("inf")):
        return sum(sample.outcome == outcome and since <= sample.sent < until for sample in list(self.samples))

    def decided(self, since, until=float("inf")):
        """How many the engine decided of those that were sent in this time."""
        return sum(not sample.degraded and since <= sample.sent < until for sample in list(self.samples))

    def wait_decided(self, count=20):
        """Until the engine has decided so many more; what the last that it did not decide was, if it does not."""
        since = time.monotonic()
        harness.wait_for(lambda: self.decided(since) >= count, lambda: f"the engine is not back: {self.samples[-3:]}")

    def check(self, test):
        """Nothing was lost, nothing took long, nobody was told two things at once."""
        test.assertEqual(self.lost, [])
        test.assertGreater(len(self.samples), 50)
        # Client, node and Redis may each have been kept waiting for the machine.
        slow = [sample for sample in self.samples if sample.took > HANG_S + 5 * self.starved]
        test.assertEqual(slow, [])
        test.assertEqual([sample for sample in self.samples if sample.outcome == "contradiction"], [])
