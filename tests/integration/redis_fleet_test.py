#!/usr/bin/env python3
"""What the tests of several nodes stand on does what it says: the Redis of a test's own, the proxy that loses, delays and
cuts, and the nodes."""
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import harness
import redis_fleet
from tcp_proxy import Proxy
from wire import Closed, Resp, RespError

SOON_S = 0.3  # long enough that what is not held back has come


class ItsOwnRedis(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.redis = self.enterContext(redis_fleet.Redis())

    def test_penstock_is_let_in_and_only_it(self):
        login = redis_fleet.USER, redis_fleet.PASSWORD
        for address in (("127.0.0.1", self.redis.port), self.redis.socket_path):
            with Resp(address) if isinstance(address, tuple) else redis_fleet.UnixResp(address) as connection:
                self.assertIsInstance(connection.ask("PING"), RespError)
                self.assertEqual(connection.ask("AUTH", *login), "OK")
                self.assertEqual(connection.ask("SET", "pen:x", "1", "PX", 1000), "OK")
                self.assertIn("NOPERM", connection.ask("GET", "other"))
                self.assertIn("NOPERM", connection.ask("FLUSHALL"))

    def test_stop_kill_restart(self):
        self.redis.ask("SET", "a", "1")
        self.redis.restart()
        self.assertEqual(self.redis.keys(), ["a"])
        self.redis.restart(keep_data=False)
        self.assertEqual(self.redis.keys(), [])
        for end in (self.redis.stop, self.redis.kill):
            end()
            self.assertFalse(self.redis.running)
            self.assertRaises(ConnectionRefusedError, self.redis.ask, "PING")
            self.redis.start()
            self.assertEqual(self.redis.ask("PING"), "PONG")

    def test_what_it_kept_in_its_file_is_read_back_although_nobody_may_be_its_default_user(self):
        redis = self.enterContext(redis_fleet.Redis("appendonly yes", "appendfsync always"))
        redis.ask("EVAL", "redis.call('SET', 'pen:a', 1) redis.call('SET', 'pen:b', 1)", 0)  # kept as MULTI … EXEC
        redis.kill()
        redis.start()
        self.assertEqual(redis.keys(), ["pen:a", "pen:b"])

    def test_frozen_it_takes_connections_and_says_nothing(self):
        self.redis.freeze()
        with Resp(("127.0.0.1", self.redis.port)) as connection:
            connection.send("PING")
            self.assertTrue(silent(connection))
            self.redis.thaw()
            self.assertIsInstance(connection.receive(), RespError, "asks for a password")
        self.redis.freeze()
        self.redis.kill()
        self.assertFalse(self.redis.running)

    def test_it_ends_with_the_test_however_that_ends(self):
        script = "import redis_fleet, os, signal, sys; r = redis_fleet.Redis(); print(r.process.pid, flush=True); sys.stdin.read()"
        child = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parent, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        pid = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        child.communicate()
        harness.wait_for(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


def silent(connection):
    """Nothing comes for a moment."""
    connection.socket.settimeout(SOON_S)
    try:
        return not connection.socket.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    except ConnectionResetError:
        return False
    finally:
        connection.socket.settimeout(harness.PATIENCE_S)


class Echo:
    """A server that sends back what it gets, and the end too."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.received = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection):
        with connection:
            try:
                while data := connection.recv(65_536):
                    self.received += data
                    connection.sendall(data)
            except OSError:
                pass


class TheProxy(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.echo = Echo()
        self.addCleanup(self.echo.listener.close)
        self.proxy = self.enterContext(Proxy(self.echo.listener.getsockname()))

    def connect(self):
        return self.enterContext(Resp(self.proxy.address))

    def test_passes_everything_and_the_end(self):
        connection = self.connect()
        data = os.urandom(3_000_000)
        sender = threading.Thread(target=lambda: (connection.send_bytes(data),
                                                  connection.socket.shutdown(socket.SHUT_WR)))
        sender.start()
        self.assertEqual(connection.until_closed(), data)
        sender.join()
        harness.wait_for(lambda: self.proxy.connections == 0)
        self.assertEqual(self.proxy.accepted, 1)

    def test_black_hole_keeps_both_ways_and_gives_them_on_healing(self):
        connection = self.connect()
        connection.send_bytes(b"1")
        self.assertEqual(connection.exactly(1), b"1")
        self.proxy.black_hole()
        connection.send_bytes(b"23")
        self.assertTrue(silent(connection))
        self.assertEqual(self.echo.received, b"1")
        self.proxy.heal()
        self.assertEqual(connection.exactly(2), b"23")

    def test_black_hole_lets_nobody_connect_and_refuses_nobody(self):
        self.proxy.black_hole()
        with socket.socket() as late:
            late.settimeout(SOON_S)
            self.assertRaises(TimeoutError, late.connect, self.proxy.address)
        self.proxy.heal()
        connection = self.connect()
        connection.send_bytes(b"x")
        self.assertEqual(connection.exactly(1), b"x")

    def test_replies_alone_are_lost(self):
        connection = self.connect()
        self.proxy.black_hole(requests=False)
        connection.send_bytes(b"ran")
        harness.wait_for(lambda: self.echo.received == b"ran")
        self.assertTrue(silent(connection))
        self.proxy.reset()
        self.assertRaises(Closed, connection.exactly, 1)

    def test_cut_refuses_until_healed(self):
        connection = self.connect()
        connection.send_bytes(b"1")
        connection.exactly(1)
        for _ in range(3):
            self.proxy.cut()
            self.assertRaises(Closed, connection.exactly, 1)
            self.assertRaises(ConnectionRefusedError, Resp, self.proxy.address)
            self.proxy.cut()  # twice is once
            self.proxy.heal()
            connection = self.connect()
            connection.send_bytes(b"2")
            self.assertEqual(connection.exactly(1), b"2")

    def test_one_fault_after_another(self):
        self.proxy.black_hole()
        self.proxy.cut()
        self.assertRaises(ConnectionRefusedError, Resp, self.proxy.address)
        self.proxy.heal()
        self.proxy.cut()
        self.proxy.heal()
        connection = self.connect()
        connection.send_bytes(b"x")
        self.assertEqual(connection.exactly(1), b"x")

    def test_delay_is_each_chunks_own(self):
        """A second chunk does not wait for the first one's delay and then its own."""
        connection = self.connect()
        self.proxy.delay(0.4, replies=False)
        began = time.monotonic()
        connection.send_bytes(b"1")
        self.assertTrue(silent(connection))
        connection.send_bytes(b"2")
        self.assertEqual(connection.exactly(1), b"1")
        self.assertGreaterEqual(time.monotonic() - began, 0.4)
        self.assertEqual(connection.exactly(1), b"2")
        self.assertGreaterEqual(time.monotonic() - began, 0.4 + SOON_S)
        self.proxy.delay(0)
        connection.send_bytes(b"3")
        self.assertEqual(connection.exactly(1), b"3")

    def test_a_reset_client_resets_the_server(self):
        connection = self.connect()
        connection.send_bytes(b"1")
        connection.exactly(1)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        harness.wait_for(lambda: self.proxy.connections == 0)

    def test_without_a_server_behind_it(self):
        self.echo.listener.shutdown(socket.SHUT_RDWR)
        with self.assertRaises((Closed, ConnectionResetError)):  # the reset may come before connecting is done
            self.connect().exactly(1)

    def test_what_it_holds_is_bounded(self):
        connection = self.connect()
        self.proxy.black_hole(replies=False)
        connection.socket.setblocking(False)
        sent = 0
        while sent < 200_000_000:
            try:
                sent += connection.socket.send(bytes(1_000_000))
            except BlockingIOError:
                if silent(connection) and sent == self.sent_again(connection, sent):
                    break
        self.assertLess(sent, 200_000_000)

    @staticmethod
    def sent_again(connection, sent):
        connection.socket.setblocking(False)
        try:
            return sent + connection.socket.send(bytes(1))
        except BlockingIOError:
            return sent


class Nodes(harness.TestCase):
    def test_each_answers_and_one_can_be_killed_and_started_again(self):
        limits = [{"name": "per-user", "key": ["user"], "rate": "5/h"}]
        policy = self.write("policy.yaml", redis_fleet.policy(limits))
        with redis_fleet.Fleet(3, policy) as fleet:
            fleet.wait_ready()
            self.assertEqual([node.check({"user": "1"})["remaining"] for node in fleet], [4, 4, 4])
            self.assertEqual(fleet[1].check({"user": "1"})["remaining"], 3, "over the kept connection")
            fleet.kill(1)
            self.assertRaises(OSError, fleet[1].check, {"user": "1"})
            fleet.start_again(1)
            self.assertEqual([node.check({"user": "1"})["remaining"] for node in fleet], [3, 4, 3])
            fleet[0].stop()
            self.assertEqual(len(fleet), 3)


if __name__ == "__main__":
    redis_fleet.skip_without_redis()
    harness.main()
