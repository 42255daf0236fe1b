#!/usr/bin/env python3
"""Man pages and completions of the programs, out of what their --help says: there is no second list of flags.

    manuals.py PREFIX PROGRAM...      writes PREFIX/share/man/man1/*.1, share/bash-completion/completions/*,
                                      share/zsh/site-functions/_*
"""
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field

OPTION = re.compile(r"^  (-\S+)(?: (.*))?$")
VALUE = re.compile(r"^([A-Za-z|_0-9]+)(?:(?::[A-Z]+)? in \[([^]]+)\]|:\{([^}]+)\})?(?:=(.*?))?( \.\.\.)?$")


@dataclass
class Option:
    names: list
    value: str  # empty: a switch
    text: str
    choices: list = field(default_factory=list)

    def takes_file(self):
        return self.value == "FILE"


@dataclass
class Help:
    program: str
    version: str
    about: str
    usage: str
    groups: list  # (title, [Option])
    footer: list  # lines


def option_of(names, value, text):
    value = re.sub(r" ?\b(Excludes|Needs): .*", "", value or "")
    match = VALUE.match(value)
    if not match:
        return Option(names.split(","), value, text)
    kind, limits, choices, default, _ = match.groups()
    notes = [f"Within {limits}." if limits else "", f"Default: {default}." if default else ""]
    choices = choices.split(",") if choices else kind.split("|") if "|" in kind else []
    text = " ".join(part for part in [text + "." if notes[0] or notes[1] else text, *notes] if part)
    return Option(names.split(","), "|".join(choices) or kind, text, choices)


def help_of(path):
    told = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    lines = iter(told.split("\n"))
    result = Help(os.path.basename(path), version, "", "", [], [])
    about, last = [], None
    for line in lines:
        if line.startswith("Usage: "):
            result.usage = line.removeprefix("Usage: ")
        elif not result.usage:
            about.append(line)
        elif line.endswith(":") and not line.startswith(" ") and not result.footer and line != "Examples:":
            result.groups.append((line[:-1], []))
        elif result.footer or (line and not line.startswith(" ")):
            result.footer.append(line)
        elif line.startswith(" " * 20) and last:
            names, value, _ = last
            result.groups[-1][1][-1] = option_of(names, value, line.strip())
        elif line.startswith("  ") and line[2] != "-":
            continue  # an argument, which the usage names
        elif line:
            head, _, text = line[2:].partition("  ")
            names, value = OPTION.match("  " + head.strip()).groups()
            # Beside a value that just fits, there is one blank only.
            last = (names, value, text.strip())
            result.groups[-1][1].append(option_of(*last))
    result.about = " ".join(about).strip()
    return result


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_page(told):
    what = told.about.split(".")[0]
    out = [f'.TH {told.program.upper()} 1 "" "{told.program} {told.version}" "User Commands"',
           ".SH NAME", f"{told.program} \\- {roff(what[:1].lower() + what[1:])}",
           ".SH SYNOPSIS", f".B {told.program}", roff(told.usage.removeprefix(told.program).strip()),
           ".SH DESCRIPTION", roff(told.about)]
    for title, options in told.groups:
        if not options:
            continue
        out.append(".SH OPTIONS" if title == "Options" else f'.SH "{roff(title).upper()}"')
        for option in options:
            names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
            out += [".TP", names + (f" \\fI{roff(option.value)}\\fR" if option.value else ""), roff(option.text)]
    out.append(".SH NOTES")
    example = False
    for line in told.footer:
        if line == "Examples:":
            out += [".SH EXAMPLES"]
            example = True
        elif example and line.strip():
            out += [".nf", roff(line.strip()), ".fi"]
        elif line.strip():
            out += [".PP", roff(line)]
    return "\n".join(out) + "\n"


def bash_completion(told):
    options = [option for _, group in told.groups for option in group]
    name = "_" + told.program.replace("-", "_")
    out = [f"# bash completion for {told.program}, made of its --help.", f"{name}() {{",
           '  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]}', "  COMPREPLY=()",
           "  # --flag=value comes as three words.",
           '  [ "$flag" != "=" ] || flag=${COMP_WORDS[COMP_CWORD-2]}',
           '  [ "$word" != "=" ] || word=""', '  case $flag in']
    for option in options:
        choices = f'-W "{" ".join(option.choices)}"' if option.choices else "-f" if option.takes_file() else ""
        found = f'mapfile -t COMPREPLY < <(compgen {choices} -- "$word"); ' if choices else ""
        if option.value:
            out.append(f"    {'|'.join(option.names)}) {found}return ;;")
    flags = " ".join(name for option in options for name in option.names)
    out += ["  esac", "  case $word in",
            f'    -*) mapfile -t COMPREPLY < <(compgen -W "{flags}" -- "$word") ;;',
            '    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;', "  esac", "}",
            f"complete -o filenames -F {name} {told.program}"]
    return "\n".join(out) + "\n"


def zsh_quoted(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_completion(told):
    out = [f"#compdef {told.program}", "# Made of its --help.", "_arguments -s \\"]
    for _, options in told.groups:
        for option in options:
            action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.takes_file() else " "
            for name in option.names:
                text = f"[{zsh_quoted(option.text)}]"
                if not option.value:
                    out.append(f"  '{name}{text}' \\")
                else:
                    equals = "=" if name.startswith("--") else ""
                    out.append(f"  '{name}{equals}{text}:{zsh_quoted(option.value)}:{action}' \\")
    out.append("  '*:file:_files'")
    return "\n".join(out) + "\n"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    prefix, programs = sys.argv[1], sys.argv[2:]
    for program in programs:
        told = help_of(program)
        share = os.path.join(prefix, "share")
        write(f"{share}/man/man1/{told.program}.1", man_page(told))
        write(f"{share}/bash-completion/completions/{told.program}", bash_completion(told))
        write(f"{share}/zsh/site-functions/_{told.program}", zsh_completion(told))


if __name__ == "__main__":
    main()
