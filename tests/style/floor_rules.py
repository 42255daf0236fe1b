"""No two folders beside each other include each other, at every depth."""
import re

from layer_rules import INCLUDE, OURS
from tree import is_code


def _siblings(path, target):
    """The folders under the last common one in which the two lie, or None where one is a file of that folder."""
    a, b = path.split("/"), target.split("/")
    depth = 0
    while depth < min(len(a), len(b)) - 1 and a[depth] == b[depth]:
        depth += 1
    if depth >= len(a) - 1 or depth >= len(b) - 1:
        return None
    return "/".join(a[:depth + 1]), "/".join(b[:depth + 1])


def includes(files):
    """{(folder, folder beside it): one file that includes, and what}"""
    found = {}
    for path, text in files.items():
        if not is_code(path):
            continue
        for bracket, target in INCLUDE.findall(text):
            pair = _siblings(path, target) if bracket == '"' and target.startswith(OURS) else None
            if pair is not None:
                found.setdefault(pair, f"{path} includes {target}")
    return found


def check(files):
    found = includes(files)
    problems = []
    for (a, b), where in sorted(found.items()):
        if a < b and (b, a) in found:
            problems.append(f"{a} and {b} include each other: {where}, and {found[b, a]}")
    return problems
