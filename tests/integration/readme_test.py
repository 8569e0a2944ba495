#!/usr/bin/env python3
"""The README does not lie: every `console` block under a `<!-- test: readme … -->` mark is run word for word and must
print what the README shows.

The mark may name a policy (`<!-- test: readme policy=examples/policy.yaml -->`). Blocks of one policy run in reading
order against one `penstock serve`, on the ports that it takes without flags, which are those that the README shows.
Where these are taken on this machine the server gets free ones, and the commands' ports are rewritten. What the README
shows of `./dev fleet` stands under a mark of its own and is fleet_test.py's."""
import os
import re
import subprocess
import sys
import time

import harness

ROOT = harness.ROOT
HTTP, RESP = "127.0.0.1:8080", "127.0.0.1:6380"
PROGRAM = "build/release/penstock"


def blocks(text):
    """(policy or None, [(command, expected output)]) for every marked block."""
    marks = len(re.findall(r"<!-- test: readme", text))
    form = re.compile(r"^<!-- test: readme(?: policy=(\S+))? -->\n```console\n(.*?)^```$", re.M | re.S)
    found = []
    for match in form.finditer(text):
        commands = []
        for line in match.group(2).splitlines(keepends=True):
            if line.startswith("$ "):
                commands.append([line[2:].rstrip("\n"), ""])
            else:
                assert commands, f"output before any command: {line}"
                commands[-1][1] += line
        found.append((match.group(1), [tuple(command) for command in commands]))
    assert len(found) == marks, f"{marks} marks, but {len(found)} console blocks under one"
    return found


def run_as_a_person(line, server):
    """What a person sees: output goes to a terminal, where redis-cli prints another form than into a pipe. Commands of ours
    ask the server that they would ask by themselves, wherever it is."""
    leader, follower = os.openpty()
    process = subprocess.Popen(["bash", "-c", line], stdin=subprocess.DEVNULL, stdout=follower, stderr=follower,
                               cwd=ROOT, env=harness.environment({"PENSTOCK_URL": "http://{}:{}".format(*server.http)}))
    os.close(follower)
    output = b""
    try:
        while data := os.read(leader, 65_536):
            output += data
    except OSError:  # the terminal's last writer has gone
        pass
    finally:
        os.close(leader)
    code = process.wait(harness.PATIENCE_S)
    return output.decode().replace("\r\n", "\n") + (f"[exit {code}]\n" if code else "")


def of_this_build(line, server):
    """The command with the server's own ports in place of the README's, and with the program of this build."""
    (_, http), (_, resp) = server.http, server.resp
    line = line.replace(HTTP, f"127.0.0.1:{http}").replace("-p 6380", f"-p {resp}")
    return line.replace(PROGRAM, str(harness.program("penstock")))


def differs(expected, output):
    """A terminal shows the prompt on a new line whether or not the output ended one."""
    return expected.rstrip("\n") != output.rstrip("\n")


def lies(parts, server):
    """Runs the commands of blocks that share a server; what is not as shown."""
    for commands in parts:
        for line, expected in commands:
            output = run_as_a_person(of_this_build(line, server), server)
            print(f"$ {line}\n{output.rstrip()}", flush=True)
            if differs(expected, output):
                yield f"README.md: {line}\n  shows   {expected!r}\n  printed {output!r}"


def by_policy(found):
    groups = {}
    for policy, commands in found:
        groups.setdefault(policy, []).append(commands)
    return groups


def serve(policy):
    """On the ports that it takes by itself, else on free ones."""
    arguments = ["serve", *(["--policy", ROOT / policy] if policy else [])]
    try:
        return harness.Server("penstock", arguments)
    except AssertionError as error:
        if "Address already in use" not in str(error):
            raise
        print("the README's ports are taken here, others stand in", flush=True)
        return harness.Server("penstock", arguments + ["--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"])


def check(text):
    """Everything that the text claims and the server does not hold."""
    wrong = []
    for policy, parts in by_policy(blocks(text)).items():
        with serve(policy) as server:
            wrong += lies(parts, server)
    return wrong


def broken_links():
    """Links of the README and the pages of docs/ to files that are not there."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            if not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: links to {target}, which is not there"


def main():
    began = time.monotonic()
    text = (ROOT / "README.md").read_text()
    commands = [line for _, block in blocks(text) for line, _ in block]
    assert any(line.startswith("curl ") for line in commands), "the README shows no curl line"
    assert any(line.startswith("redis-cli ") for line in commands), "the README shows no redis-cli line"
    wrong = [*broken_links(), *check(text)]
    print("\n".join(wrong))
    if wrong:
        return 1
    # A checker that cannot fail proves nothing: a README that promises one more token must be found out each time.
    false = text.replace('"remaining":19,', '"remaining":20,').replace("3) (integer) 15", "3) (integer) 16")
    found_out = check(false)
    assert len(found_out) == 3, f"a README with three false answers passed: {found_out}"
    print(f"README.md: {len(commands)} commands print what it shows; {time.monotonic() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
