#!/usr/bin/env python3
"""Runs every fuzz target of a libFuzzer build for some seconds, starting from the committed seeds.

What a run finds stays in BUILD/fuzz-findings/; what it learned in BUILD/fuzz-corpus/TARGET/, so that the next
`./dev fuzz` goes on from there. The seeds themselves are never written to.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ONE_INPUT_SECONDS = 10
MEMORY_MB = 2048
LONGEST_INPUT = 16 * 1024


def run_target(binary, build, seconds):
    name = binary.name.removeprefix("fuzz_")
    corpus = build / "fuzz-corpus" / name
    findings = build / "fuzz-findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [binary, f"-max_total_time={seconds}", f"-timeout={ONE_INPUT_SECONDS}", f"-max_len={LONGEST_INPUT}",
               f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1"]
    if os.environ.get("PENSTOCK_SEED"):
        command.append(f"-seed={int(os.environ['PENSTOCK_SEED']) % 2**32}")
    command.append(corpus)
    seeds = ROOT / "fuzz" / "seeds" / name
    if seeds.is_dir():
        command.append(seeds)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=seconds + 120, check=False)
    return name, done.returncode, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    build = (ROOT / arguments.build).resolve()
    list_file = build / "fuzz" / "targets.txt"
    names = list_file.read_text(encoding="utf-8").split() if list_file.exists() else []
    if not names:
        print("no fuzz target in this build")
        return 0
    failed = []
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        runs = [pool.submit(run_target, build / f"fuzz_{name}", build, arguments.seconds) for name in names]
        for run in concurrent.futures.as_completed(runs):
            name, code, output = run.result()
            executed = [line.split()[-1] for line in output.splitlines() if "number_of_executed_units" in line]
            print(f"fuzz {name}: {'clean' if code == 0 else f'FAILED, exit {code}'}, "
                  f"{executed[0] if executed else '?'} inputs in {arguments.seconds} s", flush=True)
            if code != 0:
                failed.append(name)
                print(output[-8000:])
    print(f"{len(names) - len(failed)} fuzz targets clean, {len(failed)} failed"
          + (f": {', '.join(failed)} (inputs in {build / 'fuzz-findings'})" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
