"""clang-tidy on every source file of the build, in parallel, with a cache of clean results under build/.

The key of a result is the content of the file, of every own header that it reaches, of .clang-tidy and of the
compile command: a file whose key has been found clean is not looked at again. Findings are never cached.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

CONFIGURE = ["cmake", "-S", ".", "-B", "build/tidy", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_COMPILER=clang++-14",
             "-DPENSTOCK_BENCH=ON",]
# What is asked of tests: names, and the mistakes that make a test pass by accident. The full list would double the
# time of the lint, for speed that no test needs.
TEST_CHECKS = ("-*,readability-identifier-naming,bugprone-use-after-move,bugprone-dangling-handle,bugprone-unused-raii,"
               "bugprone-copy-constructor-init,bugprone-undelegated-constructor")
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)
FINDING = re.compile(r"(?:warning|error): .*\[[\w.,-]+\]$")


def compile_commands(root):
    done = subprocess.run(CONFIGURE, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"lint: cmake could not configure build/tidy\n{done.stdout}{done.stderr}")
    with open(root / "build/tidy/compile_commands.json", encoding="utf-8") as opened:
        entries = json.load(opened)
    return {entry["file"]: entry["command"] for entry in entries if "/build/" not in entry["file"].removeprefix(str(root))}


def own_closure(root, path):
    """The file and every own header it reaches, by include lines; conditions are ignored, so it is never too small."""
    seen, todo = set(), [path]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        for name in OWN_INCLUDE.findall(current.read_text(encoding="utf-8")):
            for base in (root / "src", root / "include", current.parent, root):
                if (base / name).is_file():
                    todo.append(base / name)
                    break
    return sorted(seen)


def key_of(root, path, command):
    digest = hashlib.sha256()
    words = [word for word in shlex.split(command) if not word.startswith(str(root / "build"))]
    digest.update("\0".join([*words, TEST_CHECKS]).encode())
    for part in [root / ".clang-tidy", *own_closure(root, Path(path))]:
        digest.update(f"\0{part.relative_to(root)}\0".encode())
        digest.update(part.read_bytes())
    return digest.hexdigest()


def check_one(root, path):
    of_tests = path.endswith("_test.cc") or "/testing/" in path or "/tests/" in path
    checks = [f"--checks={TEST_CHECKS}"] if of_tests else []
    done = subprocess.run(["clang-tidy-14", "--quiet", *checks, "-p", "build/tidy", path], cwd=root, capture_output=True, text=True,
                          check=False)
    lines = [line.replace(f"{root}/", "") for line in done.stdout.splitlines() if FINDING.search(line)]
    if done.returncode and not lines:
        lines = [f"{path}: clang-tidy failed: {(done.stdout + done.stderr)[-2000:]}"]
    return lines


def findings(root, jobs, use_cache=True):
    commands = compile_commands(root)
    cache = root / "build" / "tidy" / "clean"
    cache.mkdir(parents=True, exist_ok=True)
    keys = {path: key_of(root, path, command) for path, command in commands.items()}
    due = [path for path in commands if not (use_cache and (cache / keys[path]).exists())]
    due.sort(key=lambda path: -os.path.getsize(path))
    found = set()
    with concurrent.futures.ThreadPoolExecutor(max(1, jobs)) as pool:
        runs = {pool.submit(check_one, root, path): path for path in due}
        for run in concurrent.futures.as_completed(runs):
            lines = run.result()
            found.update(lines)
            if not lines:
                (cache / keys[runs[run]]).touch()
    print(f"clang-tidy: {len(due)} of {len(commands)} files looked at, the others are known to be clean")
    return sorted(found)
