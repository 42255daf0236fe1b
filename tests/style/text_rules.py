"""Sizes, words and names."""
import re

from tree import is_code

MAX_LINES = 500
MAX_COLUMNS = 120
# Tables in documents and data in JSON have lines as long as they need.
WITH_LONG_LINES = (".md", ".json", ".txt")

# Written in two parts, so that this file does not contain what it forbids.
BANNED = [
    (re.compile(r"\b(TO" + r"DO|FIX" + r"ME|HA" + r"CK|XX" + r"X)\b(?!\(#\d+\))"),
     "an open end without an issue number"),
    (re.compile(r"^(<<<<<<<|>>>>>>>) .*", re.MULTILINE), "left by a merge"),
    (re.compile(r"/wo" + r"rk/|/ro" + r"ot/\w|/ho" + r"me/\w"), "a path of somebody's machine"),
    (re.compile(r"^\s*(//|#)\s*[-=*#/]{4,}", re.MULTILINE), "a banner line"),
]
BANNED_TYPE = re.compile(r"\b(?:class|struct)\s+(\w*(?:Mana" + r"ger|Hand" + r"ler|Hel" + r"per|Ut" + r"il|Utils))\b")
# Tests wait for conditions; the few that let time pass say so by the name of what they call.
SLEEP = re.compile(r"\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep|time\.sleep)\b")
MAY_SLEEP = ("tests/support/eventually.h", "tests/support/waiting.py", "tests/style/text_rules.py",
             "tests/style/self_test.py")
FILE_NAME = re.compile(r"^[a-z0-9_]+(-inl)?\.(h|cc|cu|cuh)$")


def _check_lines(path, text):
    lines = text.split("\n")
    if len(lines) > MAX_LINES + 1 and not path.endswith(WITH_LONG_LINES):
        yield f"{path}: {len(lines) - 1} lines; {MAX_LINES} is the limit"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS and not path.endswith(WITH_LONG_LINES):
            yield f"{path}:{number}: {len(line)} columns; {MAX_COLUMNS} is the limit"
        if line.endswith((" ", "\t")) and not path.endswith(".md"):
            yield f"{path}:{number}: ends in blanks"


def _check_words(path, text):
    for pattern, what in BANNED:
        for match in pattern.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{number}: {match.group(0).strip()!r} is {what}"
    if is_code(path):
        for match in BANNED_TYPE.finditer(text):
            yield f"{path}: type {match.group(1)}: name it after what it is or does"


def _check_sleeps(path, text):
    if not path.startswith(("tests/", "lab/")) or path in MAY_SLEEP or not path.endswith((".cc", ".h", ".cu", ".py")):
        return
    for match in SLEEP.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: {match.group(0)}: wait by Eventually or LetPass of tests/support/eventually.h " \
              "(Python: waiting.py)"


def check(files):
    problems = []
    for path, text in files.items():
        problems += _check_sleeps(path, text)
        problems += _check_lines(path, text)
        problems += _check_words(path, text)
        name = path.rsplit("/", 1)[-1]
        if is_code(path) and not FILE_NAME.match(name):
            problems.append(f"{path}: file names are snake_case")
    return problems
