"""The server that tests of Redis clients talk to: a token, a policy, and a clock that stands still, so that every
answer is known. Each client program is called with HOST PORT TOKEN, asks this and compares; it ends with 0 and
prints a last line that begins with its name and version.

    PING, ECHO                              as Redis
    CL.THROTTLE fresh-key 15 30 60          0 16 15 -1 2
    15 more of them in one pipeline         0 16 14 -1 4  …  0 16 0 -1 32
    5 more in one pipeline                  1 16 0 2 32
    PEN.CHECK api 1 user fresh-value        1 allowed 20 19 0 600 0 0 nil nil nil nil 0 1
    PEN.CHECK api 1 user same COST 21       0 never 20 19 nil 600 0 0 nil nil nil nil 0 1
    PEN.CHECK nowhere 0                     an error that begins with NOTFOUND
    CL.THROTTLE key 1 0 60                  an error that begins with ERR
    without the token                       an error that begins with NOAUTH
"""
import contextlib
import subprocess
import tempfile
from pathlib import Path

import harness

TOKEN = "a-token-of-the-tests"

POLICY = """
domains:
  api: {limits: [{name: per-user, key: [user], rate: 100/min, burst: 20}]}
"""


@contextlib.contextmanager
def running(token=TOKEN):
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.yaml"
        policy.write_text(POLICY)
        with harness.testserver("--policy", policy, env={"PENSTOCK_TOKEN": token} if token else None) as server:
            yield server


def workshop(name):
    """A folder under the build's for what a client needs to be built; kept, so that only the first run builds."""
    folder = harness.BIN / "integration" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def skipped(reason):
    print(f"SKIPPED: {reason}", flush=True)
    return harness.SKIPPED


def run_client(command, server, cwd=None):
    """Runs a client program; its last line, after it ended well."""
    host, port = server.resp
    done = subprocess.run([str(part) for part in command] + [host, str(port), TOKEN], cwd=cwd, text=True, check=False,
                          env=harness.environment(), timeout=harness.PATIENCE_S,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
    print(done.stdout.rstrip(), flush=True)
    return done.stdout.rstrip().splitlines()[-1]
