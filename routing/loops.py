"""Where does thinking stand that a chat template takes out once a loop of tools is closed?

Some reasoning models' templates (Qwen3's is one) keep an assistant's thinking until the user asks again: the
steps of a loop see it, later turns do not. So the same messages become other tokens as soon as a user's
message follows. By its text alone a prompt's chain does not tell the two apart: from the first thinking of an
open loop on its links get other names here. Which loop is open is said by what stands before a link, so a
name still stands for one text as the template writes it.
"""

from collections.abc import Sequence
from typing import Final

from routing.bodies import Fields, Message, string
from routing.canonical import TEXT_TYPES
from routing.types import Prompt

_OPEN: Final = 0x9E3779B97F4A7C15
_NONE: Final = (b"", b"null", b'""', b"[]")


def opening(messages: Sequence[Message]) -> Message | None:
    """The first message with thinking behind the last of the user's; None where there is none."""
    found: Message | None = None
    for said in reversed(messages):
        if said.role == "user":
            break
        if said.role == "assistant" and _thinks(said):
            found = said
    return found


def set_apart(prompt: Prompt) -> None:
    """Give the links of the prompt's open loop their other names, once."""
    at = prompt.open_at
    if at >= 0:
        prompt.chain = [*prompt.chain[:at], *[link ^ _OPEN for link in prompt.chain[at:]]]
        prompt.open_at = -1


def _thinks(said: Message) -> bool:
    """Rather once too often: what is set apart and need not be is found a little less."""
    if bytes(said.reasoning) not in _NONE or bytes(said.reasoning_content) not in _NONE:
        return True
    content = said.content
    if isinstance(content, str):
        return _has_mark(content)
    return content is not None and any(_part_thinks(part) for part in content)


def _part_thinks(part: Fields) -> bool:
    """A text by what a message's own is looked at for: clients write it either way from turn to turn."""
    text = part.get("text")
    if text is not None and bytes(part.get("type", b"")) in TEXT_TYPES:
        return _has_mark(string.decode(text))
    return any(b"think" in bytes(raw) or b"reasoning" in bytes(raw) for raw in part.values())


def _has_mark(text: str) -> bool:
    return "<think" in text or "</think" in text
