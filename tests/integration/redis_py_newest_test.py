#!/usr/bin/env python3
"""The newest redis-py of PyPI against the RESP port, in a virtual environment under the build folder. Skipped, with the
reason, where PyPI cannot be reached and no earlier run has installed it."""
import subprocess
import sys

import harness
import resp_server


def install(folder):
    """The environment's Python, or None with the reason."""
    python = folder / "bin" / "python"
    if not python.exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return None, f"no virtual environment (package python3-venv): {(made.stdout + made.stderr).strip()}"
    # No time-out of its own: pip has one for each try.
    got = subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--upgrade", "--disable-pip-version-check",
                          "redis"], capture_output=True, text=True, check=False)
    if got.returncode == 0:
        return python, ""
    reason = (got.stderr.strip().splitlines() or ["no word from pip"])[-1]
    there = subprocess.run([str(python), "-c", "import redis"], capture_output=True, check=False)
    if there.returncode == 0:
        print(f"PyPI could not be asked ({reason}): with what an earlier run installed", flush=True)
        return python, ""
    return None, f"PyPI could not be asked: {reason}"


def main():
    python, reason = install(resp_server.workshop("redis-py"))
    if python is None:
        return resp_server.skipped(reason)
    with resp_server.running() as server:
        resp_server.run_client([python, harness.ROOT / "tests/integration/redis_py_client.py"], server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
