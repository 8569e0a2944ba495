#!/usr/bin/env python3
"""`./dev lint`: the tree checks, clang-format and clang-tidy. Prints every finding; exit 1 if there is one.

`--only NAME` (may be repeated) runs one of: layers, file-length, function-length, registered-tests, heavy-headers,
open-ends, scripts, format, tidy. `--root DIR` looks at another tree.
"""
import argparse
import collections
import os
import subprocess
import sys
import time
from pathlib import Path

import tidy
import tree_checks


def format_findings(root):
    paths = [str(path.relative_to(root)) for path in tree_checks.code_files(root)]
    if not paths:
        return []
    done = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True,
                          check=False)
    places = collections.Counter(line.split(":")[0] for line in done.stderr.splitlines() if "error:" in line)
    findings = [f"{path}: {count} places differ: clang-format-14 -i {path}" for path, count in sorted(places.items())]
    if done.returncode and not findings:
        findings = [done.stderr.strip()]
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--only", action="append")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--no-cache", action="store_true", help="forget earlier clang-tidy results")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    parts = {name: (lambda name=name: list(tree_checks.run(root, {name}))) for name in tree_checks.CHECKS}
    parts["format"] = lambda: format_findings(root)
    parts["tidy"] = lambda: tidy.findings(root, arguments.jobs, use_cache=not arguments.no_cache)
    unknown = set(arguments.only or []) - set(parts)
    if unknown:
        parser.error(f"unknown check {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    total = 0
    for name, part in parts.items():
        if arguments.only and name not in arguments.only:
            continue
        began = time.monotonic()
        found = part()
        total += len(found)
        for line in found:
            print(line)
        print(f"lint {name}: {len(found)} findings, {time.monotonic() - began:.1f} s", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
