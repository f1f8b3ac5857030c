"""The text of a trace's pieces, and an ask as the body of a chat request.

A piece of n tokens is n words of four letters drawn by its key, which the emulated engines take for n tokens.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from random import Random

from bench.routing.asks import Ask

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def body(ask: Ask, answers: Mapping[int, str], words: tuple[str, ...] = ()) -> bytes:
    """`answers` by their keys; one that is not there was given before the run: its text is made up."""
    line = [ask]
    while line[-1].before is not None:
        line.append(line[-1].before)
    messages: list[dict[str, str]] = []
    for one in reversed(line):
        for place, (key, tokens) in enumerate(one.said):
            is_system = not messages and place + 1 < len(one.said)
            messages.append({"role": "system" if is_system else "user", "content": text(key, tokens, words)})
        if one is not ask:
            content = answers.get(one.answer) or text(one.answer, one.output_tokens, words)
            messages.append({"role": "assistant", "content": content})
    return json.dumps(
        {
            "model": "m",
            "messages": messages,
            "max_tokens": ask.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()


@lru_cache(4096)
def text(key: int, tokens: int, words: tuple[str, ...] = ()) -> str:
    """Always the same for the same key; a shorter one begins a longer one."""
    rng = Random(key)
    if words:
        return "".join(rng.choices(words, k=tokens))
    return "".join([" " + "".join(rng.choices(_LETTERS, k=4)) for _ in range(tokens)])
