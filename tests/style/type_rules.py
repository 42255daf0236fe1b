"""One name, one type: the linker keeps one of two definitions, and code runs the other's destructor."""
import collections
import re

from tree import is_code

PLACES = ("client/", "common/", "kernels/", "server/")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
# A namespace, a type with its body, or a brace of anything else.
SCOPE = re.compile(
    r"\bnamespace\s*(?P<namespace>[\w:]*)\s*\{"
    r"|\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:(?:alignas\([^)]*\)|\[\[[^\]]*\]\]|[A-Z_]+)\s+)*"
    r"(?P<type>[A-Za-z_][\w:]*)(?P<special>\s*<[^;{}]*>)?\s*(?:\bfinal\s*)?(?::[^;{}]*)?\{"
    r"|\{|(?P<end>\})")


def defined_types(text):
    """The qualified names of the types that the text defines for others: none in functions or unnamed namespaces, and
    no specialisations, for a name has several."""
    scopes = []  # a name each; None: what is in it is nobody else's
    for found in SCOPE.finditer(NOT_CODE.sub(" ", text)):
        if found["end"]:
            if scopes:
                scopes.pop()
            continue
        scopes.append(found["namespace"] or found["type"])
        if found["type"] and not found["special"] and None not in scopes:
            yield "::".join(scopes)


def check(files):
    places = collections.defaultdict(set)
    for path, text in files.items():
        if is_code(path) and path.startswith(PLACES):
            for name in defined_types(text):
                places[name].add(path)
    return [f"{name}: defined in " + " and in ".join(sorted(paths)) + ": one name, one type"
            for name, paths in sorted(places.items()) if len(paths) > 1]
