#!/usr/bin/env python3
"""What peers do to connections: pipelines, slow readers, half-sent requests, idleness, too many at once, TLS."""
import resource
import shutil
import socket
import ssl
import subprocess
import sys

import harness
import wire
from wire import Http, Resp, command

CHECK = b'{"key":"%d","limit":{"rate":"1000000/min"}}'


def check_request(number):
    body = CHECK % number
    return b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class Pipelines(harness.TestCase):
    def test_answers_come_in_the_order_of_the_requests(self):
        with harness.penstock("--threads", 1) as server:
            with Http(server.http) as http:
                for _ in range(3):
                    http.send_bytes(b"".join(check_request(i) + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
                                             for i in range(200)))
                    for _ in range(200):
                        self.assertEqual(http.receive().json()["limit"], 1_000_000)
                        self.assertNotIn(b"limit", http.receive().body)
            with Resp(server.resp) as resp:
                resp.send_bytes(b"".join(command("CL.THROTTLE", f"k{i}", i, 1, 60) + command("ECHO", i)
                                         for i in range(1_000)))
                for i in range(1_000):
                    self.assertEqual(resp.receive()[1], i + 1)
                    self.assertEqual(resp.receive(), str(i))

    def test_one_byte_at_a_time(self):
        with harness.penstock() as server:
            with Http(server.http) as http:
                for byte in check_request(1) * 2:
                    http.send_bytes(bytes([byte]))
                self.assertEqual(http.receive().json()["remaining"], 999_999)
                self.assertEqual(http.receive().status, 200)
            with Resp(server.resp) as resp:
                for byte in command("CL.THROTTLE", "k", 15, 30, 60) + b"PING\r\n":
                    resp.send_bytes(bytes([byte]))
                self.assertEqual(resp.receive(), [0, 16, 15, -1, 2])
                self.assertEqual(resp.receive(), "PONG")

    def test_the_peers_end_does_not_lose_its_answers(self):
        with harness.penstock() as server:
            with Http(server.http) as http:
                http.send_bytes(check_request(1) * 10)
                http.socket.shutdown(socket.SHUT_WR)
                for _ in range(10):
                    self.assertEqual(http.receive().status, 200)
                self.assertEqual(http.until_closed(), b"")
            with Resp(server.resp) as resp:
                resp.send_bytes(b"PING\r\n" * 10 + b"PIN")
                resp.socket.shutdown(socket.SHUT_WR)
                self.assertEqual(resp.until_closed(), b"+PONG\r\n" * 10)

    def test_a_bad_request_is_answered_after_the_good_ones_before_it(self):
        with harness.penstock() as server:
            with Http(server.http) as http:
                http.send_bytes(check_request(1) + b"nonsense\r\n\r\n" + check_request(2))
                self.assertEqual(http.receive().status, 200)
                self.assertEqual(http.receive().status, 400)
                self.assertEqual(http.until_closed(), b"")
            with Http(server.http) as http:  # the refusal can be read although much more was on its way
                http.send_bytes(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
                try:
                    http.send_bytes(b" " * 3_000_000)
                except OSError:
                    pass
                self.assertEqual(http.receive().status, 413)


class SlowPeers(harness.TestCase):
    def memory_kb(self, server):
        with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def test_who_does_not_read_is_not_served_into_memory(self):
        """Requests whose answers would be a hundred times what a connection may have pending."""
        with harness.testserver("--threads", 1) as server:
            before = self.memory_kb(server)
            for address, request, answers in ((server.http, check_request(1), 400_000),
                                              (server.resp, command("ECHO", "x" * 1_000), 100_000)):
                with socket.create_connection(address, timeout=harness.PATIENCE_S) as peer:
                    peer.setblocking(False)
                    data, sent = request * answers, 0
                    stuck = 0
                    while stuck < 20 and sent < len(data):
                        try:
                            sent += peer.send(data[sent:sent + 1_000_000])
                            stuck = 0
                        except BlockingIOError:
                            stuck += 1
                            with Resp(server.resp) as other:  # others are served meanwhile
                                self.assertEqual(other.ask("PING"), "PONG")
                    self.assertLess(sent, len(data), "it read everything although nobody took the answers")
            self.assertLess(self.memory_kb(server) - before, 32_000)

    def test_a_stalled_peer_is_closed(self):
        with harness.testserver("--stalled-ms", 300) as server:
            with Resp(server.resp) as resp:
                resp.socket.setblocking(False)
                try:
                    while True:
                        resp.socket.send(command("ECHO", "x" * 10_000))
                except (BlockingIOError, ConnectionError):
                    pass
                resp.socket.setblocking(True)
                # What the kernel had is read, and then comes the end instead of the rest.
                self.assertTrue(resp.until_closed())

    def test_a_slow_reader_gets_everything(self):
        with harness.penstock("--threads", 1) as server, Resp(server.resp) as resp:
            resp.socket.setblocking(True)
            resp.send_bytes(command("ECHO", "y" * 100_000) * 50)
            for _ in range(50):
                self.assertEqual(len(resp.receive()), 100_000)


class TimeOuts(harness.TestCase):
    def test_a_half_sent_request_and_idleness(self):
        with harness.testserver("--head-ms", 300, "--body-ms", 300, "--idle-ms", 300) as server:
            with Http(server.http) as http:
                http.send_bytes(b"GET / HT")
                self.assertEqual(http.receive().status, 408)
                self.assertEqual(http.until_closed(), b"")
            with Http(server.http) as http:
                http.send_bytes(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
                self.assertEqual(http.receive().status, 408)
                self.assertEqual(http.until_closed(), b"")
            for peer in (Http(server.http), Resp(server.resp)):
                with peer:
                    self.assertEqual(peer.until_closed(), b"")
            with Resp(server.resp) as resp:
                resp.send_bytes(b"*2\r\n$4\r\nECHO")
                self.assertEqual(resp.until_closed(), b"")

    def test_a_drip_of_bytes_does_not_keep_a_half_sent_request_alive(self):
        with harness.testserver("--head-ms", 500) as server, Http(server.http) as http:
            http.socket.settimeout(0.02)
            head = b"GET /healthz HTTP/1.1\r\n" + b"x: y\r\n" * 2_000
            answer = b""
            for byte in head:
                try:
                    http.send_bytes(bytes([byte]))
                    answer = http.socket.recv(1_000)
                    break
                except TimeoutError:
                    continue
            self.assertIn(b" 408 ", answer)

    def test_moving_the_clock_by_hours_closes_nobody(self):
        with harness.testserver() as server, Http(server.http) as http, Resp(server.resp) as resp:
            clock = server.clock()
            for _ in range(5):
                clock.advance(3_600_000_000)
                self.assertEqual(http.ask("GET", "/healthz").status, 200)
                self.assertEqual(resp.ask("PING"), "PONG")


class Many(harness.TestCase):
    def test_beyond_the_bound_connections_wait_for_a_place(self):
        with harness.testserver("--max-connections", 3, "--threads", 2) as server:
            wires = [Resp(server.resp) for _ in range(3)]
            for peer in wires:
                self.assertEqual(peer.ask("PING"), "PONG")
            late = Resp(server.resp)
            late.send("PING")
            wires.pop().close()
            self.assertEqual(late.receive(), "PONG")
            for peer in wires + [late]:
                peer.close()

    def test_without_file_descriptors_the_others_go_on_and_the_new_ones_wait(self):
        limit = 64
        with harness.penstock("--threads", 1) as server:
            answered = [Resp(server.resp) for _ in range(20)]
            for peer in answered:
                self.assertEqual(peer.ask("PING"), "PONG")
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
            waiting = [Resp(server.resp) for _ in range(limit)]
            server.wait_log("cannot accept connections for now")
            for peer in answered:
                self.assertEqual(peer.ask("PING"), "PONG")
            used = self.cpu_ticks(server)
            for peer in answered * 20:
                self.assertEqual(peer.ask("PING"), "PONG")
            self.assertLess(self.cpu_ticks(server) - used, 100, "it spins")
            for peer in waiting:
                peer.send("PING")
            for peer in answered:
                peer.close()
            for peer in waiting:  # each that goes makes room for one that waits
                self.assertEqual(peer.receive(), "PONG")
                peer.close()

    def cpu_ticks(self, server):
        with open(f"/proc/{server.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def test_connections_come_and_go(self):
        with harness.penstock("--threads", 2) as server:
            for _ in range(300):
                with Http(server.http) as http, Resp(server.resp) as resp:
                    self.assertEqual(http.ask("GET", "/healthz").status, 200)
                    self.assertEqual(resp.ask("PING"), "PONG")
            with Http(server.http) as http:
                harness.wait_for(lambda: 'penstock_connections{protocol="resp"} 0' in
                                 http.ask("GET", "/metrics").body.decode())


class Tls(harness.TestCase):
    def certificate(self, name, common_name):
        """A self-signed certificate for localhost; the paths of certificate and key."""
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={common_name}",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                       check=True, capture_output=True)
        return cert, key

    def curl(self, server, trusted, *more):
        return subprocess.run(["curl", "-sS", "--cacert", str(trusted), *more,
                               f"https://localhost:{server.http[1]}/healthz", "--connect-to",
                               f"localhost:{server.http[1]}:127.0.0.1:{server.http[1]}", "-o", "/dev/null", "-w",
                               "%{http_code}"], capture_output=True, text=True, check=False)

    def serve(self, cert, key, more=""):
        policy = self.write("tls.yaml", f"listen:\n  tls: {{cert: {cert}, key: {key}{more}}}\n")
        return harness.penstock("--policy", policy)

    def test_curl_speaks_to_it_and_a_new_certificate_is_taken_without_a_restart(self):
        cert, key = self.certificate("server", "first")
        with self.serve(cert, key) as server:
            self.assertEqual(self.curl(server, cert).stdout, "200")
            self.assertNotEqual(self.curl(server, cert, "--tls-max", "1.1").returncode, 0)
            old = self.folder / "old.pem"
            shutil.copy(cert, old)
            with Http(server.http, tls=wire.trusting(old)) as kept, Http(server.http, tls=wire.trusting(old)) as busy:
                self.assertEqual(kept.ask("GET", "/healthz").status, 200)
                busy.send_bytes(b"GET /healthz HT")
                new_cert, new_key = self.certificate("new", "second")
                new_key.rename(key)
                new_cert.rename(cert)
                harness.wait_for(lambda: self.curl(server, cert).stdout == "200")
                self.assertNotEqual(self.curl(server, old).returncode, 0)
                self.assertEqual(kept.ask("GET", "/healthz").status, 200)
                busy.send_bytes(b"TP/1.1\r\nHost: x\r\n\r\n")
                self.assertEqual(busy.receive().status, 200)
            cert.write_text("no certificate")
            server.wait_log("certificates not reloaded")
            with Http(server.http, tls=self.any_certificate()) as http:
                self.assertEqual(http.ask("GET", "/healthz").status, 200)

    def any_certificate(self):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    def test_large_bodies_and_pipelines_go_through_tls(self):
        cert, key = self.certificate("server", "one")
        with self.serve(cert, key) as server, Http(server.http, tls=wire.trusting(cert)) as http:
            checks = [{"key": f"k{i}", "limit": {"rate": "9/min"}} for i in range(1_000)]
            for _ in range(3):
                http.send("POST", "/v1/check", checks)
            for _ in range(3):
                self.assertEqual(len(http.receive().json()), 1_000)

    def test_without_a_client_certificate_nobody_gets_in_where_one_is_asked_for(self):
        cert, key = self.certificate("server", "one")
        ca, ca_key = self.certificate("client", "client")
        with self.serve(cert, key, f", client_ca: {ca}") as server:
            self.assertNotEqual(self.curl(server, cert).stdout, "200")
            self.assertEqual(self.curl(server, cert, "--cert", str(ca), "--key", str(ca_key)).stdout, "200")

    def test_plain_bytes_on_a_tls_port_disturb_nobody(self):
        cert, key = self.certificate("server", "one")
        with self.serve(cert, key) as server:
            with Http(server.http) as http:
                http.send_bytes(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertNotIn(b"200", http.until_closed()[:12])
            self.assertEqual(self.curl(server, cert).stdout, "200")

    def test_wrong_files_are_refused_at_the_start(self):
        cert, key = self.certificate("server", "one")
        _, other = self.certificate("other", "two")
        for broken in ((self.folder / "absent", key), (cert, self.folder / "absent"), (cert, other)):
            policy = self.write("tls.yaml", "listen:\n  tls: {cert: %s, key: %s}\n" % broken)
            done = harness.run("serve", "--policy", policy, "--http", "127.0.0.1:0", "--resp", "off")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("TLS", done.stderr)


if __name__ == "__main__":
    if shutil.which("curl") is None or shutil.which("openssl") is None:
        print("SKIPPED: curl or openssl is missing")
        sys.exit(harness.SKIPPED)
    harness.main()
