#!/usr/bin/env python3
"""What outlives a restart: an ordered stop keeps everything, kill -9 what the last snapshot had; a damaged file is
refused unless it is told to be discarded."""
import os
import time

import harness
from wire import Http, Resp

POLICY = """
engine: {snapshot: {path: %s, every: 60s}}
domains:
  api:
    limits:
      - {name: bucket, key: [user], rate: 100/d}
      - {name: window, key: [user], rate: 200/d, algorithm: fixed_window}
      - {name: sliding, key: [user], rate: 300/d, algorithm: sliding_window}
      - {name: log, key: [user], rate: 400/d, algorithm: sliding_log}
"""
MINUTE = 60_000_000


class Snapshot(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.policy = self.write("p.yaml", POLICY % self.state)

    def ask(self, server, user, cost):
        with Http(server.http) as http:
            answer = http.check({"domain": "api", "attributes": {"user": user}, "cost": cost}).json()
        return [limit["remaining"] for limit in answer["limits"]]

    def test_an_ordered_stop_keeps_everything(self):
        with harness.penstock("--policy", self.policy) as server:
            self.assertEqual(self.ask(server, "1", 10), [90, 190, 290, 390])
            with Resp(server.resp) as resp:
                self.assertEqual(resp.ask("CL.THROTTLE", "adhoc", 9, 10, 86_400, 4)[2], 6)
        self.assertTrue(self.state.exists())
        with harness.penstock("--policy", self.policy) as server:
            self.assertEqual(self.ask(server, "1", 0), [90, 190, 290, 390])
            with Resp(server.resp) as resp:
                self.assertEqual(resp.ask("CL.THROTTLE", "adhoc", 9, 10, 86_400, 0)[2], 6)

    def test_kill_loses_what_came_after_the_last_snapshot_and_no_more(self):
        with harness.testserver("--policy", self.policy) as server:
            clock = server.clock()
            self.ask(server, "1", 10)
            clock.advance(MINUTE)
            harness.wait_for(self.state.exists)
            self.ask(server, "1", 20)
            self.ask(server, "2", 30)
            now = clock.now()
            clock.close()
            server.clocks = []
            server.kill()
        with harness.testserver("--policy", self.policy, "--start", now) as server:
            self.assertEqual(self.ask(server, "1", 0), [90, 190, 290, 390])
            self.assertEqual(self.ask(server, "2", 0), [100, 200, 300, 400])

    def test_a_kill_in_the_middle_of_writing_leaves_a_whole_file(self):
        with harness.testserver("--policy", self.policy) as server:
            clock = server.clock()
            with Resp(server.resp) as resp:
                for start in range(0, 50_000, 1_000):
                    resp.send_bytes(b"".join(b"CL.THROTTLE k%d 15 30 86400\r\n" % i for i in range(start, start + 1_000)))
                    for _ in range(1_000):
                        resp.receive()
            clock.advance(MINUTE)
            harness.wait_for(self.state.exists)
            for _ in range(5):
                clock.advance(MINUTE)
                time.sleep(0.02)
            server.clocks = []
            clock.close()
            server.kill()
        with harness.testserver("--policy", self.policy) as server, Http(server.http) as http:
            self.assertIn("penstock_keys 50000", http.ask("GET", "/metrics").body.decode())

    def test_a_damaged_file_is_refused_or_discarded_as_told(self):
        with harness.penstock("--policy", self.policy) as server:
            self.ask(server, "1", 10)
        whole = self.state.read_bytes()
        for damaged in (whole[:-1], whole[:40], b"", b"something else", whole[:-9] + b"x" + whole[-8:]):
            self.state.write_bytes(damaged)
            done = harness.run("serve", "--policy", self.policy, "--http", "127.0.0.1:0", "--resp", "off")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(str(self.state), done.stderr)
            self.assertIn("--discard-snapshot", done.stderr)
            self.assertEqual(self.state.read_bytes(), damaged, "it was touched")
        with harness.penstock("--policy", self.policy, "--discard-snapshot") as server:
            self.assertEqual(self.ask(server, "1", 0), [100, 200, 300, 400])
            self.assertIn("snapshot discarded", server.log())

    def test_a_snapshot_that_cannot_be_written_is_said(self):
        folder = self.folder / "gone"
        folder.mkdir()
        with harness.penstock("--snapshot", folder / "state") as server:
            folder.rename(self.folder / "elsewhere")
            self.assertEqual(server.stop(), 1)
            self.assertIn("snapshot not written", server.log())

    def refused(self, path, why):
        done = harness.run("serve", "--snapshot", path, "--http", "127.0.0.1:0", "--resp", "off")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(why, done.stderr)

    def test_a_path_that_cannot_be_kept_is_said_at_start(self):
        self.refused(self.folder / "no" / "folder" / "state", "cannot write to the folder")
        os.mkfifo(self.folder / "fifo")
        self.refused(self.folder / "fifo", "is not a regular file")

    def test_a_second_server_on_the_same_path_is_refused(self):
        with harness.penstock("--policy", self.policy) as server:
            self.assertEqual(self.ask(server, "1", 10), [90, 190, 290, 390])
            self.refused(self.state, f"the snapshot {self.state} is in use by another process")
            self.assertEqual(self.ask(server, "1", 10), [80, 180, 280, 380])
            with Http(server.http) as http:
                metrics = http.ask("GET", "/metrics").body.decode()
            self.assertIn("\npenstock_snapshot_failures_total 0\n", metrics)
            self.assertIn("\npenstock_snapshot_last_success_seconds 0\n", metrics)
        with harness.penstock("--policy", self.policy) as server:
            self.assertEqual(self.ask(server, "1", 0), [80, 180, 280, 380])


if __name__ == "__main__":
    harness.main()
