"""Is a value as a JSON schema says?

Apart from what reads requests, which load it only once one asks for a schema.
"""

from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

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
