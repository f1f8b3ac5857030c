"""Is an answer JSON of this form?"""

from dataclasses import dataclass
from typing import Any

from analysis.checkers._checker import Checker
from analysis.metrics._json import fenced_json_of


@dataclass(frozen=True, slots=True)
class Params:
    """`schema`: a JSON schema, its patterns aside."""

    schema: dict[str, Any]


class JsonSchema:
    """The whole text, a code fence around it aside."""

    def __init__(self, params: Params) -> None:
        from analysis.schema import schema_of  # loaded only where a request asks for it

        schema = schema_of(params.schema)
        if schema is None:
            raise ValueError("not a JSON schema that could be followed")
        self._schema = schema

    def passes(self, text: str) -> bool | None:
        try:
            return self._schema.holds(fenced_json_of(text))
        except ValueError:
            return False


def build(params: Params) -> Checker:
    """The checker with these parameters; ValueError where they make none."""
    return JsonSchema(params)
