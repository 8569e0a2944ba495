"""Finds what `./dev mutate` may change: operators and integers in the function bodies and constants of a room.

Works on the text, and leans on the layout that clang-format gives: a binary operator has a space on either side, a
template's angle bracket, a pointer's star and a reference's && have not.
"""
import re
from dataclasses import dataclass
from pathlib import Path

import tree_checks

RELATIONAL = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": ("-",), "-": ("+",), "*": ("+", "/"), "/": ("*",), "%": ("/",)}
ASSIGNING = {"+=": ("-=", "="), "-=": ("+=", "="), "*=": ("+=",), "/=": ("*=",)}
LOGICAL = {"&&": ("||",), "||": ("&&",)}
SPACED = {**RELATIONAL, **ARITHMETIC, **ASSIGNING, **LOGICAL}

SPACED_OPERATOR = re.compile(r"(?<=[\w)\]}] )(?:<=|>=|==|!=|&&|\|\||[-+*/]=|[-+*/%<>])(?=[ \n])")
OPERATOR_AFTER_BREAK = re.compile(r"(?<=\n)( *)(&&|\|\||==|!=|<=|>=|[-+*/%<>])(?= )")
INTEGER = re.compile(r"(?<![\w.'])(\d[\d']*)([uUlL]*)(?![\w.'])")
MIN_MAX = re.compile(r"\bstd::(min|max)(?=[(<])")
NEGATION = re.compile(r"!(?=[\w(:])")
STEP = re.compile(r"(\+\+|--)(?=\w)|(?<=\w)(\+\+|--)")
TRUTH = re.compile(r"\b(true|false)\b")
CONSTANT = re.compile(r"\bconstexpr\b[^;{}()=]*=([^;]*);")
# Hints to the compiler or the processor: changing one changes no answer, so no test could notice.
HINT = re.compile(r"static_assert|__builtin_(?:prefetch|expect)|\btemplate <|\breserve\(|\balignas\(")


@dataclass(frozen=True)
class Mutant:
    path: str  # below the root
    offset: int
    old: str
    new: str
    line: int
    before: str  # the line as it is, without its indentation
    after: str

    def describe(self):
        return f"{self.path}:{self.line}: {self.old} -> {self.new}: {self.after}"


def replacements(code, begin, end):
    """(offset, old, new) inside one region of blanked code."""
    region = code[begin:end]
    for match in SPACED_OPERATOR.finditer(region):
        for new in SPACED[match[0]]:
            yield begin + match.start(), match[0], new
    for match in OPERATOR_AFTER_BREAK.finditer(region):
        for new in SPACED[match[2]]:
            yield begin + match.start(2), match[2], new
    for match in INTEGER.finditer(region):
        value = int(match[1].replace("'", ""))
        for new in {value + 1, max(value - 1, 0)} - {value}:
            yield begin + match.start(), match[0], f"{new}{match[2]}"
    for match in MIN_MAX.finditer(region):
        yield begin + match.start(1), match[1], {"min": "max", "max": "min"}[match[1]]
    for match in NEGATION.finditer(region):
        yield begin + match.start(), "!", ""
    for match in STEP.finditer(region):
        yield begin + match.start(), match[0], {"++": "--", "--": "++"}[match[0]]
    for match in TRUTH.finditer(region):
        yield begin + match.start(), match[0], {"true": "false", "false": "true"}[match[0]]


def mutants_of_text(path, text):
    code = tree_checks.without_directives(text)
    regions = [(start, end) for start, end, _ in tree_checks.function_bodies(code)]
    for match in CONSTANT.finditer(code):
        if not any(start <= match.start() < end for start, end in regions):
            regions.append((match.start(1), match.end(1)))
    found = set()
    for begin, end in regions:
        found.update(replacements(code, begin, end))
    result = []
    for offset, old, new in sorted(found):
        line_begin = text.rfind("\n", 0, offset) + 1
        line_end = text.find("\n", offset)
        before = text[line_begin:line_end]
        statement_begin = max(code.rfind(mark, 0, offset) for mark in ";{}")
        if HINT.search(code[statement_begin + 1:offset]):
            continue
        after = text[line_begin:offset] + new + text[offset + len(old):line_end]
        result.append(Mutant(path, offset, old, new, text.count("\n", 0, offset) + 1, before.strip(), after.strip()))
    return result


# --- Lua: the scripts of the Redis engine ------------------------------------------------------------------

LUA_NO_DECISION = {"fleet"}  # tested elsewhere
LUA_BLANKED = re.compile(r"--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
LUA_SPACED = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("~=",), "~=": ("==",),
              "+": ("-",), "-": ("+",), "*": ("+", "/"), "/": ("*",), "%": ("/",), "and": ("or",), "or": ("and",)}
LUA_OPERATOR = re.compile(r"(?<=[\w)\]}] )(?:<=|>=|==|~=|and|or|[-+*/%<>])(?= )")
LUA_ROUNDING = re.compile(r"\b(?:floor|ceil)(?=\()|(?<=\bmath\.)(?:min|max)(?=\()")
LUA_NEGATION = re.compile(r"\bnot (?=[\w(])")
LUA_STATEMENT = re.compile(r"^ *(?!local\b|function\b|return\b|if\b|for\b|while\b|end\b|else)([A-Za-z_][\w.\[\], #+]*(?: = [^\n]*[^\n,(]|\([^\n]*\)))$", re.M)


def lua_replacements(code):
    for match in LUA_OPERATOR.finditer(code):
        for new in LUA_SPACED[match[0]]:
            yield match.start(), match[0], new
    for match in INTEGER.finditer(code):
        value = int(match[1])
        for new in {value + 1, max(value - 1, 0)} - {value}:
            yield match.start(), match[0], str(new)
    for match in LUA_ROUNDING.finditer(code):
        yield match.start(), match[0], {"floor": "ceil", "ceil": "floor", "min": "max", "max": "min"}[match[0]]
    for match in LUA_NEGATION.finditer(code):
        yield match.start(), match[0], ""
    for match in TRUTH.finditer(code):
        yield match.start(), match[0], {"true": "false", "false": "true"}[match[0]]
    for match in LUA_STATEMENT.finditer(code):
        yield match.start(1), match[1], ""  # dropped


def lua_mutants(path, text):
    code = LUA_BLANKED.sub(lambda match: " " * len(match[0]), text)
    result = []
    for offset, old, new in sorted(set(lua_replacements(code))):
        old = text[offset:offset + len(old)]  # a dropped statement has its strings again
        line_begin = text.rfind("\n", 0, offset) + 1
        line_end = text.find("\n", offset + len(old))
        before = text[line_begin:line_end]
        after = text[line_begin:offset] + new + text[offset + len(old):line_end]
        result.append(Mutant(path, offset, old, new, text.count("\n", 0, offset) + 1, before.strip(), after.strip()))
    return result


def product_files(root, folder):
    """The sources of the room that are part of the product: its .cc files that are no tests nor in a folder testing/,
    and every header of it that some such file of the tree includes (a header that only tests include is not looked
    at)."""
    include = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
    todo = [path for path in (root / "src").rglob("*.cc")
            if not path.name.endswith("_test.cc") and "testing" not in path.relative_to(root).parts]
    seen = set()
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        todo += [root / "src" / name for name in include.findall(path.read_text(encoding="utf-8"))]
    return sorted(path for path in seen if (root / folder) in path.parents)


def all_mutants(root, folder):
    result = []
    for path in sorted((Path(root) / folder).glob("*.lua")):
        if path.stem in LUA_NO_DECISION:
            continue
        result += lua_mutants(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    for path in product_files(Path(root), folder):
        result += mutants_of_text(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    return result


def draw_order(candidates, random):
    """Every candidate once; places are drawn first and then one change of each, so that a place with many possible
    changes comes no sooner than one with few."""
    places = {}
    for mutant in candidates:
        places.setdefault((mutant.path, mutant.offset), []).append(mutant)
    for group in places.values():
        random.shuffle(group)
    order = []
    while places:
        keys = list(places)
        random.shuffle(keys)
        for key in keys:
            order.append(places[key].pop())
            if not places[key]:
                del places[key]
    return order


def read_equivalent(path):
    """Records of `file:`, `line:`, `became:` and `because:` lines, parted by empty ones -> {(file, line, became): why}."""
    known, record = {}, {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines + [""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            name, colon, value = line.partition(":")
            if name not in ("file", "line", "became", "because") or not colon or name in record:
                raise ValueError(f"{path}:{number}: a record has one each of file, line, became, because")
            record[name] = value.strip()
        elif record:
            if len(record) != 4 or not record["because"]:
                raise ValueError(f"{path}:{number}: the record above is not complete")
            known[record["file"], record["line"], record["became"]] = record["because"]
            record = {}
    return known
