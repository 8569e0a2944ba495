#!/usr/bin/env python3
"""What no honest client sends, over real sockets: broken heads and bodies, RESP garbage, huge commands, halves of
requests, random bytes, thousands of connections. Everything is refused with a reason or closed, and meanwhile a
well-behaved client of each protocol gets the right answer to everything it asks."""
import os
import random
import resource
import socket
import struct
import threading
import time

import harness
import prometheus_text
from wire import Http, Resp, Wire, command

POLICY = """
domains:
  api: {limits: [{name: per-user, key: [user], rate: 100/min, burst: 20}]}
"""

CHECK = (b'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n'
         b'{"domain":"api","attributes":{"user":"halves"},"cost":1}    ')
THROTTLE = command("CL.THROTTLE", "halves", 15, 30, 60) + command("PEN.CHECK", "api", 1, "user", "halves", "COST", 2)

# (what is sent, the statuses that may come back)
BAD_HEADS = {
    "binary": (bytes(range(256)), {400}),
    "a Redis command": (b"*1\r\n$4\r\nPING\r\n", {400}),
    "TLS on the plain port": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), {400}),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    "no version": (b"GET /healthz\r\n\r\n", {400}),
    "a version to come": (b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n", {505}),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", {400}),
    "two hosts": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", {400}),
    "a space in the target": (b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", {400}),
    "a header without a colon": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", {400}),
    "a space before the colon": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", {400}),
    "a folded header": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", {400}),
    "a zero byte": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", {400}),
    "two lengths": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", {400}),
    "a negative length": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: -2\r\n\r\n{}", {400}),
    "a length beyond 64 bits": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
                                {400, 413}),
    "a length beyond the bound": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n", {413}),
    "length and chunks": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
                          b"2\r\n{}\r\n0\r\n\r\n", {400}),
    "an encoding it does not have": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", {400, 501}),
    "a chunk that is no number": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {400}),
    "a chunk beyond 64 bits": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                               b"fffffffffffffffff\r\n", {400, 413}),
    "a chunk longer than it says": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                                    b"2\r\n{}}}\r\n0\r\n\r\n", {400}),
    "a target without end": (b"GET /" + b"a" * 100_000, {414}),
    "headers without end": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 10_000, {431}),
    "a header without end": (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 100_000, {431}),
    "an unknown expectation": (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\nContent-Length: 2\r\n\r\n{}",
                               {400, 417}),
}

# What is sent, and how the refusal begins. The connection is closed after it.
BAD_FRAMES = {
    "a count without end": (b"*1000000000\r\n", "ERR Protocol error: invalid multibulk length"),
    "a count that is no number": (b"*a\r\n", "ERR Protocol error: invalid multibulk length"),
    "a bulk beyond the bound": (b"*2\r\n$4\r\nPING\r\n$999999999\r\n", "ERR Protocol error: invalid bulk length"),
    "a negative bulk": (b"*1\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
    "an integer for a bulk": (b"*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
    "too many arguments": (command("PEN.CHECK", "api", 1_000, *["a"] * 2_000),
                           "ERR Protocol error: invalid multibulk length"),
    "a line without end": (b"PING " + b"a" * 200_000, "ERR Protocol error: too big inline request"),
    "an open quote": (b'PING "a\r\n', "ERR Protocol error: unbalanced quotes"),
}

# Refused, and the connection goes on.
BAD_COMMANDS = {
    ("CL.THROTTLE",): "ERR wrong number of arguments",
    ("CL.THROTTLE", "k", "1", "1"): "ERR wrong number of arguments",
    ("CL.THROTTLE", "k", "1", "1", "60", "1", "1"): "ERR wrong number of arguments",
    ("CL.THROTTLE", "k", "-1", "1", "60"): "ERR max_burst",
    ("CL.THROTTLE", "k", "1", "0", "60"): "ERR count",
    ("CL.THROTTLE", "k", "1", "1", "0"): "ERR period",
    ("CL.THROTTLE", "k", "1", "1", "60", "-1"): "ERR quantity",
    ("CL.THROTTLE", "k", "1.5", "1", "60"): "ERR max_burst",
    ("CL.THROTTLE", "k", "", "1", "60"): "ERR max_burst",
    ("CL.THROTTLE", "k", "nan", "1", "60"): "ERR max_burst",
    ("CL.THROTTLE", "k", "9223372036854775807", "9223372036854775807", "9223372036854775807"): "ERR ",
    ("CL.THROTTLE", "k", "2147483646", "1", "4503599627"): "ERR ",  # would take longer than can be told
    ("CL.THROTTLE", "k" * 70_000, "1", "1", "60"): "ERR ",
    ("PEN.CHECK",): "ERR wrong number of arguments",
    ("PEN.CHECK", "api", "2", "user", "1"): "ERR fewer attributes",
    ("PEN.CHECK", "api", "-1"): "ERR npairs",
    ("PEN.CHECK", "api", "65"): "ERR npairs",
    ("PEN.CHECK", "api", "0", "COST"): "ERR COST",
    ("PEN.CHECK", "api", "0", "COST", "1", "COST", "1"): "ERR 'COST' stands twice",
    ("PEN.CHECK", "api", "0", "NONSENSE"): "ERR syntax error",
    ("PEN.CHECK", "api", "0", "COSTS", "9", "a", "1"): "ERR COSTS",
    ("PEN.CHECK", "nowhere", "0"): "NOTFOUND ",
    ("PEN.ACQUIRE", "k", "1", "1"): "ERR lease_ms must be from 100",
    ("PEN.ACQUIRE", "k", "0", "1000"): "ERR permits must be from 1",
    ("PEN.ACQUIRE", "k", "1", "1000", "WEIGHT", "0"): "ERR WEIGHT",
    ("PEN.RENEW", "k", "1"): "ERR lease_ms must be 0",
    ("PEN.RELEASE",): "ERR wrong number of arguments",
    ("FLUSHALL",): "ERR unknown command 'FLUSHALL'",
    ("\0\r\n\xff",): "ERR unknown command",
    ("SELECT", "1"): "ERR ",
}


class Witness(threading.Thread):
    """A well-behaved client of both protocols: user after user it uses up a bucket and compares every answer."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.rounds, self.failure, self.stopping = server, 0, None, threading.Event()

    def run(self):
        try:
            with Http(self.server.http) as http, Resp(self.server.resp) as resp:
                while not self.stopping.is_set():
                    self.use_up(http, resp, f"witness-{self.rounds}")
                    self.rounds += 1
        except Exception as error:  # pylint: disable=broad-except; the main thread reports it
            self.failure = error

    @staticmethod
    def use_up(http, resp, name):
        for cost, left, reset in ((1, 19, 600), (9, 10, 6_000), (10, 0, 12_000)):
            answer = http.check({"domain": "api", "attributes": {"user": name}, "cost": cost}).json()
            got = answer["allowed"], answer["remaining"], answer["reset_after_ms"]
            assert got == (True, left, reset), f"{name}, cost {cost}: {answer}"
            reply = resp.ask("CL.THROTTLE", name, 19, 100, 60, cost)
            assert reply == [0, 20, left, -1, -(-reset // 1_000)], f"{name}, cost {cost}: {reply}"
        response = http.check({"domain": "api", "attributes": {"user": name}})
        assert (response.status, response.json()["retry_after_ms"]) == (429, 600), f"{name}: {response}"
        reply = resp.ask("PEN.CHECK", "api", 1, "user", name)
        assert reply[:6] == [0, "denied", 20, 0, 600, 12_000], f"{name}: {reply}"

    def still_fine(self):
        """Until it has finished rounds that began after now."""
        wanted = self.rounds + 2
        harness.wait_for(lambda: self.failure is not None or self.rounds >= wanted)
        assert self.failure is None, f"the well-behaved client: {self.failure!r}"


def reset(wire):
    """Closes as a crashed peer does."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


class BadInput(harness.TestCase):
    def setUp(self):
        super().setUp()
        policy = self.write("policy.yaml", POLICY)
        self.server = self.enterContext(harness.testserver("--policy", policy, "--threads", 2))
        self.witness = Witness(self.server)
        self.witness.start()
        self.began = time.monotonic()

    def tearDown(self):
        try:
            self.witness.still_fine()
            with Http(self.server.http) as http:
                prometheus_text.parse(http.ask("GET", "/metrics").body.decode())
        finally:
            self.witness.stopping.set()
            self.witness.join(harness.PATIENCE_S)
        print(f"[{self.witness.rounds} rounds of the witness, {time.monotonic() - self.began:.1f} s] ", end="", flush=True)

    def test_heads(self):
        for name, (data, statuses) in BAD_HEADS.items():
            with self.subTest(name), Http(self.server.http) as http:
                http.send_bytes(data)
                response = http.receive()
                self.assertIn(response.status, statuses)
                self.assertEqual(response.headers["content-type"], "application/problem+json")
                self.assertEqual(response.json()["status"], response.status)
                self.assertEqual(response.headers.get("connection"), "close")
                self.assertEqual(http.until_closed(), b"")

    def test_bodies(self):
        bodies = [b"", b"\xff" * 1000, b"{" * 100_000, b"[" * 100_000, b'{"domain":"api","attributes":' * 20_000,
                  b'"' + b"a" * 1_000_000, b"1" * 1_000_000, b'{"cost":1e999999}', b'{"cost":' + b"9" * 100_000 + b"}",
                  b'{"domain":"api","attributes":{"user":"\\ud800"}}',
                  b'{"domain":"api","attributes":{%s}}' % b",".join(b'"a%d":"b"' % i for i in range(50_000)),
                  b'{"key":"' + b"k" * 70_000 + b'","limit":{"rate":"1/s"}}',
                  b'{"key":"k","limit":{"rate":"99999999999999999999/s"}}',
                  b'{"key":"k","limit":{"rate":"1/99999999999999999999d"}}',
                  b"[" + b"{}," * 999 + b"{}]", b"[" + b"[]," * 999 + b"1]", b"{} {}", b"nul", b"\0"]
        with Http(self.server.http) as http:  # one connection: a bad body is no reason to close it
            for body in bodies:
                with self.subTest(body=body[:60]):
                    response = http.check(body)
                    if body.startswith(b"[{}") or body.startswith(b"[[]"):
                        self.assertEqual({item["status"] for item in response.json()}, {400})
                    else:
                        self.assertIn(response.status, (400, 413))
                        self.assertEqual(response.json()["status"], response.status)
                    self.assertNotIn("connection", response.headers)

    def test_frames(self):
        for name, (data, refusal) in BAD_FRAMES.items():
            with self.subTest(name), Resp(self.server.resp) as resp:
                resp.send_bytes(command("PING") + data)
                self.assertEqual(resp.receive(), "PONG")
                self.assertEqual(resp.receive()[:len(refusal)], refusal)
                self.assertEqual(resp.until_closed(), b"")

    def test_a_browser_on_the_redis_port(self):
        """Whoever makes a browser post to the port must not have its body read as commands."""
        for data in (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 45\r\n\r\nCL.THROTTLE browser 0 1 60\r\n",
                     b"Host: x\r\nCL.THROTTLE browser 0 1 60\r\n"):
            with Resp(self.server.resp) as resp:
                resp.send_bytes(data)
                self.assertNotIn(b":", resp.until_closed(), "a command was answered")
        with Resp(self.server.resp) as resp:
            self.assertEqual(resp.ask("CL.THROTTLE", "browser", 0, 1, 60)[0], 0)

    def test_commands(self):
        with Resp(self.server.resp) as resp:
            for args, refusal in BAD_COMMANDS.items():
                with self.subTest(args=[arg[:30] for arg in args]):
                    reply = resp.ask(*(arg.encode("latin-1") for arg in args))
                    self.assertTrue(str(reply).startswith(refusal), reply)
                    self.assertNotIn("\n", reply)
            self.assertEqual(resp.ask("PEN.CHECK", "api", 500, *["a"] * 1_000)[:10], "ERR npairs")
            self.assertEqual(resp.ask("ECHO", b"a" * 60_000), "a" * 60_000)

    def test_halves_then_the_end(self):
        """Every prefix of a request, then a close or a reset: nothing of it is charged unless it was whole."""
        for address, data in ((self.server.http, CHECK), (self.server.resp, THROTTLE)):
            for size in range(len(data)):
                wire = Wire(address)
                wire.send_bytes(data[:size])
                reset(wire) if size % 2 else wire.close()
        self.witness.still_fine()
        with Http(self.server.http) as http:
            bucket = http.ask("GET", "/v1/limits/api/per-user/buckets?user=halves").json()
            self.assertEqual(bucket["remaining"], 20, "half a request was charged")
        with Resp(self.server.resp) as resp:  # the first of the two commands was whole in some of them
            self.assertIn(resp.ask("CL.THROTTLE", "halves", 15, 30, 60, 0)[2], range(0, 16))

    def test_random_damage(self):
        seed = int(os.environ.get("PENSTOCK_SEED", 1))
        print(f"(PENSTOCK_SEED={seed}) ", end="", flush=True)
        rng = random.Random(seed)
        for address, data in ((self.server.http, CHECK * 3), (self.server.resp, THROTTLE * 3)):
            for _ in range(1_000):
                damaged = bytearray(data)
                for _ in range(rng.randint(1, 6)):
                    at = rng.randrange(len(damaged))
                    kind = rng.randrange(4)
                    if kind == 0:
                        damaged[at] = rng.randrange(256)
                    elif kind == 1:
                        del damaged[at:at + rng.randint(1, 20)]
                    elif kind == 2:
                        damaged[at:at] = rng.randbytes(rng.randint(1, 20))
                    else:
                        damaged[at:at] = damaged[rng.randrange(len(damaged)):][:rng.randint(1, 200)]
                with Wire(address) as wire:
                    try:
                        wire.send_bytes(bytes(damaged))
                        wire.socket.shutdown(socket.SHUT_WR)
                    except OSError:  # refused before all was sent
                        pass
                    wire.until_closed()  # it ends: nothing is waited for that cannot come

    def test_thousands_of_connections(self):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        each = min(2_000, (most - 200) // 2)
        wires = []
        for number in range(each):
            for address, data in ((self.server.http, CHECK), (self.server.resp, THROTTLE)):
                wire = (Http if data is CHECK else Resp)(address)
                wire.send_bytes(data[:number % 40])
                wires.append(wire)
        self.witness.still_fine()
        # A tenth of them go on and are answered; the rest are reset at once.
        for number in range(0, each, 10):
            http, resp = wires[2 * number], wires[2 * number + 1]
            http.send_bytes(CHECK[number % 40:])
            resp.send_bytes(THROTTLE[number % 40:])
            self.assertIn(http.receive().status, (200, 429))
            self.assertEqual(len(resp.receive()), 5)
            self.assertEqual(len(resp.receive()), 14)
        for wire in wires:
            reset(wire)
        with Http(self.server.http) as http:
            harness.wait_for(lambda: prometheus_text.value(
                prometheus_text.parse(http.ask("GET", "/metrics").body.decode()),
                "penstock_connections", protocol="resp") == 1)
        print(f"({2 * each} connections at once) ", end="", flush=True)


if __name__ == "__main__":
    harness.main()
