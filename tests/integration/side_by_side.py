"""Runs the tests of a script side by side, for tests that wait more than they work. What one prints while it fails may
stand between the lines of another; the reports at the end are whole.

    if __name__ == "__main__":
        side_by_side.main(4)
"""
import concurrent.futures
import sys
import time
import unittest


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def run_one(test):
    began = time.monotonic()
    result = unittest.TestResult()
    test.run(result)
    word = "ok"
    if result.skipped:
        word = f"skipped: {result.skipped[0][1]}"
    if not result.wasSuccessful():
        word = "FAIL"
    print(f"{test.id().removeprefix('__main__.')} ... {word} ({time.monotonic() - began:.1f} s)", flush=True)
    return result


def main(workers):
    """`workers` tests at once; those that the command line names (Class or Class.test), or all. Ends the script."""
    loader = unittest.TestLoader()
    module = sys.modules["__main__"]
    suite = loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:] else loader.loadTestsFromModule(module)
    tests = list(tests_of(suite))
    # The threads live until all is over: what a test starts ends with its thread.
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(run_one, tests))
    for result in results:
        for test, report in result.errors + result.failures:
            print(f"{'=' * 100}\n{test.id().removeprefix('__main__.')}\n{report}", flush=True)
    sys.exit(not (tests and all(result.wasSuccessful() for result in results)))
