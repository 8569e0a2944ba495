#!/usr/bin/env python3
"""A C program with hiredis against the RESP port; compiled here."""
import shutil
import subprocess
import sys

import harness
import resp_server


def main():
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-14")
    if compiler is None:
        return resp_server.skipped("there is no C compiler")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hiredis"], capture_output=True, text=True, check=False)
    if flags.returncode != 0:
        return resp_server.skipped(f"no hiredis (package libhiredis-dev): {flags.stderr.strip()}")
    client = resp_server.workshop("hiredis") / "client"
    source = harness.ROOT / "tests/integration/hiredis_client.c"
    subprocess.run([compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", client, source,
                    *flags.stdout.split()], check=True)
    with resp_server.running() as server:
        resp_server.run_client([client], server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
