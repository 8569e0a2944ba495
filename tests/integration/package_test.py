#!/usr/bin/env python3
"""Installs libpenstock to an empty prefix and uses it as a stranger would: the example service is built against the
installed package by CMake and by pkg-config, run, and its output checked; the public headers compile alone; the
library shows nothing but its interface; the installed tree still works after it was moved.

Usage: package_test.py BUILD_DIR SOURCE_DIR"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD_DIR, SOURCE_DIR = (os.path.abspath(path) for path in sys.argv[1:3])
WARNINGS = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def find_up(root, name):
    for folder, _, files in os.walk(root):
        if name in files:
            return folder
    raise AssertionError(f"{name} is not installed under {root}")


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp(prefix="penstock-package-")
        first = os.path.join(cls.work, "first")
        run("cmake", "--install", BUILD_DIR, "--prefix", first, "--component", "penstock")
        cls.prefix = os.path.join(cls.work, "moved")
        os.rename(first, cls.prefix)  # an installed tree can be moved
        cls.library = os.path.join(find_up(cls.prefix, "libpenstock.so"), "libpenstock.so")
        cls.example = os.path.join(SOURCE_DIR, "examples", "embedded_service")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work, ignore_errors=True)

    def check_output(self, program):
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(self.library))
        output = run(program, os.path.join(self.example, "limits.yaml"), env=environment)
        lines = output.splitlines()
        self.assertRegex(lines[0], r"^penstock \d+\.\d+\.\d+$")
        self.assertEqual(lines[1], "acme: located with 413 bytes, 4999587 left this month")
        self.assertEqual(lines[4], "acme: located with 413 bytes, 4998348 left this month")
        for refused in lines[5:7]:
            wait = re.fullmatch(r"acme: denied, try again in (\d+) ms", refused)
            self.assertTrue(wait, refused)
            self.assertTrue(0 < int(wait[1]) <= 15000, refused)
        self.assertEqual(lines[7], "globex: located with 413 bytes, 4997935 left this month")
        self.assertEqual(lines[8], "5 of 7 calls went out")

    def test_example_by_cmake(self):
        build = os.path.join(self.work, "by-cmake")
        run("cmake", "-S", self.example, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_CXX_COMPILER=g++", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS[1:])}")
        run("cmake", "--build", build)
        self.check_output(os.path.join(build, "embedded_service"))

    def test_example_by_pkg_config(self):
        environment = dict(os.environ, PKG_CONFIG_PATH=find_up(self.prefix, "penstock.pc"))
        flags = run("pkg-config", "--cflags", "--libs", "penstock", env=environment).split()
        self.assertRegex(run("pkg-config", "--modversion", "penstock", env=environment), r"^\d+\.\d+\.\d+\n$")
        program = os.path.join(self.work, "by-pkg-config")
        run("g++", *WARNINGS, os.path.join(self.example, "main.cc"), "-o", program, *flags)
        self.check_output(program)

    def test_public_headers_compile_alone(self):
        include = os.path.join(self.prefix, "include")
        headers = sorted(os.listdir(os.path.join(include, "penstock")))
        self.assertIn("limiter.h", headers)
        compilers = [name for name in ("g++", "clang++-14", "clang++") if shutil.which(name)]
        for compiler in compilers[:2]:
            for header in headers:
                with self.subTest(compiler=compiler, header=header):
                    # Twice: it must also bear being included again.
                    text = f'#include <penstock/{header}>\n#include <penstock/{header}>\n'
                    run(compiler, *WARNINGS, "-fsyntax-only", "-I", include, "-x", "c++", "-", input=text)

    def test_public_headers_need_the_standard_library_alone(self):
        folder = os.path.join(self.prefix, "include", "penstock")
        for header in os.listdir(folder):
            with open(os.path.join(folder, header), encoding="utf-8") as file:
                for name in re.findall(r'#include ["<]([^">]+)[">]', file.read()):
                    self.assertTrue(name.startswith("penstock/") or re.fullmatch(r"[a-z_]+", name), f"{header}: {name}")

    def test_only_the_interface_is_shown(self):
        symbols = run("nm", "-D", "--defined-only", "-C", self.library).splitlines()
        names = [line.split(maxsplit=2)[2] for line in symbols]
        self.assertTrue(any(name.startswith("penstock::Limiter::Check(") for name in names))
        shown = ("penstock::Limiter::", "penstock::AdHocLimit::Parse", "penstock::Permit::", "penstock::Version")
        self.assertEqual([name for name in names if not name.startswith(shown) or "::State::" in name], [])

    def test_the_soname_carries_the_version_that_may_break(self):
        dynamic = run("readelf", "-d", self.library)
        self.assertRegex(dynamic, r"SONAME.*\[libpenstock\.so\.\d+\.\d+\]")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
