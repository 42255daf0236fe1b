"""What documents and comments name must exist (files, flags, metrics); tables of docs/reference.md must be whole."""
import re

from tree import is_code

REFERENCE = "docs/reference.md"
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"^(?:\./)?((?:client|cmake|common|deploy|docs|kernels|lab|proto|scripts|server|tests|\.ci)/"
                  r"[\w./-]*[\w])/?$")
FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]+)")
# Only in code spans: `softmax_client` and the like are names of other things.
METRIC = re.compile(r"^(softmax_[a-z_]+_(?:total|seconds|bytes|rows|in_flight|queued|info|ready|degraded|testing))\b")
# Flags of other people's programs that the documents use.
FOREIGN_FLAGS = {"--amend", "--build", "--build-arg", "--cflags", "--collect-metrics", "--component",
                 "--concurrency-range", "--entrypoint", "--gpus", "--help", "--input-data", "--install",
                 "--label-regex", "--libs", "--metrics-url", "--no-isolation", "--plugin", "--prefix", "--preset",
                 "--request-count", "--request-rate-range", "--rm", "--set", "--short", "--streaming",
                 "--system-site-packages", "--target", "--test-dir", "--variant", "--version", "--workflow"}
# In comments: a file by its path, or by the end of it.
FILE = re.compile(r"(?<![\w./<*$-])((?:[\w.-]+/)*[a-z][\w-]*\.(?:h|cc|cu|cuh|py|sh|md|proto|cmake))\b(?![\w/*])")
COMMENT = {"//": re.compile(r"(?:^|\s)//(.*)"), "#": re.compile(r"(?:^|\s)#(.*)")}
HASHED = (".py", ".sh", ".cmake", ".txt", ".yaml", ".yml", ".toml")
# Files of other people, and ours as they are installed.
FOREIGN_FILES = {"foreach_target.h", "http_proxy_mapper.cc", "softmax/client/softmax_client.h"}
SOURCES = ("server/", "client/", "kernels/bench/", "scripts/", "lab/")

# A section of the reference -> its rows, the files that register what stands in it, and how they write a name.
METRIC_ROW = re.compile(r"^\| `((?:softmax|process|nv_gpu)_[a-z0-9_]+)` \|", re.MULTILINE)
METRIC_NAME = re.compile(r'"((?:softmax|process|nv_gpu)_[a-z0-9_]+)"')
FLAG_ROW = re.compile(r"^\| `(--[a-z][a-z0-9-]+)`[^|]*\|", re.MULTILINE)
FLAG_NAME = re.compile(r'"(?:-\w,)*(--[a-z][a-z0-9-]+)(?:,--?[A-Za-z0-9-]+)*"')
FIELD_NAME = re.compile(r'\{"([a-z][a-z0-9-]+)", group,')
TABLES = (
    ("## Metrics", METRIC_ROW, re.compile(r"^server/(metrics/.*|app/gauges)\.cc$"), METRIC_NAME, ""),
    ("## Flags of softmax-server", FLAG_ROW, re.compile(r"^server/config(_|/)fields\.h$"), FIELD_NAME, "--"),
    ("## Flags of softmax-client", FLAG_ROW,
     re.compile(r"^client/(cli/cli_options|base/security_flags)\.cc$"), FLAG_NAME, ""),
    ("## Flags of softmax-loadgen", FLAG_ROW,
     re.compile(r"^client/(loadgen/(.*/)?(option_flags|commands)|base/security_flags)\.cc$"), FLAG_NAME, ""),
)
# What a program does instead of its work; every program has the first two.
ACTIONS = {"--help", "--version", "--config", "--print-config"}


def documents(files):
    """Pages that speak of the tree as it is; measurements speak of what was there when they were made."""
    return [path for path in files if path.endswith(".md") and not path.startswith("docs/measurements/")]


def _known_text(files):
    return "\n".join(text for path, text in files.items() if path.startswith(SOURCES) and not path.endswith(".md"))


def _section(text, heading):
    return f"\n{text}".split(f"\n{heading}\n", 1)[-1].split("\n## ", 1)[0] if f"\n{heading}\n" in f"\n{text}" else ""


def _check_tables(files):
    """Everything that the code registers stands in its table of the reference, and nothing else does."""
    for heading, row, sources, name, prefix in TABLES:
        code = "\n".join(text for path, text in files.items() if sources.match(path))
        has = {prefix + found for found in name.findall(code)} - ACTIONS
        told = set(row.findall(_section(files.get(REFERENCE, ""), heading))) - ACTIONS
        for missing in sorted(has - told):
            yield f'{REFERENCE}: "{heading}" lacks {missing}'
        for surplus in sorted(told - has):
            yield f'{REFERENCE}: "{heading}" has {surplus}, which the code does not have'


def check(files):
    problems = []
    source = _known_text(files)
    for path in documents(files):
        text = files[path]
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
    return problems + list(_check_comments(files)) + list(_check_tables(files))


def _check_comments(files):
    ends = {path[at:] for path in files for at in range(len(path)) if at == 0 or path[at - 1] == "/"} | FOREIGN_FILES
    for path, text in files.items():
        mark = "//" if is_code(path) or path.endswith(".proto") else "#" if path.endswith(HASHED) else None
        for comment in COMMENT[mark].findall(text) if mark else ():
            for name in FILE.findall(comment):
                if name not in ends:
                    yield f"{path}: a comment names {name}, which does not exist"


def _exists(files, name):
    return any(path == name or path.startswith(name + "/") for path in files)
