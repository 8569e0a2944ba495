#!/usr/bin/env python3
"""Real traffic at its own times through HTTP and RESP: every field of every answer is the naive model's.

Each request moves the server's clock and is then asked three ways, each on buckets of its own: POST /v1/check and
PEN.CHECK under a policy, and CL.THROTTLE. Ends with 77 (skipped) where the shared data folder is missing."""
import itertools
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import harness
import real_traffic
from naive_model import TokenBucket, up
from wire import Http, Resp, command

MS, SECOND = 1_000, 1_000_000

POLICY = """
domains:
  web:      {limits: [{name: per-address, key: [address], rate: 30/min, burst: 10}]}
  web-resp: {limits: [{name: per-address, key: [address], rate: 30/min, burst: 10}]}
  llm:      {limits: [{name: tpm, key: [address], unit: tokens, rate: 500_000/min}]}
  llm-resp: {limits: [{name: tpm, key: [address], unit: tokens, rate: 500_000/min}]}
"""


class Traffic:
    def __init__(self, domain, limit, unit, count, burst, requests, refusals):
        self.domain, self.limit, self.unit, self.count, self.burst = domain, limit, unit, count, burst
        self.requests, self.refusals = requests, refusals
        self.refill_s = up(burst * 60 * SECOND // count, SECOND)


def web(requests):
    return Traffic("web", "per-address", "requests", 30, 10, requests, range(1_200, 1_401))


def llm(requests):
    return Traffic("llm", "tpm", "tokens", 500_000, 500_000, requests, range(400, 501))


def http_request(traffic, key, cost):
    costs = f'"costs":{{"{traffic.unit}":{cost}}}' if traffic.unit != "requests" else f'"cost":{cost}'
    body = f'{{"domain":"{traffic.domain}","attributes":{{"address":"{key}"}},{costs}}}'
    return f"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def resp_requests(traffic, key, cost):
    costs = ["COSTS", 1, traffic.unit, cost] if traffic.unit != "requests" else ["COST", cost]
    return (command("PEN.CHECK", traffic.domain + "-resp", 1, "address", key, *costs) +
            command("CL.THROTTLE", f"{traffic.domain}:{key}", traffic.burst - 1, traffic.count, 60, cost))


def json_text(value):
    return "null" if value is None else str(value)


def http_body(traffic, answer):
    """The whole document, as the protocol page shows it."""
    fields = (f'"outcome":"{answer.outcome}","limit":{traffic.burst},"remaining":{answer.remaining},'
              f'"retry_after_ms":{json_text(up(answer.retry_after_us, MS))},'
              f'"reset_after_ms":{up(answer.reset_after_us, MS)},')
    return (f'{{"allowed":{str(answer.allowed).lower()},{fields}"wait_ms":0,"degraded":false,'
            f'"limits":[{{"name":"{traffic.limit}",{fields}"shadow":false}}]}}').encode()


def http_headers(traffic, answer):
    """What of the headers speaks of the limit."""
    unit = "" if traffic.unit == "requests" else f';qu="{traffic.unit}"'
    wait = answer.reset_after_us if answer.allowed else answer.retry_after_us
    until = "" if wait is None else f";t={up(wait, SECOND)}"
    headers = {
        "ratelimit-policy": f'"{traffic.limit}";q={traffic.burst}{unit};w={traffic.refill_s}',
        "ratelimit": f'"{traffic.limit}";r={answer.remaining}{until}',
        "x-ratelimit-limit": str(traffic.burst),
        "x-ratelimit-remaining": str(answer.remaining),
        "x-ratelimit-reset": str(up(answer.reset_after_us, SECOND)),
    }
    if answer.outcome == "denied":
        headers["retry-after"] = str(up(answer.retry_after_us, SECOND))
    return headers


def check_reply(traffic, answer):
    return [int(answer.allowed), answer.outcome, traffic.burst, answer.remaining, up(answer.retry_after_us, MS),
            up(answer.reset_after_us, MS), 0, 0, None, None, None, None, 0, 1]


def throttle_reply(traffic, answer):
    retry = up(answer.retry_after_us, SECOND) if answer.outcome == "denied" else -1
    return [int(not answer.allowed), traffic.burst, answer.remaining, retry, up(answer.reset_after_us, SECOND)]


def same(what, number, request, got, wanted):
    assert got == wanted, f"request {number}, {request}: {what}\n  answered {got}\n  model    {wanted}"


def replay(server, clock, traffic, model=TokenBucket):
    """Asks everything; returns how often each outcome came."""
    buckets, outcomes = {}, Counter()
    with Http(server.http) as http, Resp(server.resp) as resp:
        for number, request in enumerate(traffic.requests, 1):
            now, key, cost = request
            bucket = buckets.setdefault(key, model(traffic.count, 60 * SECOND, traffic.burst))
            answer = bucket.ask(now, cost)
            outcomes[answer.outcome] += 1
            clock.set(now)
            http.send_bytes(http_request(traffic, key, cost))
            resp.send_bytes(resp_requests(traffic, key, cost))
            response = http.receive()
            same("HTTP status", number, request, response.status, 200 if answer.allowed else 429)
            same("HTTP body", number, request, response.body, http_body(traffic, answer))
            limits = {name: value for name, value in response.headers.items()
                      if "ratelimit" in name or name == "retry-after"}
            same("HTTP headers", number, request, limits, http_headers(traffic, answer))
            same("PEN.CHECK", number, request, resp.receive(), check_reply(traffic, answer))
            same("CL.THROTTLE", number, request, resp.receive(), throttle_reply(traffic, answer))
    return outcomes


class ForgetfulBucket(TokenBucket):
    """A wrong model: it follows a clock that stepped back, and so counts the same time twice."""

    def ask(self, now_us, cost):
        self.stamp = min(now_us, self.stamp or now_us)
        return super().ask(now_us, cost)


def find_out_a_wrong_model(policy, traffic):
    """A comparison that cannot fail proves nothing."""
    with harness.testserver("--policy", policy) as server:
        try:
            replay(server, server.clock(), traffic, ForgetfulBucket)
        except AssertionError as error:
            print(f"a wrong model is found out at {str(error).split(':')[0]}", flush=True)
        else:
            raise AssertionError("a model that follows a clock back passed")


def compare_counters(server, traffic, outcomes):
    """The server counted what it answered."""
    with Http(server.http) as http:
        text = http.ask("GET", "/metrics").body.decode()
    for domain in (traffic.domain, traffic.domain + "-resp"):
        for outcome, count in outcomes.items():
            line = (f'penstock_decisions_total{{domain="{domain}",limit="{traffic.limit}",outcome="{outcome}",'
                    f'degraded="false"}} {count}')
            assert line in text.splitlines(), f"/metrics lacks: {line}"


def main():
    folder, missing = real_traffic.folder()
    if folder is None:
        print(f"SKIPPED: {missing}")
        return harness.SKIPPED
    all_traffic = [web(real_traffic.web_requests(folder)), llm(real_traffic.llm_requests(folder))]
    with tempfile.TemporaryDirectory() as temporary:
        policy = Path(temporary) / "policy.yaml"
        policy.write_text(POLICY)
        find_out_a_wrong_model(policy, web(itertools.islice(real_traffic.web_requests(folder), 1_000)))
        with harness.testserver("--policy", policy) as server:
            clock = server.clock()
            for traffic in all_traffic:
                began = time.monotonic()
                outcomes = replay(server, clock, traffic)
                compare_counters(server, traffic, outcomes)
                refused = outcomes["denied"] + outcomes["never"]
                assert refused in traffic.refusals, f"{traffic.domain}: {refused} refusals"
                print(f"{traffic.domain}: {sum(outcomes.values())} requests, each by HTTP, PEN.CHECK and CL.THROTTLE; "
                      f"{refused} refused; every field as the model has it; {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
