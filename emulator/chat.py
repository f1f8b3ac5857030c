"""How messages become the prompt's tokens: the model's chat template (ChatML), message by message.

Each message's text is tokenised on its own, so a conversation's next turn begins with the very tokens of
the last, generated ones included.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.text import IM_END, IM_START, Tokenizer


def prompt_of(
    tokenizer: Tokenizer,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    *,
    add_generation_prompt: bool = True,
) -> list[int]:
    """The prompt's token ids."""
    tokens: list[int] = []
    newline = tokenizer.encode("\n")
    if tools:
        tokens.append(IM_START)
        tokens += tokenizer.encode("tools\n")
        for tool in tools:
            tokens += tokenizer.encode(json.dumps(tool, sort_keys=True) + "\n")
        tokens.append(IM_END)
        tokens += newline
    for message in messages:
        tokens.append(IM_START)
        tokens += tokenizer.encode(f"{message.get('role', 'user')}\n")
        tokens += tokenizer.encode(text_of(message.get("content")))
        for call in message.get("tool_calls") or ():
            tokens += tokenizer.encode("\n" + json.dumps(call, sort_keys=True))
        tokens.append(IM_END)
        tokens += newline
    if add_generation_prompt:
        tokens.append(IM_START)
        tokens += tokenizer.encode("assistant\n")
    return tokens


def text_of(content: Any) -> str:
    """A message's text: a string, or the text parts of a list (other parts by their JSON)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts: list[str] = []
        for part in content:
            if isinstance(part, str):
                parts.append(part)
            elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
                parts.append(part["text"])
            else:
                parts.append(json.dumps(part, sort_keys=True))
        return "\n".join(parts)
    return json.dumps(content)
