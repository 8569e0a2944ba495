#!/usr/bin/env python3
"""./dev bench [embedded|resp|http|match|all] [--rounds N] [--seconds S]

Each figure beside its reference, both from this run on this machine: medians of the rounds, which alternate between the
two, and for servers the CPU that the server process spent a call (/proc/PID/stat), which other load on the machine
disturbs less than throughput does.
"""
import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build", "release")
TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")

POLICY = """
domains:
  one:
    limits:
      - {name: per-user, key: [user], rate: 30/min, burst: 16}
  api:
    limits:
      - {name: per-user, key: [user], rate: 30/min, burst: 16}
      - {name: per-user-hour, key: [user], rate: 1000/h}
      - {name: everyone, rate: 1_000_000_000/s, burst: 1_000_000}
"""

NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "{{}}"; }}
  }}
}}
"""

WRK_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = 0
request = function()
  n = n + 1
  local user = (n * 7919) % 100000
  return wrk.format(nil, "/v1/check", nil, '{"domain":"DOMAIN","attributes":{"user":"' .. user .. '"},"cost":1}')
end
"""


class Server:
    """A server process, its ports, and the CPU it has used."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, **options)

    def cpu_us(self):
        # The children count too: nginx's worker is one.
        pids = [self.process.pid] + [int(p) for p in children(self.process.pid)]
        total = 0
        for pid in pids:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total * TICK_US

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return f.read().split()


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, seconds=10):
    import socket
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"nothing listens on port {port} after {seconds} s")


def start_penstock(folder):
    policy = os.path.join(folder, "policy.yaml")
    with open(policy, "w", encoding="utf-8") as f:
        f.write(POLICY)
    http, resp = free_port(), free_port()
    binary = os.path.join(BUILD, "penstock")
    server = Server([binary, "serve", "--policy", policy, "--threads", "1", "--http", f"127.0.0.1:{http}",
                     "--resp", f"127.0.0.1:{resp}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(http)
    return server, http, resp


def start_redis(folder):
    port = free_port()
    server = Server(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                     "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return server, port


def start_nginx(folder):
    port = free_port()
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(NGINX.format(folder=folder, port=port))
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    server = Server([nginx, "-c", path, "-p", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port)
    return server, port


class Series:
    """Throughput and CPU a call of one load, over the rounds."""

    def __init__(self):
        self.rate = []
        self.cpu = []

    def measure(self, server, load):
        before = server.cpu_us()
        calls, seconds = load()
        self.cpu.append((server.cpu_us() - before) / calls)
        self.rate.append(calls / seconds)

    def medians(self):
        return statistics.median(self.rate), statistics.median(self.cpu)


def redis_benchmark(port, calls, pipeline, command):
    def load():
        start = time.monotonic()
        out = subprocess.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-c", "50", "-r", "100000", "-n",
                              str(calls), "-P", str(pipeline), "-q", *command], capture_output=True, text=True,
                             check=True).stdout
        wall = time.monotonic() - start
        rate = re.findall(r"([0-9.]+) requests per second", out)
        return calls, (calls / float(rate[-1]) if rate else wall)
    return load


def wrk(port, seconds, script):
    def load():
        out = subprocess.run(["wrk", "-t1", "-c64", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{port}/v1/check"],
                             capture_output=True, text=True, check=True).stdout
        calls = int(re.search(r"(\d+) requests in", out).group(1))
        rate = float(re.search(r"Requests/sec:\s+([0-9.]+)", out).group(1))
        return calls, calls / rate
    return load


def compare(title, ours, reference, reference_name):
    rate, cpu = ours.medians()
    reference_rate, reference_cpu = reference.medians()
    print(f"  {title:<34} {rate / 1000:9.0f} k/s {cpu:7.2f} us    {reference_name:<22} {reference_rate / 1000:9.0f} k/s "
          f"{reference_cpu:7.2f} us    throughput {rate / reference_rate:5.2f}   CPU {cpu / reference_cpu:5.2f}")


def bench_resp(rounds, seconds):
    print("RESP, redis-benchmark -c 50 -r 100000, one server thread; reference: Redis' GET of a missing key")
    with tempfile.TemporaryDirectory() as folder:
        penstock, _, resp = start_penstock(folder)
        redis, redis_port = start_redis(folder)
        try:
            key = "user:__rand_int__"
            commands = [("CL.THROTTLE", ["CL.THROTTLE", key, "15", "30", "60"]),
                        ("PEN.CHECK under 3 limits", ["PEN.CHECK", "api", "1", "user", key])]
            for pipeline, rate in ((32, 1_500_000), (1, 80_000)):
                calls = int(rate * seconds)
                ours = [Series() for _ in commands]
                reference = Series()
                for _ in range(rounds):
                    reference.measure(redis, redis_benchmark(redis_port, calls, pipeline, ["GET", key]))
                    for series, (_, command) in zip(ours, commands):
                        series.measure(penstock, redis_benchmark(resp, calls, pipeline, command))
                for series, (name, _) in zip(ours, commands):
                    compare(f"pipeline {pipeline}, {name}", series, reference, "GET")
        finally:
            penstock.stop()
            redis.stop()


def bench_http(rounds, seconds):
    print("HTTP, wrk -t1 -c64, POST /v1/check, one server thread; reference: nginx `return 200` to the same, one worker")
    with tempfile.TemporaryDirectory() as folder:
        loads = [("POST /v1/check under 1 limit", "one"), ("POST /v1/check under 3 limits", "api")]
        scripts = []
        for _, domain in loads:
            scripts.append(os.path.join(folder, domain + ".lua"))
            with open(scripts[-1], "w", encoding="utf-8") as f:
                f.write(WRK_SCRIPT.replace("DOMAIN", domain))
        penstock, http, _ = start_penstock(folder)
        nginx, nginx_port = start_nginx(folder)
        try:
            ours, reference = [Series() for _ in loads], Series()
            for _ in range(rounds):
                reference.measure(nginx, wrk(nginx_port, seconds, scripts[0]))
                for series, script in zip(ours, scripts):
                    series.measure(penstock, wrk(http, seconds, script))
            for series, (name, _) in zip(ours, loads):
                compare(name, series, reference, "nginx return 200")
        finally:
            penstock.stop()
            nginx.stop()


def run_binary(name, *arguments):
    path = os.path.join(BUILD, name)
    if not os.path.exists(path):
        path = os.path.join(BUILD, "bench", name)
    subprocess.run([path, *arguments], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="all", choices=["all", "embedded", "resp", "http", "match"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="about the length of one load of a server")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    if options.what in ("all", "embedded"):
        run_binary("embedded_bench", "--rounds", str(options.rounds))
    if options.what in ("all", "resp"):
        bench_resp(options.rounds, options.seconds)
    if options.what in ("all", "http"):
        bench_http(options.rounds, options.seconds)
    if options.what in ("all", "match"):
        run_binary("match_bench")


if __name__ == "__main__":
    main()
