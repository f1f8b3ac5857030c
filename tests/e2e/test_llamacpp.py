"""Shadowlane in front of a real llama.cpp server, with the openai SDK as the client."""

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.servers import Gateway, llamacpp, shadowlane

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]

QUESTIONS = [
    "A baker sells 12 loaves in the morning and 9 in the afternoon. How many loaves is that?",
    "Complete this Python function: def is_even(n: int) -> bool:",
    "Name three colours.",
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("llamacpp")
    with (
        llamacpp(folder) as engine,
        llamacpp(folder) as control,
        llamacpp(folder) as again,
        shadowlane(
            folder,
            "--engine",
            engine,
            "--control",
            control,
            "--candidate",
            f"again={again}",
            "--sample-rate",
            "1",
        ) as running,
    ):
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="unused", timeout=120) as made:
        yield made


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_streamed_and_a_whole_answer_are_the_same_text(client: openai.OpenAI, question: str) -> None:
    ask: Callable[..., Any] = functools.partial(
        client.chat.completions.create,
        model="smollm2",
        messages=[{"role": "user", "content": question}],
        temperature=0,
        seed=1,
        max_tokens=24,
    )
    whole = ask()
    stream = ask(stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text and text == whole.choices[0].message.content
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens > 0


def test_completions_models_and_errors_pass(client: openai.OpenAI) -> None:
    made = client.completions.create(model="smollm2", prompt="One, two, three,", max_tokens=8, temperature=0)
    assert made.choices[0].text
    assert [model.id for model in client.models.list()] == ["smollm2"]
    with pytest.raises(openai.BadRequestError, match="context"):
        client.completions.create(model="smollm2", prompt="word " * 5000, max_tokens=1)


def test_copies_reach_the_arms_and_become_pairs(gateway: Gateway, client: openai.OpenAI) -> None:
    """Every sampled request ends as a pair or as a drop with a reason."""
    for turn in range(6):
        client.completions.create(model="smollm2", prompt=f"Count to {turn}:", max_tokens=4, temperature=0)
    deadline_s = time.monotonic() + 90
    while time.monotonic() < deadline_s:
        books = gateway.ranking().get("books") or {}
        dropped = sum((books.get("dropped") or {}).values())
        if books.get("paired") and books["admitted"] == books["paired"] + dropped:
            break
        time.sleep(1)
    assert books["paired"] > 0 and books["admitted"] == books["paired"] + dropped
