#!/usr/bin/env python3
"""Which places `./dev mutate` changes and which it leaves alone, and how its list of equivalents is read."""
import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutants


def changes(text):
    return {(m.old, m.new) for m in mutants.mutants_of_text("x.cc", text)}


class Places(unittest.TestCase):
    def test_operators_and_integers_of_a_body(self):
        found = changes("int F(int a, bool b) {\n  if (!b && a <= 10) return a + 1;\n  return std::min(a, -2);\n}\n")
        for change in [("!", ""), ("&&", "||"), ("<=", "<"), ("<=", ">"), ("10", "11"), ("10", "9"), ("+", "-"), ("1", "0"),
                       ("min", "max"), ("2", "3")]:
            self.assertIn(change, found)

    def test_an_operator_at_the_start_or_end_of_a_line(self):
        self.assertIn(("&&", "||"), changes("bool F() {\n  return a &&\n         b;\n}\n"))
        self.assertIn(("+", "-"), changes("int F() {\n  return a\n         + b;\n}\n"))

    def test_what_is_no_operator(self):
        self.assertEqual(changes("void F(Row&& a, Row* b) {\n  std::vector<Row> c(std::move(a));\n  b->Take(&c);\n}\n"), set())

    def test_comments_strings_includes_declarations_and_hints_stay(self):
        text = ("#include <a/b 1 + 2>\n#define N (1 + 2)\nint G(int a = 1);\nstruct S {\n  int a = 1;\n};\n"
                "static_assert(1 + 2 == 3);\n// 1 + 2\nconst char* F() {\n  static_assert(sizeof(int) == 4);\n"
                "  __builtin_prefetch(p, 0, 1);\n  /* 3 */ return \"1 + 2\";  // 1 < 2\n}\n")
        self.assertEqual(changes(text), set())

    def test_constants_change(self):
        self.assertEqual(changes("constexpr int kMost = 1'000;\n"), {("1'000", "1001"), ("1'000", "999")})

    def test_nought_never_becomes_negative(self):
        self.assertEqual(changes("int F() {\n  return 0u;\n}\n"), {("0u", "1u")})

    def test_the_changed_line_is_told_as_it_will_be(self):
        found = mutants.mutants_of_text("x.cc", "bool F() {\n  return a < b;\n}\n")
        self.assertEqual({(m.line, m.before, m.after) for m in found},
                         {(2, "return a < b;", "return a <= b;"), (2, "return a < b;", "return a >= b;")})

    def test_tests_and_headers_of_tests_are_not_product(self):
        with tempfile.TemporaryDirectory() as folder:
            room = Path(folder) / "src" / "core"
            room.mkdir(parents=True)
            (room / "a.cc").write_text('#include "core/a.h"\nint F() {\n  return 5;\n}\n', encoding="utf-8")
            (room / "a.h").write_text("inline int G() { return 6; }\n", encoding="utf-8")
            (room / "model.h").write_text("inline int H() { return 7; }\n", encoding="utf-8")
            (room / "a_test.cc").write_text('#include "core/model.h"\nint I() { return 8; }\n', encoding="utf-8")
            self.assertEqual({m.old for m in mutants.all_mutants(Path(folder), "src/core")}, {"5", "6"})


class Lua(unittest.TestCase):
    def changes(self, text):
        return {(m.old, m.new) for m in mutants.lua_mutants("x.lua", text)}

    def test_operators_words_and_rounding_change(self):
        found = self.changes("if a <= b and not c then return floor(x / 2) end\n")
        self.assertLessEqual({("<=", "<"), ("and", "or"), ("not ", ""), ("floor", "ceil"), ("/", "*"), ("2", "3")}, found)

    def test_statements_are_dropped_and_strings_and_comments_stay(self):
        found = self.changes("local a = 'x + 1'  -- b < 2\n  o.value = pack('<d', 1)\n")
        self.assertIn(("o.value = pack('<d', 1)", ""), found)
        self.assertEqual({old for old, _ in found}, {"o.value = pack('<d', 1)", "1"})


class Order(unittest.TestCase):
    def test_a_seed_gives_one_order_with_every_change_once(self):
        candidates = mutants.mutants_of_text("x.cc", "int F() {\n  return a < 10 && b < 20 ? 1 : 2;\n}\n")
        first = mutants.draw_order(candidates, random.Random(7))
        self.assertEqual(first, mutants.draw_order(candidates, random.Random(7)))
        self.assertEqual(sorted(map(str, first)), sorted(map(str, candidates)))


class Equivalents(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "list.txt"
            path.write_text(text, encoding="utf-8")
            return mutants.read_equivalent(path)

    def test_records(self):
        known = self.read("# head\n\nfile: a.cc\nline: x = a < b;\nbecame: x = a <= b;\nbecause: never equal: see: F\n")
        self.assertEqual(known, {("a.cc", "x = a < b;", "x = a <= b;"): "never equal: see: F"})

    def test_a_record_without_a_reason_is_refused(self):
        with self.assertRaises(ValueError):
            self.read("file: a.cc\nline: a\nbecame: b\nbecause:\n")
        with self.assertRaises(ValueError):
            self.read("file: a.cc\nline: a\n")

    def test_the_committed_list_can_be_read(self):
        mutants.read_equivalent(Path(__file__).resolve().parent / "mutate_equivalent.txt")


if __name__ == "__main__":
    unittest.main()
