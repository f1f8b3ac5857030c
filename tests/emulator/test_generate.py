"""/inference/v1/generate: token ids in, token ids out; forced where the engine is told to allow it."""

from dataclasses import replace
from typing import Any

import pytest

from tests.emulator.support import FAST, Client, with_engine

PATH = "/inference/v1/generate"
REPLAYS = replace(FAST, trace_replay=True)


def asked(**params: Any) -> dict[str, Any]:
    return {"token_ids": [5, 6, 7], "sampling_params": {"max_tokens": 4, "temperature": 0, **params}}


def test_the_tokens_are_those_that_completions_would_say() -> None:
    async def use(client: Client) -> None:
        status, answer = await client.post(PATH, asked())
        plain = {"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0, "return_token_ids": True}
        _, completion = await client.post("/v1/completions", plain)
        assert status == 200
        assert answer["choices"][0]["token_ids"] == completion["choices"][0]["token_ids"]
        assert answer["usage"]["completion_tokens"] == 4

    with_engine(use)


@pytest.mark.parametrize("stream", [False, True])
def test_forced_tokens_are_decoded_one_by_one_and_nothing_stops_before_their_end(stream: bool) -> None:
    forced = [900, 5, 2, 0, 1, 33]  # ends of text among them

    async def use(client: Client) -> None:
        body = asked(trace_decode_token_ids=forced, max_tokens=len(forced))
        if stream:
            body["stream_options"] = {"include_usage": True}
            chunks = await client.chunks(PATH, body)
            ids = [token for c in chunks for choice in c["choices"] for token in choice["token_ids"]]
            assert len(chunks) == len(forced) + 1 and chunks[-1]["usage"]["completion_tokens"] == len(forced)
        else:
            ids = (await client.post(PATH, body))[1]["choices"][0]["token_ids"]
        assert ids == forced

    with_engine(use, REPLAYS)


def test_an_engine_that_was_not_told_to_replay_refuses_and_so_do_two_answers() -> None:
    async def use(client: Client) -> None:
        assert (await client.post(PATH, asked(trace_decode_token_ids=[1, 2])))[0] == 400

    async def use_two(client: Client) -> None:
        assert (await client.post(PATH, asked(trace_decode_token_ids=[1, 2], n=2)))[0] == 400
        assert (await client.post(PATH, {"sampling_params": {}}))[0] == 400
        assert (await client.post(PATH, {"token_ids": [1]}))[0] == 400

    with_engine(use)
    with_engine(use_two, REPLAYS)


@pytest.mark.parametrize("stream", [False, True])
def test_each_token_has_its_logprob_and_so_many_alternatives_where_they_are_asked_for(stream: bool) -> None:
    async def use(client: Client) -> None:
        if stream:
            chunks = await client.chunks(PATH, asked(logprobs=3))
            choices = [choice for chunk in chunks for choice in chunk["choices"]]
        else:
            choices = (await client.post(PATH, asked(logprobs=3)))[1]["choices"]
        told = [entry for choice in choices for entry in choice["logprobs"]["content"]]
        assert len(told) == 4
        assert all(len(entry["top_logprobs"]) == 3 and entry["logprob"] <= 0 for entry in told)
        assert (await client.post(PATH, asked(logprobs=99)))[0] == 400

    with_engine(use)
