"""The judge of "never more than N at once": every command notes when it ran, by the machine's monotonic clock."""
import subprocess
import sys

COMMAND = """
import sys, time
began = time.monotonic_ns()
time.sleep(0.05)
with open(sys.argv[1], "a") as out:
    out.write(f"{began} {time.monotonic_ns()}\\n")
"""


def loop(run, times, log):
    """For `sh -c`: so many commands under `run` (a command line up to the --), one after the other."""
    line = f"{subprocess.list2cmdline(run)} -- {sys.executable} -c '{COMMAND}' {log}"
    return f"i=0; while [ $i -lt {times} ]; do {line} || exit 1; i=$((i + 1)); done"


def read(log):
    return [tuple(map(int, line.split())) for line in log.read_text().splitlines()]


def most_at_once(intervals):
    """An end counts before a beginning at the same instant."""
    most = now = 0
    for _, step in sorted([(began, 1) for began, _ in intervals] + [(ended, -1) for _, ended in intervals]):
        now += step
        most = max(most, now)
    return most
