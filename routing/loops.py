"""Where does thinking stand that a chat template takes out once a loop of tools is closed?

Some reasoning models' templates (Qwen3's is one) keep an assistant's thinking until the user asks again: the
steps of a loop see it, later turns do not. So the same messages become other tokens as soon as a user's
message follows. By its text alone a prompt's chain does not tell the two apart: from the first thinking of an
open loop on its links get other names here. Which loop is open is said by what stands before a link, so a
name still stands for one text as the template writes it.
"""

from collections.abc import Sequence
from typing import Final

from routing.bodies import Message
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
    if content is None or isinstance(content, str):
        return content is not None and ("<think" in content or "</think" in content)
    return any(
        b"think" in bytes(raw) or b"reasoning" in bytes(raw) for part in content for raw in part.values()
    )
