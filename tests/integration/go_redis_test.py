#!/usr/bin/env python3
"""A Go program with go-redis against the RESP port, built here with the Go on PATH: the version that every Go since 1.18
builds (go_redis/go.mod), and the newest (newest.mod) where this Go is new enough for it. Skipped, with the reason,
where there is no Go or the modules cannot be had."""
import os
import re
import shutil
import subprocess
import sys

import harness
import resp_server

FOLDER = harness.ROOT / "tests/integration/go_redis"
ENVIRONMENT = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off",
               "CGO_ENABLED": "0"}


def go(*args):
    return subprocess.run(["go", *args], cwd=FOLDER, env=ENVIRONMENT, text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)


def numbers(text):
    """(1, 26) of "go1.26.8" and of "go 1.26.0"."""
    return tuple(int(part) for part in re.search(r"go ?(\d+)\.(\d+)", text).groups())


def build(mod):
    """The program, or None with the reason why it cannot be had."""
    have, needed = numbers(go("version").stdout), numbers((FOLDER / mod).read_text())
    if have < needed:
        return None, f"{mod} needs Go {needed[0]}.{needed[1]}, this is {have[0]}.{have[1]}"
    got = go("mod", "download", f"-modfile={mod}")
    if got.returncode != 0:
        return None, f"the modules of {mod} cannot be had: {got.stdout.strip()[-500:]}"
    client = resp_server.workshop("go-redis") / mod.replace(".mod", "")
    built = go("build", f"-modfile={mod}", "-o", str(client), ".")
    assert built.returncode == 0, built.stdout
    return client, ""


def main():
    if shutil.which("go") is None:
        return resp_server.skipped("there is no Go on PATH")
    ran = 0
    for mod in ("go.mod", "newest.mod"):
        client, reason = build(mod)
        if client is None:
            print(f"not run: {reason}", flush=True)
            continue
        with resp_server.running() as server:
            resp_server.run_client([client], server)
        ran += 1
    return 0 if ran else resp_server.skipped("no version of go-redis could be built here")


if __name__ == "__main__":
    sys.exit(main())
