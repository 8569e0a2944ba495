#!/usr/bin/env python3
"""Shows that each rule of the lint fires, and is silent on a clean tree: a small tree is made for each case."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import lint
import tree_checks

CLEAN = {
    "include/penstock/outcome.h": "#pragma once\n#include <cstdint>\n",
    "src/base/time.h": "#pragma once\n#include <cstdint>\n#include \"penstock/outcome.h\"\n",
    "src/core/bucket.h": "#pragma once\n#include \"base/time.h\"\n",
    "src/core/bucket.cc": "#include \"core/bucket.h\"\n#include <algorithm>\nint Answer() { return 42; }\n",
    "src/core/bucket_test.cc": "#include \"core/bucket.h\"\nint Other() { return 1; }\n",
    "src/core/CMakeLists.txt": "penstock_room(core SOURCES bucket.cc TESTS bucket_test.cc DEPS base)\n",
    "src/engine/engine.h": "#include \"net/socket.h\"\n#include \"core/bucket.h\"\n",
    "src/net/socket.h": "#include \"base/time.h\"\n",
    "src/api/check.cc": "#include \"http/head.h\"\n#include \"policy/policy.h\"\n",
    "src/http/head.h": "#include \"base/time.h\"\n",
    "src/policy/policy.h": "#include \"core/bucket.h\"\n",
    "dev": "#!/usr/bin/env bash\necho fine\n",
    "tools/fine.py": "print('fine')\n",
}


class TreeChecks(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="penstock-lint-"))
        self.addCleanup(shutil.rmtree, self.root)
        for name, text in CLEAN.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def findings(self, *checks):
        return list(tree_checks.run(self.root, set(checks) or None))

    def expect(self, check, place, *words):
        """Exactly one finding in the whole tree: of this check, at this place."""
        found = self.findings()
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(place), found[0])
        for word in (f"[{check}]", *words):
            self.assertIn(word, found[0])

    def test_a_clean_tree_has_no_finding(self):
        self.assertEqual(self.findings(), [])

    def test_an_upward_include(self):
        self.write("src/core/bucket.h", "#pragma once\n\n#include \"policy/policy.h\"\n")
        self.expect("layers", "src/core/bucket.h:3:", "core may not include policy")

    def test_rooms_side_by_side_do_not_include_each_other(self):
        self.write("src/http/head.h", "#include \"resp/frame.h\"\n")
        self.expect("layers", "src/http/head.h:1:", "http may not include resp")

    def test_the_memory_engine_has_no_network(self):
        self.write("src/engine/memory/table.cc", "#include \"net/socket.h\"\n#include \"engine/engine.h\"\n")
        self.expect("layers", "src/engine/memory/table.cc:1:", "engine/memory may not include net")

    def test_an_unknown_room(self):
        self.write("src/extra/thing.h", "#pragma once\n")
        self.expect("layers", "src/extra/thing.h:1:", "table of rooms")

    def test_an_include_with_dots(self):
        self.write("src/core/bucket.cc", "#include \"../base/time.h\"\n")
        self.expect("layers", "src/core/bucket.cc:1:", "without \"..\"")

    def test_installed_headers_stand_on_the_standard_library(self):
        self.write("include/penstock/outcome.h", "#include <boost/json.hpp>\n")
        self.expect("layers", "include/penstock/outcome.h:1:", "standard library alone")
        self.write("include/penstock/outcome.h", "#include \"base/time.h\"\n")
        self.expect("layers", "include/penstock/outcome.h:1:", "include may not include base")

    def test_the_layer_check_of_the_build_fails_on_a_breach(self):
        command = [sys.executable, HERE / "layers.py", "--root", self.root]
        self.assertEqual(subprocess.run(command, check=False).returncode, 0)
        self.write("src/base/time.h", "#include \"core/bucket.h\"\n")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/base/time.h:1:", done.stdout)

    def test_a_700_line_file(self):
        self.write("src/core/bucket.cc", "// a line\n" * 700)
        self.expect("file-length", "src/core/bucket.cc:700:", "700 lines")

    def test_a_700_line_script(self):
        self.write("tools/fine.py", "print(1)\n" * 700)
        self.expect("file-length", "tools/fine.py:700:")

    def test_a_long_function(self):
        body = "  Step();\n" * 90
        self.write("src/core/bucket.cc", "namespace penstock {\n\nint Walk(int a) {\n" + body + "}\n\n}  // namespace penstock\n")
        self.expect("function-length", "src/core/bucket.cc:3:", "Walk has 92 lines")

    def test_a_long_method_and_a_long_test(self):
        body = "    Step(\"}\");  // {\n" * 90
        self.write("src/core/bucket.h", "class Walker : public Base {\n public:\n  Walker() : a_{1}, b_(2) {\n" + body + "  }\n  int a_ = 3;\n};\n")
        self.expect("function-length", "src/core/bucket.h:3:", "92 lines")
        self.write("src/core/bucket.h", "")
        self.write("src/core/bucket_test.cc", "TEST(Walker, Walks) {\n" + body + "}\n")
        self.expect("function-length", "src/core/bucket_test.cc:1:", "92 lines")

    def test_long_tables_and_classes_are_no_functions(self):
        table = "constexpr Row kRows[] = {\n" + "    {Name(\"a\"), 1},\n" * 90 + "};\n"
        many = "struct Options {\n" + "  int Get() const { return 1; }\n" * 90 + "};\n"
        self.write("src/core/bucket.h", "namespace penstock {\n" + table + many + "enum class Kind : int {\n" + "  // one\n" * 90 + "};\n}\n")
        self.assertEqual(self.findings(), [])

    def test_an_unregistered_test(self):
        self.write("src/core/lonely_test.cc", "int Other() { return 1; }\n")
        self.expect("registered-tests", "src/core/lonely_test.cc:1:", "never runs")

    def test_an_unregistered_script_test(self):
        self.write("tests/integration/replay_test.py", "print('fine')\n")
        self.expect("registered-tests", "tests/integration/replay_test.py:1:")
        self.write("tests/integration/CMakeLists.txt", "penstock_integration(replay LABELS integration-heavy)\n")
        self.assertEqual(self.findings(), [])

    def test_a_test_registered_under_a_longer_name_only(self):
        self.write("src/core/ucket_test.cc", "int Other() { return 1; }\n")
        self.expect("registered-tests", "src/core/ucket_test.cc:1:")

    def test_a_heavy_header_in_a_header(self):
        self.write("src/core/bucket.h", "#pragma once\n#include <boost/json.hpp>\n")
        self.expect("heavy-headers", "src/core/bucket.h:2:", "boost/json.hpp")
        self.write("src/core/bucket.h", "#pragma once\n")
        self.write("src/core/bucket.cc", "#include <boost/json.hpp>\n")
        self.assertEqual(self.findings(), [])

    def test_an_open_end_needs_an_issue(self):
        self.write("src/core/bucket.cc", "// TODO: later\n")
        self.expect("open-ends", "src/core/bucket.cc:1:", "TODO without an issue")
        self.write("src/core/bucket.cc", "// TODO(#12): later\n// FIXME #13 too\n")
        self.assertEqual(self.findings(), [])

    def test_scripts_must_parse(self):
        self.write("dev", "#!/usr/bin/env bash\nif true; then\n")
        self.expect("scripts", "dev:1:")
        self.write("dev", CLEAN["dev"])
        self.write("tools/fine.py", "def broken(:\n")
        self.expect("scripts", "tools/fine.py:1:")


@unittest.skipUnless(shutil.which("clang-format-14"), "clang-format-14 is not installed")
class Format(unittest.TestCase):
    def test_a_badly_laid_out_file(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "src").mkdir()
            (root / ".clang-format").write_text("BasedOnStyle: Google\n", encoding="utf-8")
            (root / "src" / "a.cc").write_text("int Good() { return 1; }\n", encoding="utf-8")
            self.assertEqual(lint.format_findings(root), [])
            (root / "src" / "a.cc").write_text("int   Bad( ){return 1 ;}\n", encoding="utf-8")
            found = lint.format_findings(root)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith("src/a.cc:"), found)


if __name__ == "__main__":
    unittest.main()
