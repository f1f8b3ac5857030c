"""A made-up tokenizer and chat template, small enough to see through, for the laws of the bridge."""

import json
from array import array
from collections.abc import Sequence

from routing.events.chain import block_chain
from routing.prompt import read
from routing.types import Prompt

BLOCK = 4
START, END = 1_000_001, 1_000_002
Said = tuple[str, str]


def tokens_of(said: Sequence[Said], preface: str = "") -> list[int]:
    """A token for every two characters, special ones around each message, and a generation prompt."""
    ids = encode(preface)
    for role, text in said:
        ids += [START, *encode(role), *encode(text), END]
    return [*ids, START, *encode("assistant")]


def encode(text: str) -> list[int]:
    return [ord(text[at]) * 300 + ord(text[at + 1 : at + 2] or "\0") for at in range(0, len(text), 2)]


def prompt_of(said: Sequence[Said]) -> Prompt:
    body = {"model": "m", "messages": [{"role": role, "content": text} for role, text in said]}
    return read("/v1/chat/completions", json.dumps(body).encode(), b"key")


def blocks_of(ids: Sequence[int], block: int = BLOCK) -> "array[int]":
    return array("Q", block_chain(ids, block))
