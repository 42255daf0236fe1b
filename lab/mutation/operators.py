"""Changes that tests ought to see, each written so that a process can choose it at its start.

A change is a list of pieces (begin, end, before, after): the text between stays where it is, so that changes may lie in
one another and no line moves.
"""
import re

# What a line must not be: preprocessor, declarations without code, checks of the compiler's.
NO_CODE = re.compile(r"^\s*(#|using |namespace |template|friend |static_assert|extern |class |struct |enum |public:|"
                     r"private:|protected:|case |default:|if constexpr |ABSL_|HWY_|return;|break;|continue;)|\\$|"
                     r"__attribute__")
COMPARISONS = {"==": ["!="], "!=": ["=="], "<": [">=", "<="], ">": ["<=", ">="], "<=": [">", "<"], ">=": ["<", ">"]}
CALL_OF_TWO = re.compile(r"(?<!min)(?<!max)(?<!swap)\(([\w.>-]+), ([\w.>-]+)\)")
STATEMENT = re.compile(r"^\s*[A-Za-z_][\w.:>\[\]-]*(\(.*\)|\s*[-+|&]?=[^=].*|\+\+|--);$|^\s*(\+\+|--)[\w.>-]+;$")
DECLARATION = re.compile(r"^\s*(const |auto |static |constexpr |return |delete |throw |goto |"
                         r"[\w:<>]+[&*]? [*&]?\w+( =|\(|;|\{))")
ENDS = re.compile(r"[;{},?]|(?<!:):(?!:)|(?<![=!<>])=(?!=)|\breturn\b")


def blank(pattern, text):
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.S)


def without_comments(text):
    """Comments blanked out, of the same length: a string that looks like one stays."""
    keep = r'"(?:\\.|[^"\\\n])*"' + r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])'"
    return re.sub(rf"({keep})|//[^\n]*|/\*.*?\*/",
                  lambda match: match.group(1) or re.sub(r"[^\n]", " ", match.group()), text, flags=re.S)


def without_text(plain):
    return blank(r'"(\\.|[^"\\\n])*"' + r"|(?<![0-9a-fA-F])'(\\.|[^'\\\n])'", plain)


def expression(code, at):
    """Begin and end of the whole expression around a place: up to the bracket, comma or assignment about it."""
    ends = {match.start(): match.end() for match in ENDS.finditer(code, max(0, at - 2000), at + 2000)}
    begin = depth = 0
    for place in range(at - 1, max(0, at - 2000), -1):
        if code[place] in ")]":
            depth += 1
        elif code[place] in "([":
            depth -= 1
        if depth < 0 or (depth == 0 and place in ends):
            begin = ends.get(place, place + 1)
            break
    end, depth = at, 0
    while end < len(code):
        depth += (code[end] in "([{") - (code[end] in ")]}")
        if depth < 0 or (depth == 0 and end in ends and code[end] != "}"):
            break
        end += 1
    return begin + len(code[begin:end]) - len(code[begin:end].lstrip()), begin + len(code[begin:end].rstrip())


def instead(plain, span, changed):
    """The pieces of a choice between an expression and another text."""
    return [(*span, f"(Mutant(@) ? ({' '.join(changed.split())}) : (", "))"), ]


def of_line(plain, code, start, stop):
    """(operator, what the line becomes, pieces) of every change of the line between start and stop."""
    def put(begin, end, text):
        return (plain[start:begin] + text + plain[end:stop]).strip()

    line = code[start:stop]
    for match in re.finditer(r" (==|!=|<=|>=|<|>|&&|\|\|) ", line):
        begin, end = start + match.start(1), start + match.end(1)
        whole = expression(code, begin)
        for other in COMPARISONS.get(match.group(1), ["||" if match.group(1) == "&&" else "&&"]):
            changed = plain[whole[0]:begin] + other + plain[end:whole[1]]
            yield ("comparison" if match.group(1) in COMPARISONS else "negation", put(begin, end, other),
                   instead(plain, whole, changed))
    for match in re.finditer(r"\bif \(", line):
        begin = start + match.end()
        end = begin
        depth = 1
        while depth and end < len(code):
            depth += (code[end] == "(") - (code[end] == ")")
            end += 1
        if ";" not in code[begin:end - 1] or "{" in code[begin:end - 1]:
            changed = put(begin, end - 1, f"!({plain[begin:end - 1]})") if end <= stop else put(begin, begin, "!")
            yield ("negation", changed, [(begin, end - 1, "(Mutant(@) != static_cast<bool>(", "))")])
    if STATEMENT.match(line.rstrip()) and not DECLARATION.match(line) and line.count("(") == line.count(")"):
        begin = start + len(line) - len(line.lstrip())
        yield "removed", ";", [(begin, start + len(line.rstrip()), "{ if (!Mutant(@)) { ", " } }")]
    for match in CALL_OF_TWO.finditer(line):
        one, two = match.group(1), match.group(2)
        if one != two:
            yield ("swapped", put(start + match.start(1), start + match.end(2), f"{two}, {one}"),
                   [(start + match.start(1), start + match.end(1), f"(Mutant(@) ? {two} : ", ")"),
                    (start + match.start(2), start + match.end(2), f"(Mutant(@) ? {one} : ", ")")])
    for match in re.finditer(r"(?<![\w.'<])(?<!\dp-)(\d+)(?![\w.'])", line):
        begin, end = start + match.start(), start + match.end()
        number = int(match.group())
        for other in [number + 1] + [number - 1] * (number > 1):
            yield "constant", put(begin, end, str(other)), [(begin, end, f"(Mutant(@) ? {other} : ", ")")]


def of_text(text):
    """(line, operator, before, after, pieces) of every change of a source."""
    plain = without_comments(text)
    code = without_text(plain)
    start = 0
    for number, line in enumerate(code.splitlines(keepends=True), 1):
        stop = start + len(line.rstrip("\n"))
        if line.strip() and not NO_CODE.search(line.rstrip("\n")):
            named = re.search(r"\bconstexpr\b(?= .*=)", line)
            for operator, after, pieces in of_line(plain, code, start, stop):
                if named:  # a constant that a process chooses is const
                    begin, end = start + named.start(), start + named.end()
                    pieces = [*pieces, (begin, end, "const /*", "*/")]
                yield number, operator, plain[start:stop].strip(), after, pieces
        start += len(line)


def apply(text, changes):
    """The text with every change (id, pieces) in it as a choice, and the ids that cross others and are left out."""
    chosen, crossing, known = [], set(), set()
    for number, pieces in changes:
        if any(begin < b < end < e or b < begin < e < end for begin, end, _, _ in pieces for b, e, _, _ in chosen):
            crossing.add(number)
            continue
        pieces = [(b, e, before.replace("@", str(number)), after) for b, e, before, after in pieces]
        chosen += [piece for piece in pieces if piece not in known]
        known.update(pieces)
    opens, closes = {}, {}
    for begin, end, before, after in sorted(chosen, key=lambda piece: (piece[0], -piece[1])):
        opens.setdefault(begin, []).append(before)
        closes.setdefault(end, []).insert(0, after)
    out, last = [], 0
    for place in sorted(set(opens) | set(closes)):
        out += [text[last:place], *closes.get(place, []), *opens.get(place, [])]
        last = place
    return "".join(out) + text[last:], crossing
