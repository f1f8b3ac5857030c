"""How docs/configuration.md gets its tables from the schema: by `python -m config.reference FILE`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from config.explain import nested
from config.schema import Config

BEGIN = "<!-- written by config/reference.py: begin -->"
END = "<!-- written by config/reference.py: end -->"
PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretStr: "text",
    Path: "path",
}


def markdown() -> str:
    """One table for each part of the schema, in the order in which a reader meets them."""
    return "\n\n".join(_table(model, path) for model, path in _parts(Config, ""))


def rewrite(text: str) -> str:
    """`text` with what stands between the two markers replaced by the tables."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{after}"


def _parts(model: type[BaseModel], path: str) -> Iterator[tuple[type[BaseModel], str]]:
    yield model, path
    for name, field in model.model_fields.items():
        if (inner := nested(field.annotation)) is not None:
            repeated = "[]" if get_origin(field.annotation) is tuple else ""
            yield from _parts(inner, f"{path}.{name}{repeated}" if path else f"{name}{repeated}")


def _table(model: type[BaseModel], path: str) -> str:
    title = f"### `{path}`" if path else "### The top"
    rows = ["| setting | value | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        rows.append(f"| `{name}` | {_value(field)} | {_default(field)} | {field.description} |")
    return "\n".join([title, "", model.__doc__ or "", "", *rows])


def _value(field: FieldInfo) -> str:
    bounds = _bounds(field.metadata)
    return f"{_kind(field.annotation)}{', ' if bounds else ''}{bounds}"


def _kind(kind: Any) -> str:
    arguments = [part for part in get_args(kind) if part not in (type(None), Ellipsis)]
    if get_origin(kind) is Literal:
        return ", ".join(f"`{part}`" for part in arguments)
    if get_origin(kind) is Annotated:
        bounds = _bounds(list(arguments[1:]))
        return f"{_kind(arguments[0])}{', ' if bounds else ''}{bounds}"
    if get_origin(kind) is tuple:
        return "list" if nested(kind) else f"list of {_kind(arguments[0])}"
    if get_origin(kind) is dict or nested(kind):
        return "mapping"
    if arguments:
        return " or ".join(_kind(part) for part in arguments)
    return PLAIN[kind]


def _bounds(metadata: list[Any]) -> str:
    """The tightest bounds among the annotations, in words."""
    words: dict[str, str] = {}
    for item in [part for whole in metadata for part in (getattr(whole, "metadata", None) or [whole])]:
        if isinstance(item, Gt):
            words["low"] = f"above {item.gt}"
        elif isinstance(item, Ge):
            words["low"] = f"at least {item.ge}"
        elif isinstance(item, Lt):
            words["high"] = f"below {item.lt}"
        elif isinstance(item, Le):
            words["high"] = f"at most {item.le}"
    return ", ".join(words[key] for key in ("low", "high") if key in words)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "as below"
    if value in ((), {}):
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(rewrite(target.read_text(encoding="utf-8")), encoding="utf-8")
