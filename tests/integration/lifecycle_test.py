#!/usr/bin/env python3
"""Start, ready line, refusals to start, reload by signal, ordered stop."""
import os
import shutil
import signal
import socket
import threading

import harness
from wire import Http, Resp

POLICY = """
domains:
  api: {limits: [{name: per-user, key: [user], rate: 100/min, burst: %d}]}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Start(harness.TestCase):
    def test_the_ready_line_has_the_real_addresses(self):
        policy = self.write("limits.yaml", POLICY % 5)
        port = free_port()
        with harness.penstock("--policy", policy, "--http", f"127.0.0.1:{port}", "--threads", 2) as server:
            self.assertEqual(list(server.ready), ["http", "resp", "grpc", "engine", "policy"])
            self.assertEqual(server.http, ("127.0.0.1", port))
            self.assertNotIn(server.resp[1], (0, port))
            self.assertEqual(server.ready["grpc"], "off")
            self.assertEqual(server.ready["engine"], "memory")
            self.assertEqual(server.ready["policy"], "limits.yaml")
            with Http(server.http) as http, Resp(server.resp) as resp:
                self.assertEqual(http.check({"domain": "api", "attributes": {"user": "1"}}).json()["remaining"], 4)
                self.assertEqual(resp.ask("PEN.CHECK", "api", 1, "user", "1")[3], 3)

    def test_without_a_policy_only_ad_hoc_limits_are_taken(self):
        with harness.penstock() as server:
            self.assertEqual(server.ready["policy"], "none")
            with Http(server.http) as http:
                self.assertEqual(http.check({"key": "k", "limit": {"rate": "1/min"}}).status, 200)
                self.assertEqual(http.check({"domain": "api", "attributes": {}}).status, 404)

    def test_a_port_can_be_off(self):
        with harness.penstock("--http", "off") as server:
            self.assertIsNone(server.http)
            with Resp(server.resp) as resp:
                self.assertEqual(resp.ask("PING"), "PONG")
        with harness.penstock("--resp", "off") as server:
            self.assertIsNone(server.resp)
            with Http(server.http) as http:
                self.assertEqual(http.ask("GET", "/healthz").status, 200)

    def test_ipv6_is_served(self):
        if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
            self.skipTest("no IPv6 here")
        with harness.penstock("--http", "[::1]:0") as server:
            with Http(server.http) as http:
                self.assertEqual(http.ask("GET", "/readyz").status, 200)

    def test_the_file_says_where_to_listen_and_a_flag_wins(self):
        policy = self.write("p.yaml", "listen: {http: off, resp: '127.0.0.1:0', threads: 1}\n" + POLICY % 5)
        with harness.Server("penstock", ["serve", "--policy", policy]) as server:
            self.assertIsNone(server.http)
            self.assertIsNotNone(server.resp)
        flags = ["--http", "127.0.0.1:0", "--threads", "auto"]
        with harness.Server("penstock", ["serve", "--policy", policy, *flags]) as server:
            self.assertIsNotNone(server.http)


class Refusal(harness.TestCase):
    """What cannot be served is said on stderr, with an exit code, and never half."""

    def refused(self, code, words, *args, env=None):
        done = harness.run("serve", *args, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_other_machines_may_connect_only_with_a_token_or_insecure(self):
        for where in ("0.0.0.0:0", "[::]:0", "*:0"):
            self.refused(2, "without a token", "--http", where, "--resp", "off")
            self.refused(2, "without a token", "--resp", where, "--http", "off")
        with harness.penstock("--http", "*:0", "--insecure") as server:
            self.assertEqual(server.http[0], "0.0.0.0")
        with harness.penstock("--http", "0.0.0.0:0", env={"PENSTOCK_TOKEN": "secret"}) as server:
            where = ("127.0.0.1", server.http[1])
            body = {"key": "k", "limit": {"rate": "1/min"}}
            with Http(where) as http, Resp(server.resp) as resp:
                self.assertEqual(http.check(body).status, 401)
                self.assertEqual(http.ask("POST", "/v1/check", body, [("Authorization", "Bearer secret")]).status, 200)
                self.assertEqual(http.ask("GET", "/healthz").status, 200)
                self.assertEqual(resp.ask("CL.THROTTLE", "k", 1, 1, 1), "NOAUTH Authentication required.")
                self.assertTrue(resp.ask("AUTH", "wrong").startswith("WRONGPASS"))
                self.assertEqual(resp.ask("AUTH", "secret"), "OK")
                self.assertEqual(resp.ask("CL.THROTTLE", "k", 1, 1, 1)[0], 0)

    def test_the_token_may_stand_in_a_file(self):
        token = self.write("token", "from-file\n")
        with harness.penstock("--token-file", token) as server, Resp(server.resp) as resp:
            self.assertEqual(resp.ask("AUTH", "from-file"), "OK")
        self.refused(2, "token", "--token-file", self.folder / "absent", "--http", "127.0.0.1:0", "--resp", "off")

    def test_a_port_in_use_is_said(self):
        with harness.penstock() as server:
            self.refused(3, "cannot listen on", "--http", f"127.0.0.1:{server.http[1]}", "--resp", "off")

    def test_unknown_words_are_named(self):
        self.refused(2, "--unknown", "--unknown")
        self.refused(2, "etcd", "--engine", "etcd://127.0.0.1:1", "--http", "127.0.0.1:0", "--resp", "off")
        self.refused(2, "engine.url", "--engine", "redis://host:0", "--http", "127.0.0.1:0", "--resp", "off")
        self.refused(2, "nowhere", "--http", "nowhere", "--resp", "off")
        self.refused(2, "--threads", "--threads", "none")
        self.refused(2, "gRPC", "--grpc", "127.0.0.1:0")
        self.refused(2, "off", "--http", "off", "--resp", "off")
        self.refused(2, "absent.yaml", "--policy", self.folder / "absent.yaml")

    def test_a_wrong_policy_is_refused_with_its_line(self):
        policy = self.write("p.yaml", "domains:\n  api:\n    limits:\n      - {name: a, rate: 5/minuet}\n")
        self.assertIn("p.yaml:4", self.refused(2, "minuet", "--policy", policy))


class Stop(harness.TestCase):
    def test_both_signals_stop_it_in_order(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with harness.penstock() as server:
                with Http(server.http) as http, Resp(server.resp) as resp:
                    self.assertEqual(http.ask("GET", "/healthz").status, 200)
                    self.assertEqual(resp.ask("PING"), "PONG")
                    server.signal(number)
                    self.assertEqual(http.until_closed(), b"")
                    self.assertEqual(resp.until_closed(), b"")
                self.assertEqual(server.wait(), 0)

    def test_a_request_that_is_half_here_is_finished_and_answered(self):
        with harness.penstock("--threads", 1) as server:
            with Http(server.http) as http, Resp(server.resp) as resp, Resp(server.resp) as idle:
                body = b'{"key":"k","limit":{"rate":"9/min"}}'
                http.send_bytes(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:9])
                resp.send_bytes(b"PING\r\n*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n")
                self.assertEqual(resp.receive(), "PONG")
                self.assertEqual(idle.ask("PING"), "PONG")  # what was sent before has been read
                server.signal(signal.SIGTERM)
                self.assertEqual(idle.until_closed(), b"")  # the HTTP port, which is drained first, is through
                http.send_bytes(body[9:])
                response = http.receive()
                self.assertEqual(response.status, 200)
                self.assertEqual(response.headers.get("connection"), "close")
                self.assertEqual(http.until_closed(), b"")
                resp.send_bytes(b"$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n")
                self.assertEqual(resp.receive()[0], 0)
                self.assertEqual(resp.until_closed(), b"")
            self.assertEqual(server.wait(), 0)

    def test_who_never_finishes_is_closed_at_the_deadline(self):
        with harness.testserver("--drain-ms", 300) as server:
            with Http(server.http) as http:
                http.send_bytes(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n{")
                with Http(server.http) as other:
                    self.assertEqual(other.ask("GET", "/healthz").status, 200)
                server.signal(signal.SIGTERM)
                self.assertEqual(http.until_closed(), b"")
            self.assertEqual(server.wait(), 0)
            self.assertIn("did not finish in time", server.log())

    def test_a_second_signal_stops_it_at_once(self):
        with harness.testserver("--drain-ms", 3_600_000) as server:
            with Http(server.http) as http:
                http.send_bytes(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n{")
                with Http(server.http) as other:
                    self.assertEqual(other.ask("GET", "/healthz").status, 200)
                server.signal(signal.SIGTERM)
                server.wait_log("stopping")
                server.signal(signal.SIGTERM)
                self.assertEqual(server.wait(), 1)

    def test_who_waits_for_a_permit_is_answered_at_the_stop(self):
        semaphore = {"key": "s", "limit": {"permits": 1, "lease": "1h"}}
        with harness.penstock() as server, Http(server.http) as http, Resp(server.resp) as resp, \
                Http(server.http) as other:
            self.assertEqual(http.check(semaphore).status, 200)
            http.send("POST", "/v1/check", {**semaphore, "max_wait_ms": 60_000})
            resp.send("PEN.ACQUIRE", "s", 1, 3_600_000, "WAIT", 60_000)
            harness.wait_for(lambda: other.ask("GET", "/v1/holders?key=s").json()["waiting"] == 2)
            server.signal(signal.SIGTERM)
            self.assertEqual(http.receive().json()["outcome"], "denied")
            self.assertEqual(resp.receive()[:2], [0, "denied"])
            self.assertEqual(server.wait(), 0)

    def test_every_answer_that_was_asked_for_before_the_stop_comes(self):
        """Clients that ask without a pause: each gets whole answers to the end, then a close."""
        with harness.penstock("--threads", 2) as server:
            started = threading.Barrier(9)
            failures = []

            def ask():
                with Resp(server.resp) as resp:
                    self.assertEqual(resp.ask("PING"), "PONG")
                    started.wait()
                    try:
                        while True:
                            resp.send_bytes(b"CL.THROTTLE k 15 30 60\r\n" * 50)
                            for _ in range(50):
                                resp.receive()
                    except Exception as error:  # pylint: disable=broad-except
                        if resp.received:
                            failures.append(f"{error!r} after {resp.received[:100]!r}")

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            started.wait()
            server.signal(signal.SIGTERM)
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
            self.assertEqual(server.wait(), 0)


class Reload(harness.TestCase):
    def remaining(self, server):
        with Http(server.http) as http:
            return http.check({"domain": "api", "attributes": {"user": "1"}, "cost": 0}).json()["remaining"]

    def test_on_sighup_and_when_the_file_changes(self):
        policy = self.write("p.yaml", POLICY % 5)
        with harness.penstock("--policy", policy) as server:
            self.assertEqual(self.remaining(server), 5)
            self.replace("p.yaml", POLICY % 7)
            harness.wait_for(lambda: self.remaining(server) == 7)
            server.signal(signal.SIGHUP)
            server.wait_log("unchanged")

    def test_a_broken_file_leaves_the_last_good_policy(self):
        policy = self.write("p.yaml", POLICY % 5)
        with harness.penstock("--policy", policy) as server:
            self.replace("p.yaml", "domains: {api: {limits: [{name: a}]}}\n")
            server.wait_log("p.yaml:1")
            self.assertEqual(self.remaining(server), 5)
            with Http(server.http) as http:
                self.assertIn('penstock_policy_reloads_total{result="failed"} 1',
                              http.ask("GET", "/metrics").body.decode())
            self.replace("p.yaml", POLICY % 9)
            harness.wait_for(lambda: self.remaining(server) == 9)

    def test_a_folder_that_is_deleted_and_comes_back_is_watched_again(self):
        folder = self.folder / "up" / "dir"
        folder.mkdir(parents=True)
        policy = folder / "a.yaml"
        policy.write_text(POLICY % 5, encoding="utf-8")
        with harness.penstock("--policy", folder) as server:
            self.assertEqual(self.remaining(server), 5)
            shutil.rmtree(folder)
            server.wait_log("not reloaded")
            self.assertEqual(self.remaining(server), 5)
            folder.mkdir()
            for burst in (7, 9):
                policy.write_text(POLICY % burst, encoding="utf-8")
                harness.wait_for(lambda: self.remaining(server) == burst)
            # Where the folder above it goes too, SIGHUP finds the new one, and it is watched from then on.
            failed = server.log().count("not reloaded")
            shutil.rmtree(folder.parent)
            harness.wait_for(lambda: server.log().count("not reloaded") > failed)
            folder.mkdir(parents=True)
            policy.write_text(POLICY % 11, encoding="utf-8")
            server.signal(signal.SIGHUP)
            harness.wait_for(lambda: self.remaining(server) == 11)
            policy.write_text(POLICY % 13, encoding="utf-8")
            harness.wait_for(lambda: self.remaining(server) == 13)


if __name__ == "__main__":
    harness.main()
