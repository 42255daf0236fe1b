"""Renders the chart: the part of Helm's templates that it uses, for machines without helm.

Actions: if, else, range, end, variables, pipelines of the functions below, .Values, .Release, .Files.Get. Anything else
is an error, so a template that needs more is seen here first.
"""
import copy
import json
import os
import re

import yaml

ACTION = re.compile(r"\{\{(-)?\s*(.*?)\s*(-)?\}\}", re.DOTALL)
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)|\||[^\s()|]+')


def _required(message, value):
    if value in (None, ""):
        raise ValueError(message)
    return value


FUNCTIONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "not": lambda a: not a, "required": _required,
    "or": lambda *all_of: next((a for a in all_of if a), all_of[-1]),
    "and": lambda *all_of: next((a for a in all_of if not a), all_of[-1]),
    "quote": lambda a: json.dumps(_text(a)), "toJson": lambda a: json.dumps(a, separators=(",", ":")),
    "indent": lambda n, a: "\n".join(" " * n + line for line in a.split("\n")),
}


def _text(value):
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


class _Renderer:
    def __init__(self, chart, values, release):
        self.root = {"Values": values, "Release": release}
        self.chart = chart

    def _look_up(self, word, dot, variables):
        if word.startswith('"'):
            return json.loads(word)
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        if word == ".":
            return dot
        if word.startswith("$"):
            return variables[word]
        if not word.startswith("."):
            raise ValueError(f"{word} is no function that helm_render.py knows")
        value = self.root
        for part in word[1:].split("."):
            value = value[part]  # a value that values.yaml does not have is an error here
        return value

    def _pipeline(self, text, dot, variables):
        stages, piped = [[]], []
        for word in WORD.findall(text):
            if word == "|":
                stages.append([])
            elif word in "()":
                raise ValueError("helm_render.py knows no parentheses: " + text)
            else:
                stages[-1].append(word)
        for head, *rest in stages:
            arguments = [self._look_up(word, dot, variables) for word in rest] + piped
            if head == ".Files.Get":
                with open(os.path.join(self.chart, arguments[0]), encoding="utf-8") as opened:
                    piped = [opened.read()]
            elif head in FUNCTIONS:
                piped = [FUNCTIONS[head](*arguments)]
            elif arguments:
                raise ValueError(f"{head} is no function that helm_render.py knows")
            else:
                piped = [self._look_up(head, dot, variables)]
        return piped[0]

    def render(self, text):
        parts, end = [], 0
        for match in ACTION.finditer(text):
            before = text[end:match.start()]
            parts.append(before.rstrip() if match.group(1) else before)
            parts.append((match.group(2),))
            end = match.end()
            if match.group(3):
                end += len(text[end:]) - len(text[end:].lstrip())
        parts.append(text[end:])
        out, rest = self._block(parts, self.root, {})
        if rest:
            raise ValueError("an end too many")
        return out

    def _branches(self, parts):
        """[(condition, parts)] of an if or range whose first action is parts[0]; and what follows its end."""
        branches, depth, start = [], 0, 1
        condition = parts[0][0]
        for i, part in enumerate(parts[1:], 1):
            word = part[0].split(" ")[0] if isinstance(part, tuple) else ""
            if word in ("if", "range"):
                depth += 1
            elif word == "end" and depth:
                depth -= 1
            elif word in ("else", "end") and depth == 0:
                branches.append((condition, parts[start:i]))
                condition, start = part[0].removeprefix("else").strip() or "else", i + 1
                if word == "end":
                    return branches, parts[i + 1:]
        raise ValueError("no end of " + condition)

    def _block(self, parts, dot, variables):
        out = ""
        while parts:
            part, parts = parts[0], parts[1:]
            if isinstance(part, str):
                out += part
                continue
            action = part[0]
            if action.startswith(("if ", "range ")):
                branches, after = self._branches([part, *parts])
                out += self._branch(branches, dot, variables)
                parts = after
            elif action == "end":
                return out, [part]
            elif re.match(r"\$\w+ :?= ", action):
                name, value = re.split(r" :?= ", action, maxsplit=1)
                variables[name] = self._pipeline(value, dot, variables)
            elif not action.startswith("/*"):
                out += _text(self._pipeline(action, dot, variables))
        return out, []

    def _branch(self, branches, dot, variables):
        for condition, parts in branches:
            kind, _, what = condition.partition(" ")
            if kind == "range":
                names, _, what = what.rpartition(":= ")
                names = [name.strip() for name in names.split(",")] if names else []
                value = self._pipeline(what, dot, variables)
                pairs = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
                return "".join(self._block(parts, item, {**variables, **dict(zip(names, (key, item)))})[0]
                               for key, item in pairs)
            if kind == "else" or self._pipeline(what, dot, variables):
                return self._block(parts, dot, variables)[0]
        return ""


def _merge(base, changes):
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value


def render(chart, changes=None, name="softmax-server", namespace="default"):
    """The text of each template, by its file's name."""
    with open(os.path.join(chart, "values.yaml"), encoding="utf-8") as opened:
        values = yaml.safe_load(opened)
    _merge(values, copy.deepcopy(changes or {}))
    folder = os.path.join(chart, "templates")
    renderer = _Renderer(chart, values, {"Name": name, "Namespace": namespace})
    texts = {}
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), encoding="utf-8") as opened:
            texts[file] = renderer.render(opened.read())
    return texts
