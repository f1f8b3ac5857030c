"""What form did a request ask its answer to have?  JSON, a schema, tools; nothing of its prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.fields import FORM

if TYPE_CHECKING:
    from analysis.schema import Schema


@dataclass(frozen=True, slots=True)
class Asked:
    """`json`: the text is to be JSON; `schema`: of this form. `tools`: those that may be called."""

    json: bool = False
    schema: "Schema | None" = None
    tools: "Mapping[str, Schema | None]" = field(default_factory=dict)


def read_asked(fields: Mapping[str, bytes]) -> Asked | None:
    """What these fields of a request, each its JSON, ask; None for nothing that one could follow."""
    return _read(tuple(sorted((name, bytes(raw)) for name, raw in fields.items() if name in FORM)))


@lru_cache(maxsize=256)
def _read(fields: tuple[tuple[str, bytes], ...]) -> Asked | None:
    found: dict[str, Any] = {}
    for name, raw in fields:
        try:
            found[name] = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    json, schema = _form(found)
    tools = _tools(found.get("tools"))
    return Asked(json, schema, tools) if json or tools else None


def _form(found: Mapping[str, Any]) -> "tuple[bool, Schema | None]":
    """OpenAI's `response_format`, and vLLM's `structured_outputs` and `guided_json`."""
    form = found.get("response_format")
    if isinstance(form, dict):
        if form.get("type") == "json_object":
            return True, _schema(form.get("schema"))  # llama.cpp takes a schema here
        if form.get("type") == "json_schema":
            named = form.get("json_schema")
            return True, _schema(named.get("schema") if isinstance(named, dict) else form.get("schema"))
    structured = found.get("structured_outputs")
    if isinstance(structured, dict) and structured.get("json") is not None:
        return True, _schema(structured["json"])
    if found.get("guided_json") is not None:
        return True, _schema(found["guided_json"])
    return False, None


def _tools(found: Any) -> "dict[str, Schema | None]":
    tools: dict[str, Schema | None] = {}
    for tool in found if isinstance(found, list) else ():
        if not isinstance(tool, dict):
            continue
        inner = tool.get("function")
        function: dict[str, Any] = inner if isinstance(inner, dict) else tool
        name = function.get("name")
        if isinstance(name, str):
            tools[name] = _schema(function.get("parameters", function.get("input_schema")))
    return tools


def _schema(given: Any) -> "Schema | None":
    from analysis.schema import schema_of

    return schema_of(given)
