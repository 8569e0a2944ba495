"""The shared data folder as requests at their own times: (microseconds, key, cost), in file order. Its README says
where the files come from. The project ships no copy."""
import calendar
import csv
import os
import re
import time
from pathlib import Path

import harness


def folder():
    """The folder, or None with the reason."""
    named = os.environ.get("PENSTOCK_SHARED_DATA")
    path = Path(named) if named else harness.ROOT.parent / "shared" / "data"
    if path.is_dir():
        return path, ""
    return None, f"the shared data folder is not there ({path}); PENSTOCK_SHARED_DATA may name it"


def web_requests(path):
    """One request of cost 1 a line, keyed by the client's address. About half of the time stamps step backwards."""
    line_form = re.compile(r"(\S+) \S+ \S+ \[(\d\d/\w\w\w/\d{4}:\d\d:\d\d:\d\d) ([+-])(\d\d)(\d\d)\] ")
    for number, line in enumerate((path / "web_access.log").open(encoding="utf-8", errors="replace"), 1):
        found = line_form.match(line)
        assert found, f"web_access.log:{number}: {line[:120]!r}"
        address, when, sign, hours, minutes = found.groups()
        seconds = calendar.timegm(time.strptime(when, "%d/%b/%Y:%H:%M:%S"))
        seconds -= (60 * int(hours) + int(minutes)) * 60 * (1 if sign == "+" else -1)
        yield seconds * 1_000_000, address, 1


def llm_requests(path):
    """One request a row, with context + generated tokens as its cost, all on one key."""
    with (path / "llm_conversations.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            whole, fraction = row["TIMESTAMP"].split(".")
            seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%d %H:%M:%S"))
            us = int(fraction[:6].ljust(6, "0"))
            yield seconds * 1_000_000 + us, "everyone", int(row["ContextTokens"]) + int(row["GeneratedTokens"])
