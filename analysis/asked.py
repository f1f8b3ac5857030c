"""What form did a request ask its answer to have?  JSON, a schema, tools; nothing of its prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from analysis.fields import FORM

# A client's pattern runs on a candidate's answer here: one that backtracks for ever would hold all others up.
_Checker: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": None, "patternProperties": None}
)
_DEEPEST = 64


class Schema:
    """A JSON schema, without its `pattern`s, and without references to what lies elsewhere."""

    def __init__(self, schema: Any) -> None:
        self._checker = _Checker(schema, registry=Registry())

    def holds(self, value: Any) -> bool | None:
        """Whether a value is as it says; None where the schema itself cannot be followed."""
        if _depth(value) > _DEEPEST:
            return None
        try:
            self._checker.validate(value)
        except ValidationError:
            return False
        except (
            Unresolvable,
            RecursionError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
        ):
            return None
        return True


@dataclass(frozen=True, slots=True)
class Asked:
    """`json`: the text is to be JSON; `schema`: of this form. `tools`: those that may be called."""

    json: bool = False
    schema: Schema | None = None
    tools: Mapping[str, Schema | None] = field(default_factory=dict)


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


def _form(found: Mapping[str, Any]) -> tuple[bool, Schema | None]:
    """OpenAI's `response_format`, and vLLM's `structured_outputs` and `guided_json`."""
    form = found.get("response_format")
    if isinstance(form, dict):
        if form.get("type") == "json_object":
            return True, schema_of(form.get("schema"))  # llama.cpp takes a schema here
        if form.get("type") == "json_schema":
            named = form.get("json_schema")
            return True, schema_of(named.get("schema") if isinstance(named, dict) else form.get("schema"))
    structured = found.get("structured_outputs")
    if isinstance(structured, dict) and structured.get("json") is not None:
        return True, schema_of(structured["json"])
    if found.get("guided_json") is not None:
        return True, schema_of(found["guided_json"])
    return False, None


def _tools(found: Any) -> dict[str, Schema | None]:
    tools: dict[str, Schema | None] = {}
    for tool in found if isinstance(found, list) else ():
        if not isinstance(tool, dict):
            continue
        inner = tool.get("function")
        function: dict[str, Any] = inner if isinstance(inner, dict) else tool
        name = function.get("name")
        if isinstance(name, str):
            tools[name] = schema_of(function.get("parameters", function.get("input_schema")))
    return tools


def schema_of(given: Any) -> Schema | None:
    """The schema that JSON is, or that its text is; None where it is none, or nobody can follow it."""
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError):
            return None
    if not isinstance(given, dict) or _depth(given) > _DEEPEST:
        return None
    try:
        _Checker.check_schema(given)
    except (SchemaError, RecursionError):
        return None
    return Schema(given)


def _depth(value: Any, so_far: int = 0) -> int:
    if so_far > _DEEPEST or not isinstance(value, dict | list):
        return so_far
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(each, so_far + 1) for each in inner), default=so_far)
