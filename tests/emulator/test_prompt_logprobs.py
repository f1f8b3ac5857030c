"""How likely a model finds a prompt's tokens, in the form in which vLLM tells it."""

import json
from dataclasses import replace
from math import exp
from typing import Any

import pytest

from analysis.scores import scores_of
from tests.analysis.engines import FIXTURES
from tests.emulator.support import FAST, Client, with_engine

PATH = "/v1/completions"
PROMPT = [1, 3557, 201, 53, 445, 3013, 2855, 940]
REAL: dict[str, Any] = json.loads((FIXTURES / "vllm" / "completion_prompt_logprobs.body").read_bytes())


def asked(**more: Any) -> dict[str, Any]:
    return {"prompt": PROMPT, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 3, **more}


def scores(answer: dict[str, Any]) -> list[float]:
    found = scores_of(json.dumps(answer).encode(), PROMPT[1:])
    assert found is not None
    return [one.logprob for one in found]


def test_every_token_but_the_first_has_a_row_as_vllms_own_answer_has() -> None:
    async def use(client: Client) -> None:
        status, answer = await client.post(PATH, asked())
        (ours,), (theirs,) = answer["choices"], REAL["choices"]
        assert status == 200 and ours.keys() == theirs.keys()
        assert len(ours["prompt_logprobs"]) == len(theirs["prompt_logprobs"]) == len(PROMPT)
        assert ours["prompt_logprobs"][0] is theirs["prompt_logprobs"][0] is None
        for token, row in zip(PROMPT[1:], ours["prompt_logprobs"][1:], strict=True):
            assert 3 <= len(row) <= 4 and str(token) in row
            assert {"logprob", "rank", "decoded_token"} == set(row[str(token)])
            assert sum(exp(one["logprob"]) for one in row.values()) <= 1.0
            by_rank = sorted(row.values(), key=lambda one: one["rank"])
            assert by_rank == sorted(row.values(), key=lambda one: -one["logprob"])

    with_engine(use)


def test_a_model_scores_always_the_same_and_another_one_otherwise() -> None:
    told: dict[int, list[list[float]]] = {}

    def asks_twice(seed: int) -> None:
        async def use(client: Client) -> None:
            told[seed] = [scores((await client.post(PATH, asked()))[1]) for _ in range(2)]

        with_engine(use, replace(FAST, model_seed=seed))

    asks_twice(0)
    asks_twice(9)
    assert told[0][0] == told[0][1] and told[9][0] == told[9][1]
    assert all(a != b for a, b in zip(told[0][0], told[9][0], strict=True))


@pytest.mark.parametrize("body", [asked(prompt_logprobs=21), asked(stream=True), asked(prompt_logprobs=-1)])
def test_more_than_are_told_and_streams_are_refused_as_vllm_does(body: dict[str, Any]) -> None:
    async def use(client: Client) -> None:
        status, answer = await client.post(PATH, body)
        assert status == 400 and answer["error"]["param"] == "prompt_logprobs"

    with_engine(use)


def test_without_being_asked_none_are_told() -> None:
    async def use(client: Client) -> None:
        body = asked()
        del body["prompt_logprobs"]
        assert (await client.post(PATH, body))[1]["choices"][0]["prompt_logprobs"] is None

    with_engine(use)
