#!/usr/bin/env python3
"""The commands of `penstock` and their exit codes."""
import json

import harness

POLICY = """
domains:
  api:
    limits:
      - {name: per-user, key: [user], rate: 100/min, burst: 20}
      - {name: watched, key: [user], rate: 1/min, shadow: true}
"""


class Commands(harness.TestCase):
    def expect(self, code, *args, env=None):
        done = harness.run(*args, env=env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_version_and_help(self):
        version = self.expect(0, "version").stdout
        self.assertRegex(version, r"^penstock \d+\.\d+\.\d+\n$")
        self.assertEqual(self.expect(0, "--version").stdout, version)
        self.assertEqual("penstock " + json.loads(self.expect(0, "version", "--json").stdout)["version"] + "\n", version)
        for command in ([], ["serve"], ["check"], ["lint"], ["limits"], ["limits", "set"], ["bench"], ["version"],
                        ["acquire"], ["release"], ["renew"], ["holders"], ["run"]):
            self.assertIn("Usage", self.expect(0, *command, "--help").stdout)
        self.expect(2)
        self.expect(2, "unknown")
        self.expect(2, "check")

    def test_an_empty_value_is_a_slip_and_no_default(self):
        for args in (["serve", "--policy", ""], ["serve", "--snapshot", ""], ["check", "api", "--server", ""],
                     ["lint", ""], ["limits", "get", "api", ""]):
            self.assertIn("is empty", self.expect(2, *args).stderr)
        self.expect(2, "bench", "embedded", "--burst", "-5")

    def test_check_asks_a_server(self):
        policy = self.write("p.yaml", POLICY)
        with harness.penstock("--policy", policy) as server:
            url = f"http://127.0.0.1:{server.http[1]}"
            done = self.expect(0, "check", "api", "user=42", "--server", url)
            self.assertIn("allowed: 19 of 20 left", done.stdout)
            answer = json.loads(self.expect(0, "check", "api", "user=42", "--json", env={"PENSTOCK_URL": url}).stdout)
            self.assertEqual(answer["remaining"], 18)
            self.assertIn("denied", self.expect(1, "check", "api", "user=42", "--cost", 19, "--server", url).stdout)
            self.assertIn("never", self.expect(1, "check", "api", "user=42", "--cost", 21, "--server", url).stdout)
            self.assertIn("no limit applies", self.expect(0, "check", "api", "--server", url).stdout)
            self.assertIn("apx", self.expect(2, "check", "apx", "user=1", "--server", url).stderr)
            self.assertIn("name=value", self.expect(2, "check", "api", "user", "--server", url).stderr)
            tricky = 'user=a"b\\c=\n'
            self.assertEqual(
                json.loads(self.expect(0, "check", "api", tricky, "--json", "--server", url).stdout)["remaining"], 19)
        self.assertIn("cannot ask", self.expect(3, "check", "api", "user=42", "--server", url).stderr)
        self.assertIn("https", self.expect(2, "check", "api", "--server", "https://127.0.0.1").stderr)
        self.expect(2, "check", "api", "--server", "nowhere")

    def test_check_shows_the_token(self):
        policy = self.write("p.yaml", POLICY)
        with harness.penstock("--policy", policy, env={"PENSTOCK_TOKEN": "secret"}) as server:
            url = f"http://127.0.0.1:{server.http[1]}"
            self.expect(2, "check", "api", "user=1", "--server", url)
            self.expect(0, "check", "api", "user=1", "--server", url, env={"PENSTOCK_TOKEN": "secret"})

    def test_check_with_a_policy_needs_no_server(self):
        policy = self.write("p.yaml", POLICY)
        self.assertIn("19 of 20 left", self.expect(0, "check", "api", "user=1", "--policy", policy).stdout)
        self.expect(1, "check", "api", "user=1", "--cost", 21, "--policy", policy)
        self.expect(2, "check", "apx", "user=1", "--policy", policy)
        self.expect(2, "check", "api", "user=1", "--cost", 2**31, "--policy", policy)
        self.expect(2, "check", "api", "user=1", "--policy", self.folder / "absent")

    def test_lint(self):
        policy = self.write("p.yaml", POLICY)
        self.assertIn("per-user", self.expect(0, "lint", policy).stdout)
        report = json.loads(self.expect(0, "lint", policy, "--json").stdout)
        self.assertIsInstance(report, dict)
        broken = self.write("broken.yaml", POLICY.replace("rate: 1/min", "rate: 1/minuet"))
        self.assertIn("broken.yaml:6", self.expect(2, "lint", broken).stderr)
        self.assertFalse(json.loads(self.expect(2, "lint", broken, "--json").stdout)["ok"])
        other = self.write("other.yaml", POLICY.replace("key: [user], rate: 100", "key: [ip], rate: 100"))
        self.assertIn("per-user", self.expect(1, "lint", other, "--against", policy).stdout)

    def test_bench(self):
        embedded = json.loads(self.expect(0, "bench", "--requests", 10_000, "--json").stdout)
        self.assertGreaterEqual(embedded["answers"], 10_000)
        for what in ("resp", "http"):
            with harness.penstock() as server:  # of its own: both protocols would meet in the same buckets
                target = f"127.0.0.1:{(server.resp if what == 'resp' else server.http)[1]}"
                args = ("bench", what, "--target", target, "--requests", 5_000, "--keys", 10, "--connections", 7)
                figures = json.loads(self.expect(0, *args, "--json").stdout)
                self.assertEqual(figures["answers"], 5_000)
                self.assertEqual(figures["errors"], 0)
                self.assertGreater(figures["allowed"], 0)
                self.assertGreater(figures["denied"], 0)
                self.assertLessEqual(figures["p50_us"], figures["p99_9_us"])
                self.assertIn("a second", self.expect(0, *args, "--pipeline", 3).stdout)
        self.expect(3, "bench", "resp", "--target", target, "--requests", 1)


if __name__ == "__main__":
    harness.main()
