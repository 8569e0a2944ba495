#!/usr/bin/env python3
"""A real nginx with `auth_request`, by the configuration and the policy that docs/proxies.md shows, word for word but
for the ports."""
import http.client
import re
import shutil
import socket
import subprocess

import harness

DOC = (harness.ROOT / "docs/proxies.md").read_text()
PENSTOCK_ADDRESS, SERVICE_ADDRESS = "127.0.0.1:8080", "127.0.0.1:9000"

NGINX = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log {folder}/passed.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        access_log off;
        listen {front};
        {locations}
    }}
    server {{  # the service behind
        listen {service};
        location / {{ return 200 "served $request_method $request_uri\\n"; }}
        location /forbidden {{ return 403 "the service's own\\n"; }}
    }}
}}
"""


def block(language):
    """The document's first code block of this language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", DOC, re.M | re.S)
    assert found, f"docs/proxies.md has no {language} block"
    return found.group(1)


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def accepts(address):
    with socket.socket() as probe:
        return probe.connect_ex(harness.address(address)) == 0


class NginxCase(harness.TestCase):
    """One nginx in front of one penstock; each test asks from addresses of its own."""

    policy = block("yaml")

    def setUp(self):
        super().setUp()
        self.server = harness.testserver("--policy", self.write("policy.yaml", self.policy))
        self.addCleanup(self.server.__exit__, None, None, None)
        self.start_nginx()

    def start_nginx(self):
        locations = block("nginx")
        for address in (PENSTOCK_ADDRESS, SERVICE_ADDRESS):
            self.assertIn(address, locations, "the document's ports have changed")
        self.front, service = free_address(), free_address()
        locations = locations.replace(PENSTOCK_ADDRESS, "{}:{}".format(*self.server.http))
        locations = locations.replace(SERVICE_ADDRESS, service)
        config = self.write("nginx.conf", NGINX.format(folder=self.folder, front=self.front, service=service,
                                                       locations=locations))
        log = self.enterContext((self.folder / "nginx.log").open("w+"))
        nginx = subprocess.Popen(["nginx", "-p", str(self.folder), "-c", str(config)], stdout=log, stderr=log)
        self.addCleanup(nginx.wait, harness.PATIENCE_S)
        self.addCleanup(nginx.terminate)
        harness.wait_for(lambda: nginx.poll() is not None or accepts(self.front))
        self.assertIsNone(nginx.poll(), (self.folder / "nginx.log").read_text())

    def ask(self, client="127.0.0.1", target="/page?x=1", method="GET", body=None, **headers):
        """(status, headers by lower-case name, body) for a client of this address."""
        host, port = harness.address(self.front)
        connection = http.client.HTTPConnection(host, port, timeout=harness.PATIENCE_S, source_address=(client, 0))
        connection.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        answer = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode()
        connection.close()
        return answer

    def statuses(self, times, **more):
        return [self.ask(**more)[0] for _ in range(times)]


class AsDocumented(NginxCase):
    def test_refused_as_429_with_the_wait(self):
        for left in range(9, -1, -1):
            status, headers, body = self.ask()
            self.assertEqual((status, body), (200, "served GET /page?x=1\n"))
            self.assertEqual(headers["ratelimit"], f'"per-address";r={left};t={2 * (10 - left)}')
            self.assertNotIn("retry-after", headers)
        status, headers, body = self.ask()
        self.assertEqual((status, headers["retry-after"], headers["ratelimit"]), (429, "2", '"per-address";r=0;t=2'))
        self.assertNotIn("served", body)
        self.server.clock().advance(2_000_000)
        self.assertEqual(self.statuses(2), [200, 429])
        passed = (self.folder / "passed.log").read_text().splitlines()
        self.assertEqual(len(passed), 11, "the service behind saw only what was allowed")

    def test_every_client_has_its_own(self):
        self.assertEqual(self.statuses(11, client="127.0.0.5"), [200] * 10 + [429])
        self.assertEqual(self.statuses(11, client="127.0.0.6"), [200] * 10 + [429])

    def test_a_client_cannot_write_its_own_address(self):
        spoofed = {"X_Forwarded_For": "192.0.2.1", "X_Original_URI": "/other", "X_Real_IP": "192.0.2.1"}
        self.assertEqual(self.statuses(10), [200] * 10)
        self.assertEqual(self.statuses(1, **spoofed), [429])

    def test_a_body_reaches_the_service_and_only_it(self):
        status, _, body = self.ask(method="POST", body=b"x" * 100_000)
        self.assertEqual((status, body), (200, "served POST /page?x=1\n"))

    def test_a_403_of_the_service_stays_one(self):
        self.assertEqual(self.ask(target="/forbidden")[::2], (403, "the service's own\n"))

    def test_without_penstock_nothing_passes(self):
        self.server.stop()
        self.assertEqual(self.statuses(1), [500])


class WithMoreLimits(NginxCase):
    """The document's policy, with limits that look at what nginx passes on."""

    policy = block("yaml") + """\
      - {name: login, match: {path: /login, method: POST}, key: [ip], rate: 2/min}
      - {name: per-user, key: [user], rate: 3/min}
      - {name: per-host, match: {host: narrow.example}, rate: 1/min}
"""

    def test_path_and_method_are_the_clients(self):
        self.assertEqual(self.statuses(3, target="/login", method="POST"), [200, 200, 429])
        self.assertEqual(self.statuses(1, target="/%6cog%69n?next=/", method="POST"), [429], "written otherwise")
        self.assertEqual(self.statuses(1, target="/x/../login", method="POST"), [429], "written otherwise")
        self.assertEqual(self.statuses(1, target="/login"), [200], "another method")
        self.assertEqual(self.statuses(1, target="/login2", method="POST"), [200], "another path")

    def test_the_named_header(self):
        self.assertEqual([self.ask(client=f"127.0.1.{i}", X_User="me")[0] for i in range(1, 5)], [200, 200, 200, 429])
        self.assertEqual(self.ask(X_User="you")[0], 200)

    def test_the_host(self):
        self.assertEqual(self.statuses(2, Host="narrow.example"), [200, 429])
        self.assertEqual(self.statuses(1, Host="wide.example"), [200])


class WithoutTrust(NginxCase):
    """`trusted_proxies` forgotten: what nginx says of the client is not believed."""

    policy = re.sub(r"^listen:\n  trusted_proxies: .*\n", "", block("yaml"), flags=re.M) + """\
      - {name: login, match: {path: /login}, rate: 0}
"""

    def test_all_clients_are_the_proxy(self):
        self.assertNotIn("trusted_proxies", self.policy)
        self.assertEqual([self.ask(client=f"127.0.0.{i}")[0] for i in range(1, 12)], [200] * 10 + [429])

    def test_no_path_is_known(self):
        self.assertEqual(self.statuses(1, target="/login"), [200])


if __name__ == "__main__":
    if shutil.which("nginx") is None:
        print("SKIPPED: there is no nginx (package nginx-light)")
        raise SystemExit(harness.SKIPPED)
    print(subprocess.run(["nginx", "-v"], stderr=subprocess.PIPE, text=True, check=True).stderr.strip(), flush=True)
    harness.main()
