#!/usr/bin/env python3
"""A service that asks Penstock before it works. Python's standard library alone: copy `Limiter` into your own service,
or write the same in your language; it is one POST. (The server around it is for showing: http.server is not made for
the open internet.)

    PENSTOCK_NODES=http://127.0.0.1:8080,http://127.0.0.1:8081 python3 examples/service/service.py
    curl -i 'http://127.0.0.1:9000/report?user=42'

What it may be told by the environment:
    LISTEN           where it serves; port 0 takes a free one            [127.0.0.1:9000]
    PENSTOCK_NODES   the nodes of the fleet, any of them will do          [http://127.0.0.1:8080]
    PENSTOCK_TOKEN   the token that Penstock asks for, if it does
    BUDGET_MS        how long a caller waits for the question at most     [100]
    WHEN_UNASKED     allow or deny, if no node answers in that time       [allow]
"""
import http.client
import itertools
import json
import os
import queue
import signal
import sys
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DOMAIN = "reports"  # of deploy/policy.yaml
PASSED_ON = ("RateLimit", "RateLimit-Policy", "Retry-After")  # what a polite client wants to know
IDLE_CONNECTIONS = 16  # kept to a node, at most
AVOID_S = 1.0  # how long a node that did not answer is asked last


class Misused(Exception):
    """Penstock says that the question is wrong: a domain that the policy does not have, a wrong token. That is our
    mistake and no answer. It must show, so it is folded neither into yes nor into no."""


class NoAnswer(Exception):
    """Something that is no verdict, such as the 503 of a balancer without nodes behind it."""


class Answer:
    """What Penstock said, or that nobody could be asked (status None)."""

    def __init__(self, allowed, status=None, decision=None, headers=None):
        self.allowed = allowed
        self.status = status
        self.left = (decision or {}).get("remaining")  # None where no limit applied
        # Penstock itself could not reach its Redis and decided by what it knew, or we could not reach Penstock.
        self.degraded = status is None or decision["degraded"]
        self.headers = headers or {}


class Node:
    """One penstock and the idle connections to it: a new one for every question would cost more than the answer."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            sys.exit(f"PENSTOCK_NODES: {url!r} is no URL of a node")
        self.kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.address = parts.hostname, parts.port
        self.idle = queue.LifoQueue(IDLE_CONNECTIONS)
        self.avoid_until = 0.0

    def post(self, body, headers, deadline):
        """(status, headers, body). Raises OSError or http.client.HTTPException if there is no answer in time."""
        try:
            connection, kept = self.idle.get_nowait(), True
        except queue.Empty:
            connection, kept = self.kind(*self.address), False
        try:
            if not kept:
                connection.timeout = left_s(deadline)
                connection.connect()
            connection.sock.settimeout(left_s(deadline))
            connection.request("POST", "/v1/check", body, headers)
            response = connection.getresponse()
            answer = response.status, response.headers, response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if kept and not isinstance(error, TimeoutError):  # it had been closed while idle; the node may be fine
                return self.post(body, headers, deadline)
            raise
        if connection.sock is not None:  # the node keeps it open
            try:
                self.idle.put_nowait(connection)
            except queue.Full:
                connection.close()
        return answer


def left_s(deadline):
    return max(0.001, deadline - time.monotonic())


class Limiter:
    """Asks the nodes in turn until one answers, for at most `budget_s`. Thread-safe."""

    def __init__(self, nodes, budget_s, token=None, allow_unasked=True):
        self.nodes = [Node(url) for url in nodes]
        self.budget_s = budget_s
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.allow_unasked = allow_unasked
        self.turn = itertools.count()

    def check(self, domain, attributes, cost=1):
        """May this go now?"""
        # The id makes asking again safe: if the first node decided and only its answer was lost, the second gives
        # that same answer and charges nothing. Without an id a question that may have arrived must not be repeated.
        body = json.dumps({"domain": domain, "attributes": attributes, "cost": cost, "request_id": uuid.uuid4().hex})
        deadline = time.monotonic() + self.budget_s
        nodes = self.in_turn()
        for index, node in enumerate(nodes):
            # What is left is shared by those that may still be asked, so that one silent node does not use it up.
            share_s = left_s(deadline) / (len(nodes) - index)
            try:
                return self.read(*node.post(body, self.headers, time.monotonic() + share_s))
            except (OSError, http.client.HTTPException, NoAnswer) as error:
                node.avoid_until = time.monotonic() + AVOID_S
                log(f"penstock at {node.address[0]}:{node.address[1]}: {error!r}")
        return Answer(self.allow_unasked)

    def in_turn(self):
        """Each is the first as often as the others; those that did not answer a moment ago come last."""
        first = next(self.turn) % len(self.nodes)
        now = time.monotonic()
        return sorted(self.nodes[first:] + self.nodes[:first], key=lambda node: node.avoid_until > now)

    @staticmethod
    def read(status, headers, body):
        """200: go. 429: denied, or never. 503: Penstock's engine cannot be asked and the limit says deny then."""
        if status != 429 and 400 <= status < 500:
            raise Misused(f"{status}: {body.decode(errors='replace')}")
        try:
            decision = json.loads(body)
            allowed = decision["allowed"]
        except (ValueError, TypeError, KeyError):
            raise NoAnswer(f"{status} without a verdict") from None
        passed_on = {name: headers[name] for name in PASSED_ON if name in headers}
        return Answer(allowed, status, decision, passed_on)


class Service(BaseHTTPRequestHandler):
    """GET /report?user=NAME: something that is worth a limit."""

    protocol_version = "HTTP/1.1"
    timeout = 30  # a client that is silent for longer is left
    limiter = None

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        user = urllib.parse.parse_qs(url.query).get("user", [""])[0]
        if url.path == "/healthz":  # of this process alone: without Penstock it still does what WHEN_UNASKED says
            self.answer(200, {"alive": True})
        elif url.path != "/report":
            self.answer(404, {"error": "there is /report?user=NAME"})
        elif not user:
            self.answer(400, {"error": "whose report? say ?user=NAME"})
        else:
            self.report(user)

    def report(self, user):
        try:
            # All limits of the domain whose keys are among these are decided together; a refusal by one spends nothing
            # of the others. Behind a proxy the address is the proxy's: take the one that it vouches for.
            verdict = self.limiter.check(DOMAIN, {"user": user, "ip": self.client_address[0]})
        except Misused as error:
            log(f"penstock refuses the question: {error}")
            self.answer(500, {"error": "misconfigured"})
            return
        known = {"left": verdict.left, "degraded": verdict.degraded}
        if verdict.allowed:
            self.answer(200, {"report": f"all about {user}", **known}, verdict.headers)
        elif verdict.status == 429:
            # Retry-After comes along where waiting helps; a client that comes earlier is refused again.
            self.answer(429, {"error": "too many reports", **known}, verdict.headers)
        else:
            self.answer(503, {"error": "the limit cannot be asked", **known}, {"Retry-After": "1"})

    def answer(self, status, fields, headers=None):
        body = (json.dumps(fields) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form, *values):
        log(f"{self.client_address[0]} {form % values}")


def log(line):
    print(line, file=sys.stderr, flush=True)


def main():
    environment = os.environ.get
    when_unasked = environment("WHEN_UNASKED", "allow")
    if when_unasked not in ("allow", "deny"):
        sys.exit(f"WHEN_UNASKED: {when_unasked!r} is neither allow nor deny")
    nodes = [url.strip() for url in environment("PENSTOCK_NODES", "http://127.0.0.1:8080").split(",")]
    Service.limiter = Limiter(nodes, int(environment("BUDGET_MS", "100")) / 1000, environment("PENSTOCK_TOKEN"),
                              when_unasked == "allow")
    host, _, port = environment("LISTEN", "127.0.0.1:9000").rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Service)
    # shutdown() waits for serve_forever, which a signal's handler interrupts: so it is asked from another thread.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print("ready http={}:{}".format(*server.server_address), flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()


if __name__ == "__main__":
    main()
