"""Renders the chart: the part of Helm's templates that it uses, for machines without helm.

Actions: if, else, range, end, define, variables, pipelines with parentheses of the functions below, include, .Values,
.Release, .Files.Get. Anything else is an error, so a template that needs more is seen here first. Values must fit
values.schema.json, as Helm has it.

Numbers are what Helm makes of them: of values.yaml Go's json.Number, a kind of string; of other files float64, whose
own printing makes 1e+06 of a million; of --set integers.
"""
import decimal
import json
import os
import re

import yaml

import json_schema

ACTION = re.compile(r"\{\{(-)?\s*(.*?)\s*(-)?\}\}", re.DOTALL)
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\(|\)|\||[^\s()|]+')
# From here on, and below 1e-4, Go prints a float64 with an exponent (fmt's %v); encoding/json does from 1e21 on.
GO_EXPONENT_FROM = 1e6


class _Number(str):
    """Go's json.Number."""


def _required(message, value):
    if value in (None, ""):
        raise ValueError(message)
    return value


def _fail(message):
    raise ValueError(message)


def _plain(number):
    """A float64 without an exponent, as encoding/json prints it."""
    return str(int(number)) if number == int(number) else format(decimal.Decimal(repr(number)), "f")


def _text(value):
    """As fmt's %v prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value and not 1e-4 <= abs(value) < GO_EXPONENT_FROM:
        digits, exponent = f"{decimal.Decimal(repr(value)).normalize():e}".split("e")
        return f"{digits}e{int(exponent):+03d}"
    return _plain(value) if isinstance(value, float) else str(value)


def _json(value):
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, _Number):
        return str(value)
    return _plain(value) if isinstance(value, float) else json.dumps(value)


def _int64(value):
    try:
        return int(value or 0)
    except ValueError:
        return 0  # as sprig has it


FUNCTIONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "required": _required, "fail": _fail,
    "or": lambda *all_of: next((a for a in all_of if a), all_of[-1]),
    "and": lambda *all_of: next((a for a in all_of if not a), all_of[-1]),
    "default": lambda otherwise, a: a or otherwise, "ternary": lambda yes, no, which: yes if which else no,
    "kindIs": lambda kind, a: isinstance(a, {"string": str}[kind]), "list": lambda *items: list(items),
    "int64": _int64, "quote": lambda a: json.dumps("" if a is None else _text(a)), "toJson": _json,
    "indent": lambda n, a: "\n".join(" " * n + line for line in a.split("\n")),
}
FUNCTIONS["nindent"] = lambda n, a: "\n" + FUNCTIONS["indent"](n, a)


class _Renderer:
    def __init__(self, chart, values, release):
        self.root = {"Values": values, "Release": release}
        self.chart = chart
        self.defined = {}  # bodies by name

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
        for part in word[1:].split("."):
            dot = dot[part]  # a value that values.yaml does not have is an error here
        return dot

    def _call(self, name, arguments):
        if name == ".Files.Get":
            with open(os.path.join(self.chart, arguments[0]), encoding="utf-8") as opened:
                return opened.read()
        if name == "include":
            return self._block(self.defined[arguments[0]], arguments[1], {"$": arguments[1]})[0]
        return FUNCTIONS[name](*arguments)

    def _pipeline(self, words, dot, variables):
        """The value of the words up to a closing parenthesis or the end, which are taken away."""
        piped, name, arguments = [], None, []
        while True:
            word = words.pop(0) if words else ")"
            if word in ("|", ")"):
                value = self._call(name, arguments + piped) if name else arguments[0]
                if word == ")":
                    return value
                piped, name, arguments = [value], None, []
            elif word == "(":
                arguments.append(self._pipeline(words, dot, variables))
            elif name is None and not arguments and (word in FUNCTIONS or word in ("include", ".Files.Get")):
                name = word
            elif name is None and arguments:
                raise ValueError(f"{arguments[0]} {word}: helm_render.py knows no such call")
            else:
                arguments.append(self._look_up(word, dot, variables))

    def _value(self, text, dot, variables):
        return self._pipeline(WORD.findall(text), dot, variables)

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
        out, rest = self._block(parts, self.root, {"$": self.root})
        if rest:
            raise ValueError("an end too many")
        return out

    def _branches(self, parts):
        """[(condition, parts)] of an if or range whose first action is parts[0]; and what follows its end."""
        branches, depth, start = [], 0, 1
        condition = parts[0][0]
        for i, part in enumerate(parts[1:], 1):
            word = part[0].split(" ")[0] if isinstance(part, tuple) else ""
            if word in ("if", "range", "define"):
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
            elif action.startswith("define "):
                ((what, body),), parts = self._branches([part, *parts])
                self.defined[json.loads(what.removeprefix("define "))] = body
            elif action == "end":
                return out, [part]
            elif re.match(r"\$\w+ :?= ", action):
                name, value = re.split(r" :?= ", action, maxsplit=1)
                variables[name] = self._value(value, dot, variables)
            elif not action.startswith("/*"):
                out += _text(self._value(action, dot, variables))
        return out, []

    def _branch(self, branches, dot, variables):
        for condition, parts in branches:
            kind, _, what = condition.partition(" ")
            if kind == "range":
                names, _, what = what.rpartition(":= ")
                names = [name.strip() for name in names.split(",")] if names else []
                names = ["_", *names] if len(names) == 1 else names  # a single one is the item's, not the key's
                value = self._value(what, dot, variables)
                pairs = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
                return "".join(self._block(parts, item, {**variables, **dict(zip(names, (key, item)))})[0]
                               for key, item in pairs)
            if kind == "else" or self._value(what, dot, variables):
                return self._block(parts, dot, variables)[0]
        return ""


def merged(base, *more):
    made = dict(base)
    for key, value in ((key, value) for changes in more for key, value in changes.items()):
        both = isinstance(value, dict) and isinstance(made.get(key), dict)
        made[key] = merged(made[key], value) if both else value
    return made


def _with_numbers(value, kind):
    """A copy whose numbers are of this kind."""
    if isinstance(value, dict):
        return {key: _with_numbers(inner, kind) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_numbers(inner, kind) for inner in value]
    return kind(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def render(chart, changes=None, arguments=None, name="softmax-server", namespace="default"):
    """The text of each template, by its file's name: `changes` as of a values file, `arguments` as of --set."""
    with open(os.path.join(chart, "values.yaml"), encoding="utf-8") as opened:
        defaults = yaml.safe_load(opened)
    changes, arguments = changes or {}, arguments or {}
    with open(os.path.join(chart, "values.schema.json"), encoding="utf-8") as opened:
        wrong = json_schema.problems(merged(defaults, changes, arguments), json.load(opened))
    if wrong:
        raise ValueError("\n".join(wrong))
    values = merged(_with_numbers(defaults, _Number), _with_numbers(changes, float), arguments)
    folder = os.path.join(chart, "templates")
    renderer = _Renderer(chart, values, {"Name": name, "Namespace": namespace})
    texts = {}
    for file in sorted(os.listdir(folder)):  # those with a _ in front, which define, come first
        with open(os.path.join(folder, file), encoding="utf-8") as opened:
            texts[file] = renderer.render(opened.read())
    return texts
