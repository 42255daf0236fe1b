"""Changes of one line that tests ought to see."""
import re

# What a line must not be: preprocessor, declarations without code, checks of the compiler's.
NO_CODE = re.compile(r"^\s*(#|//|using |namespace |template|friend |static_assert|extern |class |struct |enum |public:|"
                     r"private:|protected:|case |default:|ABSL_|return;|break;|continue;)")
COMPARISONS = {"==": ["!="], "!=": ["=="], "<": [">=", "<="], ">": ["<=", ">="], "<=": [">", "<"], ">=": ["<", ">"]}
CALL_OF_TWO = re.compile(r"(\w+)\(([\w.>-]+), ([\w.>-]+)\)")
STATEMENT = re.compile(r"^\s*[A-Za-z_][\w.:>\[\]-]*(\(.*\)|\s*[-+|&]?=[^=].*|\+\+|--);$|^\s*(\+\+|--)[\w.>-]+;$")
DECLARATION = re.compile(r"^\s*(const |auto |static |constexpr |return |delete |throw |goto |"
                         r"[\w:<>]+[&*]? [*&]?\w+( =|\(|;|\{))")


def without_text(line):
    """The line with strings, characters and comments blanked out, of the same length."""
    def blank(match):
        return " " * len(match.group())
    line = re.sub(r'"(\\.|[^"\\])*"', blank, line)
    line = re.sub(r"(?<![0-9a-fA-F])'(\\.|[^'\\])'", blank, line)
    return re.sub(r"//.*", blank, line)


def put(line, begin, end, text):
    return line[:begin] + text + line[end:]


def comparisons(line, code):
    for match in re.finditer(r" (==|!=|<=|>=|<|>) ", code):
        for other in COMPARISONS[match.group(1)]:
            yield "comparison", put(line, match.start(1), match.end(1), other)


def conditions(line, code):
    match = re.match(r"^(\s*(?:\} else )?if \()(.*)(\) (?:\{|return|continue|break).*)$", code)
    if match and ";" not in match.group(2) and match.group(2).count("(") == match.group(2).count(")"):
        begin, end = match.span(2)
        yield "negation", put(line, begin, end, f"!({line[begin:end]})")
    for match in re.finditer(r" (&&|\|\|) ", code):
        yield "negation", put(line, match.start(1), match.end(1), "||" if match.group(1) == "&&" else "&&")


def statements(line, code):
    if STATEMENT.match(code.rstrip()) and not DECLARATION.match(code) and code.count("(") == code.count(")"):
        yield "removed", re.match(r"\s*", line).group() + ";"


def arguments(line, code):
    for match in CALL_OF_TWO.finditer(code):
        if match.group(2) != match.group(3):
            yield "swapped", put(line, match.start(2), match.end(3), f"{line[match.start(3):match.end(3)]}, "
                                                                     f"{line[match.start(2):match.end(2)]}")


def constants(line, code):
    for match in re.finditer(r"(?<![\w.'<])(\d+)(?![\w.'])", code):
        number = int(match.group(1))
        yield "constant", put(line, match.start(1), match.end(1), str(number + 1))
        if number > 1:
            yield "constant", put(line, match.start(1), match.end(1), str(number - 1))


def of_line(line):
    """(operator, changed line) of every change of this line."""
    code = without_text(line)
    if not code.strip() or NO_CODE.match(code) or "__attribute__" in code:
        return []
    return [change for operator in (comparisons, conditions, statements, arguments, constants)
            for change in operator(line, code)]
