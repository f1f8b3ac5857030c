"""Is a prompt nothing but text, and does it have thinking or tools' steps in it?"""

from collections.abc import Iterable, Mapping
from enum import IntFlag
from typing import Any, Final

# What content parts, blocks and items of the three chat APIs may be when they are text to the engine, and
# what they say of the prompt. Anything else (an image, a file, a search) is more than text.
_KINDS: Final[Mapping[str, int]] = {
    "text": 0, "input_text": 0, "output_text": 0, "message": 0,
    "thinking": 1, "redacted_thinking": 1, "reasoning": 1, "reasoning_text": 1, "summary_text": 1,
    "tool_use": 2, "tool_result": 2, "function_call": 2, "function_call_output": 2,
}  # fmt: skip


class Feature(IntFlag):
    """What a prompt has that some templates rewrite later."""

    NONE = 0
    THINKING = 1
    TOOLS = 2


def features(asked: Mapping[str, Any]) -> Feature | None:
    """What a chat body, a Messages body or a Responses body has; None: something of it is not text."""
    said = asked.get("messages")
    if said is None:
        said = asked.get("input")
        said = [{"role": "user", "content": said}] if isinstance(said, str) else said
    if not isinstance(said, list):
        return None
    found = Feature.TOOLS if asked.get("tools") else Feature.NONE
    for one in said:
        if not isinstance(one, dict):
            return None
        if one.get("tool_calls") or one.get("role") == "tool":
            found |= Feature.TOOLS
        if one.get("reasoning") or one.get("reasoning_content"):
            found |= Feature.THINKING
        more = _of(one, is_message=True)
        if more is None:
            return None
        found |= more
    system = asked.get("system")
    more = _of_all(system) if isinstance(system, list) else Feature.NONE
    return None if more is None else found | more


def _of(one: object, *, is_message: bool = False) -> Feature | None:
    """Of a message, an item, a part or a block, with what is in it."""
    if isinstance(one, str):
        return Feature.THINKING if "<think" in one or "</think" in one else Feature.NONE
    if one is None:
        return Feature.NONE
    if not isinstance(one, dict):
        return None
    kind = one.get("type", "message" if is_message else None)
    number = _KINDS.get(kind) if isinstance(kind, str) else None
    if number is None:
        return None
    found = Feature(number)
    for name in ("content", "text", "thinking", "output", "summary"):
        inside = one.get(name)
        more = _of_all(inside) if isinstance(inside, list) else _of(inside)
        if more is None:
            return None
        found |= more
    return found


def _of_all(parts: Iterable[object]) -> Feature | None:
    found = Feature.NONE
    for part in parts:
        more = _of(part)
        if more is None:
            return None
        found |= more
    return found
