#!/usr/bin/env python3
"""`./dev mutate --seed N`: breaks src/core in small ways and counts how many the room's tests notice; with
`--dir src/engine/redis/lua` the Redis engine's scripts, whose differential test must notice.

Draws --count mutants by the seed, builds each in a copy of the tree (two side by side), runs the room's test binary.
A failing or hanging test kills the mutant; one that does not compile is replaced by the next. The survivors are
printed. Exit 0 when at least 95 of 100 die (38 of 40), or when every survivor is shown to be equivalent in
tools/mutate_equivalent.txt; 1 otherwise; 2 when the tests do not pass unchanged.
"""
import argparse
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import mutants

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("CMakeLists.txt", "cmake", "include", "src", "tools")
# The scripts of the Redis engine are judged by their tests on a redis-server, the differential test with so many steps.
LUA_ROOM = "src/engine/redis/lua"
LUA_COPIED = (*COPIED, "apps", "tests", "deploy", "docs")
LUA_STEPS = 20_000
LUA_TESTS = ("redis_differential_test", "redis_scripts_test", "redis_registry_test", "redis_fleet_test")
COMPILE_SECONDS = 600
MEMORY_BYTES = 4 << 30
OUTPUT_BYTES = 64 << 20
NEEDED_SHARE = 0.95


class WorkCopy:
    """One copy of the tree with its build folder; mutants are tried in it one after the other."""

    def __init__(self, number, folder):
        self.tree = ROOT / "build" / "mutate" / str(number)
        self.build = self.tree / "build"
        lua = folder == LUA_ROOM
        self.tests = LUA_TESTS if lua else (f"{Path(folder).name}_test",)
        self.log = self.tree / "test.log"
        self.environment = {**os.environ, "CCACHE_BASEDIR": str(self.tree), "CCACHE_NOHASHDIR": "1"}
        if lua:
            self.environment["PENSTOCK_STEPS"] = str(LUA_STEPS)
        self.tree.mkdir(parents=True, exist_ok=True)
        for name in LUA_COPIED if lua else COPIED:
            self._copy(ROOT / name, self.tree / name)

    @staticmethod
    def _copy(source, target):
        """Brings target to the content of source; files that are alike keep their time, so ninja leaves them."""
        if source.is_dir():
            target.mkdir(exist_ok=True)
            names = {path.name for path in source.iterdir() if path.name != "__pycache__"}
            for old in list(target.iterdir()):
                if old.name not in names:
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
            for name in sorted(names):
                WorkCopy._copy(source / name, target / name)
        elif not target.exists() or source.read_bytes() != target.read_bytes():
            shutil.copyfile(source, target)

    def _call(self, command, seconds):
        def limit():
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_BYTES, OUTPUT_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        with open(self.log, "wb") as log:
            process = subprocess.Popen(command, cwd=self.tree, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, preexec_fn=limit)
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return None

    def output(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def configure(self):
        # Warnings are off: whether a mutant is noticed is asked of the tests, not of -Werror. Undefined behaviour
        # traps, because CI runs the same tests under that sanitizer (`./dev test asan`).
        return self._call(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                           "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g0 -w -D_GLIBCXX_ASSERTIONS",
                           "-DPENSTOCK_SANITIZE=undefined", "-DCMAKE_CXX_COMPILER=g++"], COMPILE_SECONDS) == 0

    def compile(self):
        return self._call(["ninja", "-C", "build", "-j", "2", *self.tests], COMPILE_SECONDS) == 0

    def test(self, seconds):
        """None when the tests pass, else what they said."""
        for test in self.tests:
            code = self._call([str(self.build / test), "--gtest_brief=1", "--gtest_fail_fast"], seconds)
            if code is None:
                return f"no end within {seconds:.0f} s"
            if code != 0:
                named = re.search(r"\[  FAILED  \] ([\w./]+)", self.output())
                return named[1] if named else f"exit {code}"
        return None

    def try_mutant(self, mutant, seconds):
        """'invalid', 'survived', or what killed it."""
        path = self.tree / mutant.path
        text = path.read_text(encoding="utf-8")
        try:
            path.write_text(text[:mutant.offset] + mutant.new + text[mutant.offset + len(mutant.old):], encoding="utf-8")
            if not self.compile():
                return "invalid"
            return self.test(seconds) or "survived"
        finally:
            path.write_text(text, encoding="utf-8")


class Campaign:
    """Hands mutants to the work copies until `count` have been judged. Drawn minus invalid never passes count, so the
    set that is judged depends on the seed alone, not on which copy is faster."""

    def __init__(self, order, count):
        self.order = iter(order)
        self.count = count
        self.turn = threading.Condition()
        self.in_flight = 0
        self.exhausted = False
        self.judged = []  # (mutant, verdict)
        self.invalid = 0

    def take(self):
        with self.turn:
            while not self.exhausted and len(self.judged) < self.count:
                if len(self.judged) + self.in_flight < self.count:
                    mutant = next(self.order, None)
                    if mutant is None:
                        self.exhausted = True
                        break
                    self.in_flight += 1
                    return mutant
                self.turn.wait()
            self.turn.notify_all()
            return None

    def give(self, mutant, verdict):
        with self.turn:
            self.in_flight -= 1
            if verdict == "invalid":
                self.invalid += 1
            else:
                self.judged.append((mutant, verdict))
                said = "SURVIVED" if verdict == "survived" else f"killed by {verdict}"
                print(f"[{len(self.judged):3}/{self.count}] {said:50} {mutant.path}:{mutant.line} {mutant.old} -> {mutant.new}",
                      flush=True)
            self.turn.notify_all()

    def work(self, copy, seconds):
        while (mutant := self.take()) is not None:
            verdict = "no verdict"
            try:
                verdict = copy.try_mutant(mutant, seconds)
            finally:
                self.give(mutant, verdict)


def prepare(copies):
    """Builds every copy unchanged; the time-out for a mutant's tests follows from the tests' own time."""
    slowest = 0.0
    for copy in copies:
        if not copy.configure() or not copy.compile():
            print(copy.output()[-4000:])
            sys.exit("mutate: the tree does not build unchanged")
    for copy in copies:
        began = time.monotonic()
        failed = copy.test(600)
        slowest = max(slowest, time.monotonic() - began)
        if failed:
            print(copy.output()[-4000:])
            print(f"mutate: the tests do not pass unchanged: {failed}")
            sys.exit(2)
    return 10 + 6 * slowest


def report(campaign, known, seed):
    survivors = sorted((mutant for mutant, verdict in campaign.judged if verdict == "survived"), key=lambda m: (m.path, m.line))
    judged, killed = len(campaign.judged), len(campaign.judged) - len(survivors)
    unexplained = [m for m in survivors if (m.path, m.before, m.after) not in known]
    print(f"\nseed {seed}: {judged} mutants, {killed} killed, {len(survivors)} survived "
          f"({len(survivors) - len(unexplained)} of them shown to be equivalent), {campaign.invalid} did not compile")
    for mutant in survivors:
        reason = known.get((mutant.path, mutant.before, mutant.after))
        print(f"\n# line {mutant.line}\nfile: {mutant.path}\nline: {mutant.before}\nbecame: {mutant.after}\n"
              f"because: {reason or ''}")
    enough = judged > 0 and killed >= NEEDED_SHARE * judged
    return 0 if judged > 0 and (enough or not unexplained) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--dir", default="src/core", help=f"the room, a folder of src/ (default src/core); {LUA_ROOM} for the scripts")
    parser.add_argument("--jobs", type=int, default=2, help="work copies side by side (default 2)")
    parser.add_argument("--list", action="store_true", help="print what would be drawn and stop")
    arguments = parser.parse_args()
    folder = arguments.dir.rstrip("/")
    known = mutants.read_equivalent(ROOT / "tools" / "mutate_equivalent.txt")
    candidates = mutants.all_mutants(ROOT, folder)
    order = mutants.draw_order(candidates, random.Random(arguments.seed))
    print(f"mutate: seed {arguments.seed}, {len(candidates)} possible changes in {arguments.dir}", flush=True)
    if arguments.list:
        print("\n".join(mutant.describe() for mutant in order[:arguments.count]))
        return 0
    copies = [WorkCopy(number, folder) for number in range(max(1, arguments.jobs))]
    seconds = prepare(copies)
    print(f"mutate: the tests pass unchanged; a mutant's tests have {seconds:.0f} s", flush=True)
    campaign = Campaign(order, arguments.count)
    workers = [threading.Thread(target=campaign.work, args=(copy, seconds)) for copy in copies]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return report(campaign, known, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
