"""Says what in a value does not fit a JSON Schema: the part of draft 7 that values.schema.json uses. Any other keyword
is an error, so that no rule is silently left out."""
import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}
SAID_ONLY = {"$schema", "title", "description", "definitions"}


def _is(value, kind):
    if kind in ("integer", "number"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (kind == "number" or value == int(value))
    return isinstance(value, TYPES[kind])


def problems(value, schema, root=None, path=""):
    """[text] for each rule that the value breaks."""
    root = root or schema
    if "$ref" in schema:
        return problems(value, root["definitions"][schema["$ref"].removeprefix("#/definitions/")], root, path)
    found = []
    for keyword, rule in schema.items():
        if keyword == "type":
            kinds = [rule] if isinstance(rule, str) else rule
            if not any(_is(value, kind) for kind in kinds):
                found.append(f"{path}: {value!r} is no {' or '.join(kinds)}")
        elif keyword == "enum":
            found += [] if value in rule else [f"{path}: {value!r} is none of {rule}"]
        elif keyword == "pattern":
            if isinstance(value, str) and not re.search(rule, value):
                found.append(f"{path}: {value!r} does not fit {rule}")
        elif keyword == "minimum":
            if _is(value, "number") and value < rule:
                found.append(f"{path}: {value} is below {rule}")
        elif keyword == "not":
            found += [] if problems(value, rule, root) else [f"{path}: {value!r} must not be one of {rule}"]
        elif keyword == "items":
            if isinstance(value, list):
                found += [p for i, item in enumerate(value) for p in problems(item, rule, root, f"{path}/{i}")]
        elif keyword == "propertyNames":
            if isinstance(value, dict):
                found += [p for name in value for p in problems(name, rule, root, f"{path}/{name}")]
        elif keyword in ("properties", "additionalProperties"):
            if isinstance(value, dict) and keyword == "additionalProperties":
                others = value.keys() - schema.get("properties", {}).keys()
                if rule is False:
                    found += [f"{path}/{name}: there is no such value" for name in sorted(others)]
                else:
                    found += [p for name in others for p in problems(value[name], rule, root, f"{path}/{name}")]
            elif isinstance(value, dict):
                found += [p for name in value.keys() & rule.keys()
                          for p in problems(value[name], rule[name], root, f"{path}/{name}")]
        elif keyword not in SAID_ONLY:
            raise ValueError(f"json_schema.py does not know {keyword}")
    return found
