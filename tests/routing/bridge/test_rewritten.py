"""Under a template that takes a loop's thinking out once it is closed, what is promised is there."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from routing.bridge.learner import Bridge
from routing.loops import set_apart
from routing.prompt import read
from tests.routing.bridge.model import BLOCK, END, START, blocks_of, encode

TAIL = 7
WORDS = ("berth", "tide", "pilot", "channel", "crown", "noon", "fee")
Messages = list[dict[str, Any]]


def ids_of(said: Messages) -> list[int]:
    """As Qwen3's template: thinking before the last question is left out."""
    asked = max(at for at, one in enumerate(said) if one["role"] == "user")
    ids: list[int] = []
    for at, one in enumerate(said):
        text = one["content"]
        if at < asked and one["role"] == "assistant":
            text = text.partition("</think>")[2] or text
        ids += [START, *encode(one["role"]), *encode(text), END]
    return [*ids, START, *encode("assistant")]


def text(rng: Random, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(2, most)))


def talk(rng: Random, turns: int) -> Iterator[Messages]:
    """A conversation's prompts: each question takes some steps with a tool, most of them with thinking."""
    said: Messages = [{"role": "system", "content": text(rng, 60)}]
    for _ in range(turns):
        said = [*said, {"role": "user", "content": text(rng, 30)}]
        yield said
        for _ in range(rng.randrange(4)):
            thought = f"<think>{text(rng, 40)}</think>" if rng.random() < 0.8 else ""
            said = [*said, {"role": "assistant", "content": thought + text(rng, 8)}]
            said = [*said, {"role": "tool", "content": text(rng, 60)}]
            yield said
        said = [*said, {"role": "assistant", "content": f"<think>{text(rng, 30)}</think>{text(rng, 30)}"}]


def asked(seed: int, *, apart: bool) -> tuple[int, int, int]:
    """Of 20 talks: blocks that were cached, those of them that were promised; requests promised too many."""
    rng = Random(seed)
    bridge, stored = Bridge(BLOCK, TAIL), set[int]()
    talks = [talk(rng, 4) for _ in range(20)]
    cached = found = too_many = 0
    while talks:
        one = rng.choice(talks)
        said = next(one, None)
        if said is None:
            talks.remove(one)
            continue
        prompt = read("/v1/chat/completions", json.dumps({"model": "m", "messages": said}).encode(), b"k")
        if apart:
            set_apart(prompt)
        ids = ids_of(said)
        blocks = blocks_of(ids)
        there = next((at for at, name in enumerate(blocks) if name not in stored), len(blocks))
        there = min(there, (len(ids) - 1) // BLOCK)
        told = bridge.find(prompt.chain, prompt.ends)
        promised = [] if told is None else list(told.blocks)
        held = next((at for at, name in enumerate(promised) if name not in stored), len(promised))
        cached, found = cached + there, found + min(held, there)
        too_many += held > there
        stored.update(blocks)
        bridge.learn(prompt.chain, prompt.ends, len(ids), blocks)
    return cached, found, too_many


@pytest.mark.parametrize("seed", range(3))
def test_with_open_loops_apart_what_is_cached_is_promised_and_nothing_else(seed: int) -> None:
    cached, found, too_many = asked(seed, apart=True)
    assert cached > 5000 and found >= 0.95 * cached and too_many == 0


def test_by_the_text_alone_it_would_be_promised_what_is_written_otherwise() -> None:
    """Why they are set apart."""
    assert asked(0, apart=False)[2] > 10
