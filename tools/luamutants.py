#!/usr/bin/env python3
"""Mutation testing of the Lua scripts: tools/luamutants.py [MOST]. It negates comparisons, moves bounds by one and drops
statements, an evenly spaced sample of at most MOST (60), runs the tests of internal/redis/script for each, and prints a
row as tools/mutants.sh does, then each survivor. Nothing is written into the tree."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

PACKAGE = "internal/redis/script"
NEGATED = {"==": "~=", "~=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MOVED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
COMPARISON = re.compile(r" (==|~=|<=|>=|<|>) ")
STATEMENT = re.compile(r"(?!(local|return|if|elseif|else|end|for|while|function)\b)[a-z][\w.]*(, [\w.]+)* ?[=(\[]")


def mutants(file):
    """Yields a line's number, what is done to it, and the whole text of the script then."""
    lines = file.read_text().splitlines(keepends=True)
    for n, line in enumerate(lines):
        code = line.split("--")[0]
        changed = []
        for found in COMPARISON.finditer(code):
            operator = found.group(1)
            for what, other in (("NEGATED", NEGATED), ("BOUND", MOVED)):
                if operator in other:
                    start, end = found.span(1)
                    changed.append((f"{what} {operator}", line[:start] + other[operator] + line[end:]))
        whole = code.count("(") == code.count(")") and not code.rstrip().endswith(("=", "..", ",", "+"))
        if STATEMENT.match(code.strip()) and whole and not continues(lines, n):
            changed.append(("DROPPED", "\n"))
        for what, text in changed:
            yield n + 1, what, "".join(lines[:n] + [text] + lines[n + 1:])


def continues(lines, n):
    """Reports whether line n is a part of a longer expression."""
    following = lines[n + 1].strip() if n + 1 < len(lines) else ""
    before = lines[n - 1].strip() if n else ""
    return following.startswith(("..", "and ", "or ", "+ ", "- ")) or before.endswith(("(", ",", "=", ".."))


def passes(overlay):
    """Reports whether the tests pass with the files of an overlay, or the tree's."""
    command = ["go", "test", "-short", "-count=1", "-vet=off", "-failfast", "-timeout", "120s"]
    if overlay:
        command.append(f"-overlay={overlay}")
    command += [f"./{PACKAGE}", "-rapid.shrinktime=1ms", "-rapid.nofailfile"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    every = [(file, *mutant) for file in sorted((root / PACKAGE / "lua").glob("*.lua")) for mutant in mutants(file)]
    step = max(len(every) / most, 1)
    sample = [every[int(i * step)] for i in range(min(most, len(every)))]
    if not passes(None):
        sys.exit(f"the tests of {PACKAGE} fail without a mutant")
    lived = []
    with tempfile.TemporaryDirectory() as folder:
        changed, overlay = pathlib.Path(folder, "mutant.lua"), pathlib.Path(folder, "overlay.json")
        for file, line, what, text in sample:
            changed.write_text(text)
            overlay.write_text(json.dumps({"Replace": {str(file): str(changed)}}))
            if passes(overlay):
                lived.append(f"    {file.relative_to(root)}:{line} {what} LIVED")
    killed = len(sample) - len(lived)
    print(f"| `{PACKAGE}/lua` | {killed} | {len(lived)} | 0 | {100 * killed / len(sample):.0f} % |", *lived, sep="\n")


if __name__ == "__main__":
    main()
