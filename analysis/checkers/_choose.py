"""Which checker does a golden request name?"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from analysis.checkers import code, command, exact, json_schema, numeric, regex
from analysis.checkers._checker import Checker

_P = TypeVar("_P")


def checker_of(check: Mapping[str, Any]) -> Checker:
    """The checker that `check` describes: its `kind`, and that kind's parameters.

    ValueError says what is wrong with it.
    """
    kinds: dict[str, Callable[[Mapping[str, Any]], Checker]] = {
        "exact": _built(exact.Params, exact.build),
        "numeric": _built(numeric.Params, numeric.build),
        "regex": _built(regex.Params, regex.build),
        "json_schema": _built(json_schema.Params, json_schema.build),
        "code": _built(code.Params, code.build),
        "command": _built(command.Params, command.build),
    }
    kind = check.get("kind")
    if kind not in kinds:
        raise ValueError(f"a check's kind is one of {', '.join(kinds)}, not {kind!r}")
    return kinds[kind]({name: value for name, value in check.items() if name != "kind"})


def _built(params: type[_P], build: Callable[[_P], Checker]) -> Callable[[Mapping[str, Any]], Checker]:
    known = {field.name for field in msgspec.inspect.type_info(params).fields}  # type: ignore[attr-defined]

    def made(given: Mapping[str, Any]) -> Checker:
        for name in given:
            if name not in known:
                raise ValueError(f"{name!r} is not one of its parameters: {', '.join(sorted(known))}")
        return build(msgspec.convert(dict(given), params))

    return made
