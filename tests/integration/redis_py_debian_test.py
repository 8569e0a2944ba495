#!/usr/bin/env python3
"""redis-py as Debian has it (python3-redis) against the RESP port."""
import subprocess
import sys

import harness
import resp_server

PYTHON = "/usr/bin/python3"  # Debian's own: another one on PATH does not see its packages


def main():
    try:
        probe = subprocess.run([PYTHON, "-c", "import redis"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return resp_server.skipped(f"there is no {PYTHON}")
    if probe.returncode != 0:
        return resp_server.skipped(f"{PYTHON} has no redis (package python3-redis): {probe.stderr.splitlines()[-1]}")
    with resp_server.running() as server:
        resp_server.run_client([PYTHON, harness.ROOT / "tests/integration/redis_py_client.py"], server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
