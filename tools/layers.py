#!/usr/bin/env python3
"""Include direction: the rooms of src/ may include what stands to their left, never the other way.

Runs as part of every build (target check_layers) and of `./dev lint`. The table below is design: a new edge is
a decision that belongs into docs/decisions.md.
"""
import argparse
import pathlib
import re
import sys

# room -> the rooms it may include directly; what those may include is allowed too.
MAY_INCLUDE = {
    "include": [],
    "base": ["include"],
    "core": ["base"],
    "resp": ["base"],
    "http": ["base"],
    "grpc": ["base"],
    "net": ["base"],
    "engine": ["core", "resp", "net"],
    "engine/memory": ["core", "resp"],
    "policy": ["core"],
    "service": ["policy", "engine"],
    "embed": ["service"],
    "api": ["service", "resp", "http", "grpc"],
    "config": ["policy"],
    "server": ["api", "config", "net"],
    "apps": ["server"],
}
SOURCE_SUFFIXES = {".h", ".cc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# The installed headers stand on the standard library alone; this one is for users who have Asio.
OPTIONAL_PUBLIC = {"include/penstock/asio.h"}


def reach(room):
    """Every room that `room` may include, itself among them."""
    seen, todo = set(), [room]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += MAY_INCLUDE[current]
    if room.startswith("engine"):
        seen.add("engine")  # the contract beside the engines
    return seen


REACH = {room: reach(room) for room in MAY_INCLUDE}


def room_of(relative):
    """The room of a file given by its path below the root, or None where no rule holds (tests/, bench/ ...)."""
    parts = relative.parts
    if parts[0] in ("include", "apps"):
        return parts[0]
    if parts[0] != "src" or len(parts) < 3:
        return None
    if parts[1] == "engine" and parts[2] == "memory":
        return "engine/memory"
    return parts[1]


def room_of_include(name):
    """The room of an included name as it is written, or None where it is not one of ours."""
    parts = name.split("/")
    if parts[0] == "penstock":
        return "include"
    return parts[0] if parts[0] in MAY_INCLUDE and len(parts) > 1 else None


def check_file(root, path):
    relative = path.relative_to(root)
    room = room_of(relative)
    if room is None:
        return
    if room not in MAY_INCLUDE:
        yield relative, 1, f"src/{room} is not in the table of rooms (tools/layers.py)"
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, name = match[1] == '"', match[2]
        target = room_of_include(name)
        if ".." in name.split("/"):
            yield relative, number, f'"{name}": includes are written from src/, without ".."'
        elif target is None and quoted and not (path.parent / name).exists():
            yield relative, number, f'"{name}" is in no known room'
        elif target is not None and target not in REACH[room]:
            allowed = ", ".join(sorted(REACH[room] - {room})) or "nothing"
            yield relative, number, f'"{name}": {room} may not include {target} (it may include: {allowed})'
        elif room == "include" and target is None and re.search(r"[/.]", name):
            if relative.as_posix() not in OPTIONAL_PUBLIC:
                yield relative, number, f"<{name}>: installed headers include the standard library alone"


def check(root):
    """Yields (relative path, line, message) for every breach below root."""
    for top in ("include", "src", "apps"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                yield from check_file(root, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    breaches = list(check(parser.parse_args().root))
    for path, line, message in breaches:
        print(f"{path}:{line}: include direction: {message}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
