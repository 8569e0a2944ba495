"""Permits: acquire and release of one semaphore, beside the two scripts that everybody writes first (GET, INCR, EXPIRE
and GET, DECR on a counter: no holders, no leases, no fences) by redis-benchmark on the same server, pipelined alike."""
import statistics
import subprocess
import tempfile

from servers import Series, binary, compare, redis_benchmark, start_redis
from store import Emptied

PLAIN_ACQUIRE = """
local held = tonumber(redis.call('GET', KEYS[1]) or '0')
if held >= tonumber(ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
PLAIN_RELEASE = """
local held = tonumber(redis.call('GET', KEYS[1]) or '0')
if held <= 0 then return 0 end
redis.call('DECR', KEYS[1])
return 1
"""
# Permits, and those that others hold all the time.
SIZES = [(100, 20), (10_000, 9_000)]
# Groups of requests under way, requests of each; what is pipelined alike.
SHAPES = [("64 in flight", 2, 32, 2, 32), ("1 in flight", 1, 1, 1, 1)]
WANTED_PAIRS_A_CORE = 2_000_000


def ours(url, permits, held, flights, each, pairs, cpu=None):
    def load():
        out = subprocess.run([binary("permits_bench"), url, str(permits), str(held), str(flights), str(each), str(pairs)],
                             capture_output=True, text=True, check=True).stdout.split()
        if int(out[3]) != 0:
            raise SystemExit(f"{out[3]} acquires were refused")
        if cpu is not None:
            cpu.append(float(out[2]))
        return int(out[0]), float(out[1])
    return load


class Pair:
    """Two loads that make one pair a call."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __call__(self):
        calls, seconds = self.first()
        return calls, seconds + self.second()[1]


def plain(port, permits, clients, pipeline, pairs):
    def script(text):
        return subprocess.run(["redis-cli", "-p", str(port), "SCRIPT", "LOAD", text], capture_output=True, text=True,
                              check=True).stdout.strip()
    acquire = ["EVALSHA", script(PLAIN_ACQUIRE), "1", "plain", str(permits + pairs), "30"]
    release = ["EVALSHA", script(PLAIN_RELEASE), "1", "plain"]
    return Pair(redis_benchmark(port, pairs, pipeline, acquire, clients=clients),
                redis_benchmark(port, pairs, pipeline, release, clients=clients))


def bench_redis(rounds, seconds):
    print("Redis, one bucket; reference: GET/INCR/EXPIRE and GET/DECR scripts by redis-benchmark EVALSHA; the CPU is "
          "Redis' own, a pair")
    with tempfile.TemporaryDirectory() as folder:
        redis, port = start_redis(folder)
        emptied = Emptied(redis, port)
        try:
            for name, flights, each, clients, pipeline in SHAPES:
                pairs = int((60_000 if flights > 1 else 20_000) * seconds)
                reference, series = Series(), [Series() for _ in SIZES]
                for _ in range(rounds):
                    reference.measure(emptied, plain(port, 100, clients, pipeline, pairs))
                    for each_series, (permits, held) in zip(series, SIZES):
                        each_series.measure(emptied, ours(f"redis://127.0.0.1:{port}", permits, held, flights, each, pairs))
                for each_series, (permits, _) in zip(series, SIZES):
                    compare(f"N = {permits:,}, {name}", each_series, reference, f"counter, {name}")
        finally:
            redis.stop()


def bench_memory(rounds, seconds):
    print(f"Memory engine, one thread; wanted: {WANTED_PAIRS_A_CORE / 1e6:.0f} M pairs a second")
    for permits, held in SIZES:
        for name, each in (("one by one", 1), ("batches of 64", 64)):
            cpu = []
            for _ in range(rounds):
                ours("memory:", permits, held, 1, each, int(1_000_000 * seconds), cpu)()
            rate = 1e6 / statistics.median(cpu)
            print(f"  N = {permits:>6,}, {name:<16} {rate / 1e6:6.2f} M pairs/s of CPU    ratio {rate / WANTED_PAIRS_A_CORE:5.2f}")


def bench_permits(rounds, seconds):
    bench_memory(rounds, seconds)
    bench_redis(rounds, seconds)
