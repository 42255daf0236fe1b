"""What the documents name must exist: files, flags, metrics."""
import re
import subprocess

DOCUMENTS = ("README.md", "docs/kernels.md", "docs/glossary.md", "docs/testing.md", "docs/numerics.md",
             "docs/client.md", "docs/benchmarks.md", "docs/operations.md", "docs/security.md")
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"^(?:\./)?((?:client|cmake|deploy|docs|kernels|proto|scripts|server|tests|\.ci)/[\w./-]*[\w])/?$")
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]+)")
# Only in code spans: `softmax_client` and the like are names of other things.
METRIC = re.compile(r"^(softmax_[a-z_]+_(?:total|seconds|bytes|rows|in_flight|queued|info|ready|degraded|testing))\b")
FLAG_ROW = re.compile(r"^\| `(--[a-z][a-z0-9-]+)` \|", re.MULTILINE)
HELP_FLAG = re.compile(r"^\s+(?:-\w,\s*)?(--[a-z][a-z0-9-]+)", re.MULTILINE)
# Flags of other people's programs that the documents use.
FOREIGN_FLAGS = {"--build", "--build-arg", "--cflags", "--component", "--entrypoint", "--gpus", "--help", "--install",
                 "--label-regex", "--libs", "--plugin", "--prefix", "--preset", "--rm", "--target", "--test-dir",
                 "--variant", "--version", "--workflow"}
SOURCES = ("server/", "client/", "kernels/bench/", "scripts/", "tests/bench/")


def _known_text(files):
    return "\n".join(text for path, text in files.items() if path.startswith(SOURCES) and not path.endswith(".md"))


def _documents(files):
    return DOCUMENTS + tuple(sorted(path for path in files if path.startswith("docs/decisions/")))


def check(files):
    problems = []
    source = _known_text(files)
    for path in _documents(files):
        text = files.get(path, "")
        for span in SPAN.findall(text):
            named = PATH.match(span)
            if named and not _exists(files, named.group(1)):
                problems.append(f"{path}: names {span}, which does not exist")
        for flag in sorted(set(FLAG.findall(text)) - FOREIGN_FLAGS):
            if not re.search("(--|\")" + re.escape(flag[2:]) + r"(?![a-z0-9-])", source):
                problems.append(f"{path}: names the flag {flag}, which no program has")
        for metric in sorted({name for span in SPAN.findall(text) for name in METRIC.findall(span)}):
            if f'"{metric}"' not in source:
                problems.append(f"{path}: names the metric {metric}, which the server does not have")
    return problems


def _exists(files, name):
    return any(path == name or path.startswith(name + "/") for path in files)


def check_help(files, server):
    """The configuration table of README.md and `softmax-server --help` have the same flags."""
    told = subprocess.run([server, "--help"], capture_output=True, text=True, timeout=30, check=False)
    if told.returncode != 0:
        return [f"{server} --help: exit code {told.returncode}: {told.stderr.strip()}"]
    has = set(HELP_FLAG.findall(told.stdout)) - {"--help", "--version", "--config", "--print-config"}
    section = files["README.md"].split("\n## Configuration", 1)[-1].split("\n## ", 1)[0]
    documented = set(FLAG_ROW.findall(section)) - {"--config", "--print-config"}
    problems = [f"README.md: the configuration table lacks {flag}" for flag in sorted(has - documented)]
    return problems + [f"README.md: softmax-server has no {flag}" for flag in sorted(documented - has)]
