#!/usr/bin/env python3
"""./dev bench [embedded|resp|http|match|redis|permits|faults|all] [--rounds N] [--seconds S] [--case TEXT]

Each figure beside its reference, both from this run on this machine: medians of the rounds, which alternate between the
two, and for servers the CPU that the server process spent a call (/proc/PID/stat), which other load on the machine
disturbs less than throughput does.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import faults
import permits
import store
from servers import Series, binary, compare, redis_benchmark, start_nginx, start_penstock, start_redis

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


def wrk(port, seconds, script):
    def load():
        out = subprocess.run(["wrk", "-t1", "-c64", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{port}/v1/check"],
                             capture_output=True, text=True, check=True).stdout
        calls = int(re.search(r"(\d+) requests in", out).group(1))
        rate = float(re.search(r"Requests/sec:\s+([0-9.]+)", out).group(1))
        return calls, calls / rate
    return load


def bench_resp(rounds, seconds):
    print("RESP, redis-benchmark -c 50 -r 100000, one server thread; reference: Redis' GET of a missing key")
    with tempfile.TemporaryDirectory() as folder:
        penstock, _, resp = start_penstock(folder, POLICY)
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
        penstock, http, _ = start_penstock(folder, POLICY)
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
    subprocess.run([binary(name), *arguments], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="all", choices=["all", "embedded", "resp", "http", "match", "redis", "permits", "faults"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="about the length of one load of a server")
    parser.add_argument("--case", default="", help="of faults: those alone whose name has this text")
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
    if options.what in ("all", "redis"):
        store.bench_redis(options.rounds, options.seconds)
    if options.what in ("all", "permits"):
        permits.bench_permits(options.rounds, options.seconds)
    if options.what in ("all", "faults") and not faults.bench_faults(options.case):
        sys.exit("a fault went out of its bounds, or the machine was too busy to tell")


if __name__ == "__main__":
    main()
