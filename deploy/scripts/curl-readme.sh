#!/usr/bin/env bash
# Replays the curl transcripts of the documentation against a running suite and compares what comes back.
#
#   deploy/scripts/curl-readme.sh HOST:PORT    the gateway; the pages write 127.0.0.1:7400
#
# Taken are the blocks marked console of docs/curl.md, and those of README.md's section "Call it with curl". A line that begins
# with "curl" or "$ curl" is a command; the lines below it, up to the next command or an empty line, are its answer. Answers
# are compared by shape: each key that the page shows must be there with a value of the same kind, texts and numbers may
# differ; "…" as a value stands for anything, as a line for any further lines. A command without an answer must succeed.
set -euo pipefail
cd "$(dirname "$0")/../.."
(($# == 1)) || { echo "usage: $0 HOST:PORT" >&2; exit 2; }

exec python3 - "$1" <<'PYTHON'
import json
import re
import subprocess
import sys

PAGES = [("docs/curl.md", None), ("README.md", "Call it with curl")]
WRITTEN = "127.0.0.1:7400"


def blocks(path, section):
    """The lines of the blocks marked console, with the number of each first line."""
    inside, wanted, start, lines = None, section is None, 0, []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        heading = re.match(r"#+ +(.*)", line) if inside is None else None
        if heading and section is not None:
            wanted = heading.group(1).strip() == section
        if line.startswith("```"):
            if inside == "console" and wanted:
                yield start, lines
            inside, start, lines = (line[3:].strip() if inside is None else None), number + 1, []
        elif inside is not None:
            lines.append(line)


def commands(start, lines):
    """Pairs of a command and its answer, with the line of the command."""
    command, answer, at = None, [], 0
    for offset, line in enumerate(lines):
        if command is not None and command.endswith("\\"):
            command = command[:-1] + " " + line.strip()
        elif line.removeprefix("$ ").startswith("curl "):
            if command:
                yield at, command, answer
            command, answer, at = line.removeprefix("$ "), [], start + offset
        elif line.startswith("$ ") or not line.strip():
            if command:
                yield at, command, answer
            command, answer = None, []
        elif command:
            answer.append(line)
    if command:
        yield at, command, answer


def differs(want, got, where="answer"):
    """What of the shape is not there, or None."""
    if want == "…":
        return None
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return f"{where} is no object"
        for key, value in want.items():
            if key == "…":
                continue
            if key not in got:
                return f"{where} has no {key!r}"
            found = differs(value, got[key], f"{where}.{key}")
            if found:
                return found
        return None
    if isinstance(want, list):
        if not isinstance(got, list):
            return f"{where} is no list"
        want = [item for item in want if item != "…"]
        if len(got) < len(want):
            return f"{where} has {len(got)} items, the page shows {len(want)}"
        for i, item in enumerate(want):
            if not any(differs(item, other) is None for other in got):
                return f"{where}[{i}] is like no item of the answer"
        return None
    if isinstance(want, bool) or want is None or isinstance(want, (int, float)):
        kinds = {bool: "true or false", type(None): "null"}.get(type(want), "a number")
        same = type(want) is type(got) or not isinstance(want, bool) and isinstance(got, (int, float)) and not isinstance(got, bool)
        return None if same else f"{where} is not {kinds}"
    return None if isinstance(got, str) else f"{where} is no text"


def parse(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


def compare(answer, output):
    """Each line of the page must be like one of the answer, in order."""
    rest = [line for line in output.split("\n") if line.strip()]
    for line in answer:
        if line.strip() == "…":
            continue
        want, problem = parse(line), "nothing more came"
        while rest:
            got = rest.pop(0)
            problem = differs(want, parse(got)) if want is not None else (None if got == line else f"{got!r}")
            if problem is None:
                break
        if problem is not None:
            return f"{line!r}: {problem}"
    return None


failed = total = 0
for path, section in PAGES:
    for start, lines in blocks(path, section):
        for at, command, answer in commands(start, lines):
            total += 1
            actual = command.replace(WRITTEN, sys.argv[1]).replace("curl ", "curl --noproxy '*' --max-time 60 " + ("" if answer else "-f "), 1)
            run = subprocess.run(["bash", "-c", actual], capture_output=True, text=True)
            problem = f"curl ended with {run.returncode}: {run.stderr.strip()}" if run.returncode else compare(answer, run.stdout)
            if problem:
                failed += 1
                print(f"curl: {path}:{at}: {command}\n  {problem}\n  came: {run.stdout.strip()[:600]}", file=sys.stderr)
print(f"curl: {total - failed} of {total} commands of the documentation answer as it says")
if not total:
    print("curl: the documentation has no commands", file=sys.stderr)
sys.exit(1 if failed or not total else 0)
PYTHON
