"""Penstock on Redis, beside the script that everybody writes first: a token bucket of three calls (HMGET, HMSET,
EXPIRE) with its numbers as text, by redis-benchmark on the same server."""
import os
import re
import statistics
import subprocess
import tempfile

from servers import Series, binary, compare, redis_benchmark, start_penstock, start_redis

PLAIN_SCRIPT = """
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'last')
local capacity, rate, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens = tonumber(bucket[1]) or capacity
local last = tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + (now - last) * rate)
local allowed = 0
if tokens >= 1 then
  tokens = tokens - 1
  allowed = 1
end
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'last', now)
redis.call('EXPIRE', KEYS[1], 60)
return {allowed, math.floor(tokens)}
"""

BUCKET = "rate: 30/min, burst: 16"
OTHERS = [("fixed window", "rate: 16/min, algorithm: fixed_window"),
          ("sliding window", "rate: 16/min, algorithm: sliding_window"),
          ("sliding log", "rate: 16/min, algorithm: sliding_log")]
# On which core the client runs, and on which Redis and penstock.
LAST = os.cpu_count() - 1
PLACEMENTS = [("client on another core", 0, LAST), ("all on one core", 0, 0)]
POLICY = f"""
engine: {{timeout: 2s}}  # a busy machine is not what is measured
domains:
  one:
    limits:
      - {{name: it, key: [user], {BUCKET}}}
  api:
    limits:
      - {{name: it, key: [user], {BUCKET}}}
      - {{name: hourly, key: [user], rate: 1000/h}}
      - {{name: everyone, rate: 1_000_000_000/s, burst: 1_000_000}}
"""


class Emptied:
    """A Redis that is emptied before each load: keys of an earlier one, whose time ends meanwhile, would cost it CPU."""

    def __init__(self, server, port):
        self.server, self.port = server, port

    def cpu_us(self):
        return self.server.cpu_us()

    def empty(self):
        subprocess.run(["redis-cli", "-p", str(self.port), "FLUSHALL"], capture_output=True, check=True)


def plain_command(port):
    out = subprocess.run(["redis-cli", "-p", str(port), "SCRIPT", "LOAD", PLAIN_SCRIPT], capture_output=True, text=True,
                         check=True).stdout
    return ["EVALSHA", out.strip(), "1", "plain:__rand_int__", "16", "0.5", "1785000000"]


def library(port, limit, in_flight, calls, latencies=None):
    """A load by the embedded library."""
    def load():
        out = subprocess.run([binary("redis_bench"), f"redis://127.0.0.1:{port}", limit, str(in_flight), str(calls)],
                             capture_output=True, text=True, check=True).stdout.split()
        if latencies is not None:
            latencies.append(float(out[5]))
        return int(out[0]), float(out[1])
    return load


def median_latency_us(port, calls, command):
    """p50 of one client that waits for each reply."""
    out = subprocess.run(["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-c", "1", "-r", "100000", "-n",
                          str(calls), "--precision", "3", *command], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s+([0-9.]+)\s+[0-9.]+\s+([0-9.]+)\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+$", out, re.MULTILINE)
    return float(found[-1][1]) * 1000


def bench_library(redis, port, rounds, seconds):
    print("  the CPU is Redis' own, a decision")
    plain = plain_command(port)
    many, one = int(100_000 * seconds), int(60_000 * seconds)  # the latter over the cost of a start
    loads = [("library, 64 in flight", library(port, BUCKET, 64, many)),
             ("library, 1024 in flight", library(port, BUCKET, 1024, many))]
    loads += [(f"library, 1024, {name}", library(port, limit, 1024, many)) for name, limit in OTHERS]
    reference, pipelined, ours = Series(), Series(), [Series() for _ in loads]
    single, single_reference = Series(), Series()
    for _ in range(rounds):
        reference.measure(redis, redis_benchmark(port, many, 1, plain, clients=64))
        pipelined.measure(redis, redis_benchmark(port, many, 64, plain, clients=16))
        for series, (_, load) in zip(ours, loads):
            series.measure(redis, load)
        single_reference.measure(redis, redis_benchmark(port, one, 1, plain, clients=1))
        single.measure(redis, library(port, BUCKET, 1, one))
    compare(loads[0][0], ours[0], reference, "plain, 64 clients")
    compare(loads[0][0], ours[0], pipelined, "plain, 1024 pipelined")
    for series, (name, _) in list(zip(ours, loads))[1:]:
        compare(name, series, pipelined, "plain, 1024 pipelined")
    compare("library, 1 in flight", single, single_reference, "plain, 1 client")


def bench_front(redis, port, folder, rounds, seconds):
    print("  three processes: redis-benchmark, penstock, Redis; the CPU is Redis' and penstock's")
    plain = plain_command(port)
    penstock, _, resp = start_penstock(folder, POLICY, "--engine", f"redis://127.0.0.1:{port}")
    key = "user:__rand_int__"
    loads = [("RESP, pipeline 32, CL.THROTTLE", ["CL.THROTTLE", key, "15", "30", "60"]),
             ("RESP, pipeline 32, 3 limits", ["PEN.CHECK", "api", "1", "user", key])]
    calls = int(100_000 * seconds)
    both = Both(redis, penstock)
    try:
        reference, ours = Series(), [Series() for _ in loads]
        for _ in range(rounds):
            reference.measure(redis, redis_benchmark(port, calls, 32, plain))
            for series, (_, command) in zip(ours, loads):
                series.measure(both, redis_benchmark(resp, calls, 32, command))
        for series, (name, _) in zip(ours, loads):
            compare(name, series, reference, "plain, pipeline 32")
        bench_added([redis.server, penstock], port, resp, plain, loads[0][1], rounds)
    finally:
        penstock.stop()


def bench_added(servers, port, resp, plain, command, rounds):
    """What a request waits longer through penstock, unpipelined. Who runs where is fixed: to wake a process on another
    core costs several times one on the same, and a PING that needs none is no measure of a request that does."""
    everywhere = os.sched_getaffinity(0)
    try:
        for placement, client_core, server_core in PLACEMENTS:
            os.sched_setaffinity(0, {client_core})  # what redis-benchmark inherits
            for server in servers:
                server.run_on({server_core})
            added_at(placement, port, resp, plain, command, rounds)
    finally:
        os.sched_setaffinity(0, everywhere)


def added_at(placement, port, resp, plain, command, rounds):
    added, pings = [], []
    for _ in range(rounds):
        direct = median_latency_us(port, 10_000, plain)
        added.append(median_latency_us(resp, 10_000, command) - direct)
        pings.append(median_latency_us(port, 10_000, ["PING"]))
    added_us, ping_us = statistics.median(added), statistics.median(pings)
    print(f"  added, {placement:<23}    {added_us:9.0f} us              "
          f"{'a PING of Redis':<22} {ping_us:9.0f} us    ratio {added_us / ping_us:5.2f}")


class Both:
    """Two processes measured as one."""

    def __init__(self, *servers):
        self.servers = servers

    def cpu_us(self):
        return sum(server.cpu_us() for server in self.servers)

    def empty(self):
        self.servers[0].empty()


def bench_redis(rounds, seconds):
    print("Redis as the engine; reference: the plain three-call token bucket script by redis-benchmark EVALSHA")
    with tempfile.TemporaryDirectory() as folder:
        redis, port = start_redis(folder)
        try:
            emptied = Emptied(redis, port)
            bench_library(emptied, port, rounds, seconds)
            bench_front(emptied, port, folder, rounds, seconds)
        finally:
            redis.stop()
