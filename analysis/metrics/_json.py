"""What JSON did an answer say?  Its value, compared by value and not by spelling."""

from typing import Any

import msgspec

_FENCE = "```"


def fenced_json_of(text: str) -> Any:
    """The value a text is, without the code fence that chat models like; ValueError where it is none."""
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and "\n" in text:
        text = text[text.index("\n") : -len(_FENCE)]
    return json_of(text)


def json_of(text: str) -> Any:
    """The value a text is; ValueError where it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise ValueError("not JSON") from error


def canonical(value: Any) -> Any:
    """Numbers by value and not by spelling, but true is not 1."""
    if isinstance(value, dict):
        return {key: canonical(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [canonical(inner) for inner in value]
    return ("number", value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """Every scalar and every empty collection by its path."""
    if isinstance(value, dict) and value:
        pairs: Any = value.items()
    elif isinstance(value, list) and value:
        pairs = enumerate(value)
    else:
        return {path: canonical(value)}
    found: dict[tuple[str | int, ...], Any] = {}
    for key, inner in pairs:
        found |= leaves(inner, (*path, key))
    return found
