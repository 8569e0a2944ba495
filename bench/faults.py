"""What callers see while the store fails: latency beside the time-out, how soon the engine decides again, and what was
admitted beside the limit. Two nodes, 48 connections, a steady load; the store fails after two seconds of it and is back
two seconds later.

Beside it stands what 24 more connections of the same load wait for a plain Redis that has nothing to do with the fault
(PING): what the machine itself makes a caller wait. Where that is more than what the bound allows on top of the time-out
the case says nothing, and is measured again."""
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
MACHINE_MS = 5  # what the machine may make a caller wait on top of the time-out
LATENCY_BOUND_MS = TIMEOUT_MS + MACHINE_MS
TRIES = 3
IN_A_ROW = 50  # requests that the engine decides: it is back
RECOVERY_BOUND_S = 1.0


class Case:
    """One fault. `fails` is what happens; `heals` undoes it and returns when the store is back. `keeps` its data: then
    nothing is admitted beyond the limit. The load goes on for `lasts_s` beyond FAULT_S and AFTER_S: so long `fails` and
    `heals` may take (Sentinels that vote on a busy machine take seconds). `sharded`: all buckets are in one slot."""

    def __init__(self, name, fails, heals=None, keeps=True, store=lambda: redis_fleet.Redis(*DURABLE), proxied=False,
                 lasts_s=5, sharded=False):
        self.name, self.fails, self.heals, self.keeps = name, fails, heals or (lambda store: None), keeps
        self.store, self.proxied, self.lasts_s, self.sharded = store, proxied, lasts_s, sharded

    def policy(self):
        limit = {**LIMIT, "key": ["tenant", *LIMIT["key"]]} if self.sharded else LIMIT
        return redis_fleet.policy([limit], {"shard_by": "tenant"} if self.sharded else None, timeout=f"{TIMEOUT_MS}ms")


def cases():
    def moves(cluster):
        slots = sorted({cluster.slot_of(key) for node in cluster.nodes if redis_groups.is_master(node)
                        for key in node.keys("pen:*")})[:20]
        for slot in slots:
            source = cluster.owner(slot)
            target = next(i for i, node in enumerate(cluster.nodes) if i != source and redis_groups.is_master(node))
            cluster.migrate(slot, target)

    def half_moves(cluster):
        """Half of the tenant's buckets; then the slot stays between two masters until `arrives`."""
        slot, source, target = tenants_move(cluster)
        cluster.begin_migration(slot, source, target)
        cluster.move_keys(slot, source, target, count=KEYS // 2)

    def arrives(cluster):
        slot, source, target = tenants_move(cluster)
        while cluster.move_keys(slot, source, target):
            pass
        cluster.end_migration(slot, target)

    def tenants_move(cluster):
        slot = cluster.slot_of("pen:{api:t}")
        source = cluster.owner(slot)
        return slot, source, (source + 1) % cluster.MASTERS

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
        Case("Cluster, a slot half moved", half_moves, arrives, store=redis_groups.Cluster, sharded=True),
    ]


def url_of(store):
    return store.url() if callable(store.url) else store.url


def percentile(ordered, part):
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


class Load:
    """The load generator, and what it wrote down."""

    def __init__(self, plain_port, ports, seconds):
        self.process = subprocess.Popen(
            [binary("fault_load"), *map(str, (seconds, RATE, KEYS, plain_port, *ports))], stdout=subprocess.PIPE, text=True)

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
            f.write(case.policy())
        if case.proxied:
            with tcp_proxy.Proxy(("127.0.0.1", store.port)) as proxy:
                return run(case, proxy, policy, store.url(proxy.port))
        return run(case, store, policy, url_of(store))


def run(case, target, policy, url):
    with redis_fleet.Redis(users=None) as plain, redis_fleet.Fleet(2, policy, url, "--threads", "1") as fleet:
        fleet.wait_ready()
        load = Load(plain.port, [node.resp[1] for node in fleet], WELL_S + FAULT_S + AFTER_S + case.lasts_s)
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
    for _ in range(TRIES):
        everything, failed, healed = measure(case)
        plain, samples = ([sample for sample in everything if (sample[3] == "P") == is_plain] for is_plain in (True, False))
        machine = percentile(times(plain, failed, healed), 0.999)
        if machine <= MACHINE_MS:
            break
    during = times(samples, failed, healed)
    lost = sum(code == "X" for *_, code in samples)
    unavailable = sum(code == "U" and failed <= sent <= healed for sent, _, _, code in samples)
    recovery = recovered(samples, healed)
    admitted = [0] * KEYS
    for *_, key, code in samples:
        admitted[key] += code == "A"
    most = max(admitted)
    p999 = percentile(during, 0.999)
    holds = (lost == 0 and p999 <= LATENCY_BOUND_MS and recovery <= RECOVERY_BOUND_S and
             (most <= CAPACITY or not case.keeps))
    verdict = "" if holds else "   OUT OF BOUNDS" if machine <= MACHINE_MS else "   THE MACHINE IS TOO BUSY"
    print(f"  {case.name:<27} {percentile(during, 0.5):7.2f} {p999:7.2f} {percentile(during, 1.0):7.2f} ms"
          f"   {machine:7.2f} ms   {recovery:5.2f} s   {most:3d} of {CAPACITY}{' ' if case.keeps else '*'}"
          f"   {len(during):6d} asked, {unavailable} unavailable, {lost} lost{verdict}")
    return holds


def times(samples, begin, end):
    """Milliseconds that the answers to what was asked between the two instants took, in order."""
    return sorted(took / 1e3 for sent, took, _, _ in samples if begin <= sent <= end)


def bench_faults(only=""):
    print(f"Faults of the store; time-out {TIMEOUT_MS} ms, bounds: p99.9 {LATENCY_BOUND_MS} ms, recovery "
          f"{RECOVERY_BOUND_S:.0f} s, nothing lost, the limit kept (*: the store lost data, nothing is promised). "
          "Reference: p99.9 of PING to a Redis that nothing happens to, by the same load at the same time")
    print(f"  {'':<27} {'p50':>7} {'p99.9':>7} {'max':>7}      reference   recovery   admitted")
    return all([tell(case) for case in cases() if only in case.name])
