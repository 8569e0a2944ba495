"""What callers see while the store fails: latency beside the time-out, how soon the engine decides again, and what was
admitted beside the limit. Two nodes, 48 connections, a steady load; the store fails after two seconds of it and is back
two seconds later."""
import os
import subprocess
import sys
import tempfile
import time

from servers import ROOT, binary

sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
import redis_fleet  # noqa: E402
import redis_groups  # noqa: E402
import tcp_proxy  # noqa: E402

TIMEOUT_MS = 20
RATE, KEYS, CAPACITY = 1_500, 50, 60
WELL_S, FAULT_S, AFTER_S = 2, 2, 3
# A day's rate: hardly a token comes back while it is measured, so what was admitted can be counted. `deny`: what the
# engine did not decide is not admitted.
LIMIT = {"name": "daily", "key": ["user"], "rate": f"{CAPACITY}/d", "on_failure": "deny"}
DURABLE = ("appendonly yes", "appendfsync always")
LATENCY_BOUND_MS = TIMEOUT_MS + 5
IN_A_ROW = 50  # requests that the engine decides: it is back
RECOVERY_BOUND_S = 1.0


class Case:
    """One fault. `fails` is what happens; `heals` undoes it and returns when the store is back. `keeps` its data: then
    nothing is admitted beyond the limit. The load goes on for `lasts_s` beyond FAULT_S and AFTER_S: so long `fails` and
    `heals` may take (Sentinels that vote on a busy machine take seconds)."""

    def __init__(self, name, fails, heals=None, keeps=True, store=lambda: redis_fleet.Redis(*DURABLE), proxied=False,
                 lasts_s=5):
        self.name, self.fails, self.heals, self.keeps = name, fails, heals or (lambda store: None), keeps
        self.store, self.proxied, self.lasts_s = store, proxied, lasts_s


def cases():
    def moves(cluster):
        slots = sorted({cluster.slot_of(key) for node in cluster.nodes if redis_groups.is_master(node)
                        for key in node.keys("pen:*")})[:20]
        for slot in slots:
            source = cluster.owner(slot)
            target = next(i for i, node in enumerate(cluster.nodes) if i != source and redis_groups.is_master(node))
            cluster.migrate(slot, target)

    def fill(redis):
        redis.ask("CONFIG", "SET", "maxmemory", "1mb")

    def roomy(redis):
        redis.ask("CONFIG", "SET", "maxmemory", "0")

    return [
        Case("stopped and started", lambda r: r.stop(), lambda r: r.start()),
        Case("frozen (SIGSTOP)", lambda r: r.freeze(), lambda r: r.thaw()),
        Case("killed and restarted", lambda r: r.kill(), lambda r: r.start()),
        Case("restarted empty", lambda r: r.kill(), lambda r: r.start(), keeps=False, store=redis_fleet.Redis),
        Case("FLUSHALL", lambda r: r.ask("FLUSHALL"), keeps=False),
        Case("SCRIPT FLUSH", lambda r: r.ask("SCRIPT", "FLUSH")),
        Case("packets vanish", lambda p: p.black_hole(), lambda p: p.heal(), proxied=True),
        Case("replies vanish", lambda p: p.black_hole(requests=False), lambda p: p.heal(), proxied=True),
        Case("connections cut", lambda p: p.cut(), lambda p: p.heal(), proxied=True),
        Case("memory full (maxmemory)", fill, roomy),
        Case("permission lost (ACL)", lambda r: r.ask("ACL", "SETUSER", redis_fleet.USER, "-evalsha", "-eval"),
             lambda r: r.ask("ACL", "SETUSER", redis_fleet.USER, "+evalsha", "+eval")),
        Case("Sentinel, master killed", lambda s: s.kill_master(), keeps=False, store=redis_groups.SentinelSet,
             lasts_s=20),
        Case("Sentinel, ordered failover", lambda s: s.failover(), keeps=False, store=redis_groups.SentinelSet),
        Case("Cluster, a master killed", lambda c: c.kill_master(0), keeps=False, store=redis_groups.Cluster, lasts_s=20),
        Case("Cluster, ordered failover", lambda c: c.failover(0), keeps=False, store=redis_groups.Cluster),
        Case("Cluster, 20 slots move", moves, store=redis_groups.Cluster),
    ]


def url_of(store):
    return store.url() if callable(store.url) else store.url


def percentile(ordered, part):
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


class Load:
    """The load generator, and what it wrote down."""

    def __init__(self, ports, seconds):
        self.process = subprocess.Popen([binary("fault_load"), str(seconds), str(RATE), str(KEYS), *map(str, ports)],
                                        stdout=subprocess.PIPE, text=True)

    def samples(self):
        out, _ = self.process.communicate(timeout=seconds_at_most())
        return [(int(sent), int(took), int(key), code)
                for sent, took, key, code in (line.split() for line in out.splitlines())]


def seconds_at_most():
    return WELL_S + FAULT_S + AFTER_S + 120


def measure(case):
    """(samples, when it failed, when it was healed), in microseconds of the monotonic clock."""
    with tempfile.TemporaryDirectory() as folder, case.store() as store:
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="utf-8") as f:
            f.write(redis_fleet.policy([LIMIT], timeout=f"{TIMEOUT_MS}ms"))
        if case.proxied:
            with tcp_proxy.Proxy(("127.0.0.1", store.port)) as proxy:
                return run(case, proxy, policy, store.url(proxy.port))
        return run(case, store, policy, url_of(store))


def run(case, target, policy, url):
    with redis_fleet.Fleet(2, policy, url, "--threads", "1") as fleet:
        fleet.wait_ready()
        load = Load([node.resp[1] for node in fleet], WELL_S + FAULT_S + AFTER_S + case.lasts_s)
        time.sleep(WELL_S)
        failed = time.monotonic()
        case.fails(target)
        time.sleep(max(0.0, failed + FAULT_S - time.monotonic()))
        case.heals(target)
        healed = time.monotonic()
        return load.samples(), failed * 1e6, healed * 1e6


def recovered(samples, healed):
    """Seconds from the healing until IN_A_ROW requests in a row were decided by the engine."""
    row = 0
    for sent, took, _, code in sorted(samples):
        if sent < healed:
            continue
        row = row + 1 if code in "AD" else 0
        if row == IN_A_ROW:
            return (sent + took - healed) / 1e6
    return float("inf")


def tell(case):
    samples, failed, healed = measure(case)
    during = sorted(took for sent, took, _, _ in samples if failed <= sent <= healed)
    well = sorted(took for sent, took, _, _ in samples if sent < failed)
    lost = sum(code == "X" for *_, code in samples)
    unavailable = sum(code == "U" for *_, code in samples)
    recovery = recovered(samples, healed)
    admitted = [0] * KEYS
    for *_, key, code in samples:
        admitted[key] += code == "A"
    most = max(admitted)
    p999 = percentile(during, 0.999) / 1e3
    holds = (lost == 0 and p999 <= LATENCY_BOUND_MS and recovery <= RECOVERY_BOUND_S and
             (most <= CAPACITY or not case.keeps))
    print(f"  {case.name:<27} {percentile(during, 0.5) / 1e3:7.2f} {p999:7.2f} {percentile(during, 1.0) / 1e3:7.2f} ms"
          f" ({percentile(well, 0.999) / 1e3:6.2f})"
          f"   {recovery:5.2f} s   {most:3d} of {CAPACITY}{' ' if case.keeps else '*'}   {len(samples):6d} asked, "
          f"{unavailable} unavailable, {lost} lost{'' if holds else '   OUT OF BOUNDS'}")
    return holds


def bench_faults():
    print(f"Faults of the store; time-out {TIMEOUT_MS} ms, bounds: p99.9 {LATENCY_BOUND_MS} ms, recovery "
          f"{RECOVERY_BOUND_S:.0f} s, nothing lost, the limit kept (*: the store lost data, nothing is promised). In brackets p99.9 before the fault: "
          "what the machine itself makes callers wait")
    print(f"  {'':<27} {'p50':>7} {'p99.9':>7} {'max':>7}    (before)  recovery   admitted")
    return all([tell(case) for case in cases()])
