"""The source distribution takes along everything that its sources include."""
import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[3]


def test_what_is_included_is_taken_along():
    text = (ROOT / "client/python/setup.py").read_text(encoding="utf-8")
    needed = ast.literal_eval(re.search(r"NEEDED = (\(.*?\))", text, re.DOTALL)[1])
    left = [path for name in ("client/softmax_client", "client/c") for path in (ROOT / name).iterdir()]
    seen = set(left)
    while left:
        path = left.pop()
        for included in re.findall(r'#include "(.+?)"', path.read_text(encoding="utf-8")):
            if (ROOT / included).exists() and ROOT / included not in seen:
                assert any(f"{included}/".startswith(f"{name}/") for name in needed), f"{path} includes {included}"
                seen.add(ROOT / included)
                left.append(ROOT / included)
    assert len(seen) > 60
