"""Pages that people read: the width of lines, the length of README.md, and links from one page to the next."""
import posixpath
import re

MAX_COLUMNS = 120
README_WORDS = 1300
FENCE = re.compile(r"^\s*(```|~~~)")
LIST_ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def _prose(text):
    """(number, line) of every line that is neither in a table nor in a block of code."""
    fenced = code = in_list = False
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and line.strip():
            indented = line.startswith(("    ", "\t"))
            code = indented and (code or not (in_list or before.strip()))
            if not code and not line.lstrip().startswith("|"):
                yield number, line
            if LIST_ITEM.match(line) and not code:
                in_list = True
            elif not line.startswith(" "):
                in_list = False
        before = line


def _links(path, text):
    """The files of the tree that the page links to."""
    return {posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")}


def _index_of(path):
    """The page that has to link to this one: the README.md beside it, or, of a README.md, the one above."""
    folder, name = posixpath.split(path)
    if name == "README.md":
        folder = posixpath.dirname(folder)
    return posixpath.join(folder, "README.md")


def _check_links(path, files):
    links = _links(path, files[path])
    for target in sorted(links):
        if target.endswith(".md") and target not in files:
            yield f"{path}: links to {target}, which does not exist"
    if path.startswith("docs/"):
        index = _index_of(path)
        if path not in _links(index, files.get(index, "")):
            yield f"{path}: {index} does not link to it"


def check(files):
    problems = []
    for path in sorted(path for path in files if path.endswith(".md")):
        for number, line in _prose(files[path]):
            if len(line) > MAX_COLUMNS:
                problems.append(f"{path}:{number}: {len(line)} columns outside a table; {MAX_COLUMNS} is the limit")
        problems += _check_links(path, files)
    words = len(files.get("README.md", "").split())
    if words > README_WORDS:
        problems.append(f"README.md: {words} words; {README_WORDS} is the limit")
    return problems
