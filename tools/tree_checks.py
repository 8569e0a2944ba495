"""The checks of `./dev lint` that read the tree alone: lengths, registered tests, open ends, scripts, layers.

Each check is a function of the root that yields (relative path, line, message). tools/lint_test.py shows that each
fires on a tree made for it.
"""
import py_compile
import re
import subprocess
import tempfile
from pathlib import Path

import layers

# style.md asks for about 500 and 70; between that and these bounds a reader may still be better off with one piece.
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80
CODE_TOPS = ("include", "src", "apps", "tests", "fuzz", "bench", "examples")
SCRIPT_TOPS = ("tools", "tests", "bench", "examples", "deploy", "clients")
OPEN_END = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\)| ?#\d+)")
HEAVY_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]((?:boost|openssl|yaml-cpp|spdlog|fmt|CLI|re2|date|rapidcheck)\b[^>"]*)[>"]')
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", "node_modules", "seeds"}


def files(root, tops, suffixes):
    for top in tops:
        for path in sorted((root / top).rglob("*")):
            below = path.relative_to(root)
            if path.suffix in suffixes and path.is_file() and not SKIPPED_FOLDERS & set(below.parts):
                yield path


def code_files(root):
    return files(root, CODE_TOPS, {".h", ".cc"})


def scripts(root):
    """Shell and Python files, with those that have no suffix but a shebang."""
    found = [root / "dev", root / ".ci" / "run"]
    for top in SCRIPT_TOPS:
        found += (path for path in sorted((root / top).rglob("*")) if path.is_file())
    for path in found:
        if not path.is_file() or SKIPPED_FOLDERS & set(path.relative_to(root).parts):
            continue
        if path.suffix in (".py", ".sh"):
            yield path, path.suffix[1:]
        elif path.suffix == "":
            with path.open("rb") as opened:
                first = opened.readline(200)
            if first.startswith(b"#!") and (b"bash" in first or b"python" in first):
                yield path, "sh" if b"bash" in first else "py"


def file_length(root):
    paths = list(code_files(root)) + [path for path, _ in scripts(root)]
    for path in paths:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MAX_FILE_LINES:
            yield path.relative_to(root), lines, f"file has {lines} lines, at most {MAX_FILE_LINES}; split it by idea"


BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^ ()\\\t\n]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL)


def blanked(text):
    """The text with comments, strings and character literals replaced by spaces, line breaks kept."""
    return BLANKED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


NOT_A_FUNCTION = re.compile(r"^\s*(?:inline\s+)?(?:namespace|extern\b(?!.*\())|\b(?:class|struct|enum|union)\b[^()]*$|[^=!<>]=(?!=)[^()]*$")


def without_directives(text):
    """Blanked text whose preprocessor lines are blank too."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*", lambda match: re.sub(r"[^\n]", " ", match[0]), blanked(text), flags=re.M | re.S)


def function_bodies(code):
    """(offset of the opening brace, offset after the closing one, head) of every function body in blanked code. A
    brace that opens outside a function and follows a parameter list opens a body; braces in it are only counted."""
    depth, head_start, start, head = 0, 0, 0, ""
    for match in re.finditer(r"[{};]", code):
        mark = match[0]
        if depth:
            depth += (mark == "{") - (mark == "}")
            if depth == 0:
                yield start, match.end(), " ".join(head.split())
                head_start = match.end()
            continue
        if mark == "{":
            head = code[head_start:match.start()]
            if ")" in head and not NOT_A_FUNCTION.search(head):
                depth, start = 1, match.start()
        head_start = match.end()


def function_spans(text):
    """(first line, last line, head) of every function body."""
    code = without_directives(text)
    for start, end, head in function_bodies(code):
        yield code.count("\n", 0, start) + 1, code.count("\n", 0, end) + 1, head


def function_length(root):
    for path in code_files(root):
        for start, end, head in function_spans(path.read_text(encoding="utf-8")):
            if end - start + 1 > MAX_FUNCTION_LINES:
                name = re.search(r"([\w:~]+)\s*\(", head)
                yield (path.relative_to(root), start,
                       f"{name[1] if name else 'function'} has {end - start + 1} lines, at most {MAX_FUNCTION_LINES}")


def registered_tests(root):
    """Every x_test.cc is named in the CMakeLists.txt beside it or above it, and so is every x_test.py, there by x."""
    for path in [*code_files(root), *files(root, SCRIPT_TOPS, {".py"})]:
        if not path.stem.endswith("_test"):
            continue
        for folder in path.parents:
            build_file = folder / "CMakeLists.txt"
            named = path.relative_to(folder).as_posix()
            if path.suffix == ".py":
                named = path.stem.removesuffix("_test")
            if build_file.exists() and re.search(rf"(?<![\w./-]){re.escape(named)}(?![\w.-])",
                                                 build_file.read_text(encoding="utf-8")):
                break
            if folder == root:
                yield path.relative_to(root), 1, "this test is in no CMakeLists.txt, so it never runs"
                break


def heavy_headers(root):
    """A header that takes seconds to compile stands in a .cc behind a small header of our own."""
    for path in files(root, ("src", "apps"), {".h"}):
        below = path.relative_to(root)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = HEAVY_INCLUDE.match(line)
            if match:
                yield below, number, f"<{match[1]}> is heavy: include it in a .cc only"


def open_ends(root):
    paths = list(code_files(root)) + [path for path, _ in scripts(root)] + [*root.glob("cmake/*"), *root.glob("**/CMakeLists.txt")]
    own = {"tree_checks.py", "lint_test.py"}  # they name the words
    for path in paths:
        if path.name in own or SKIPPED_FOLDERS & set(path.relative_to(root).parts):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = OPEN_END.search(line)
            if match:
                yield path.relative_to(root), number, f"{match[1]} without an issue: write {match[1]}(#N) or do it"


def script_syntax(root):
    with tempfile.TemporaryDirectory() as scratch:
        for path, kind in scripts(root):
            if kind == "sh":
                done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, check=False)
                if done.returncode:
                    yield path.relative_to(root), 1, done.stderr.strip()
            else:
                try:
                    py_compile.compile(str(path), cfile=f"{scratch}/checked.pyc", doraise=True)
                except py_compile.PyCompileError as error:
                    yield path.relative_to(root), 1, str(error).strip()


CHECKS = {
    "layers": layers.check,
    "file-length": file_length,
    "function-length": function_length,
    "registered-tests": registered_tests,
    "heavy-headers": heavy_headers,
    "open-ends": open_ends,
    "scripts": script_syntax,
}


def run(root, names=None):
    """Findings as printable lines."""
    for name, check in CHECKS.items():
        if names is None or name in names:
            for path, line, message in check(Path(root)):
                yield f"{path}:{line}: [{name}] {message}"
