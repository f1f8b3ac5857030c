"""A whole gateway keeps a session, named in the head, at one engine."""

import json

import pytest

from tests.support import Engine, answers, ask, json_answer, post, running
from tests.support_shared import run


def question(n: int, *head: str) -> bytes:
    said = {"model": "m", "messages": [{"role": "user", "content": f"Question {n}?"}]}
    return post(json.dumps(said).encode(), "/v1/chat/completions", *head)


@pytest.mark.parametrize("policy", ["session", "prefix_cost"])
def test_a_session_named_in_the_head_stays_at_one_engine(policy: str) -> None:
    async def test() -> None:
        engines = [Engine(answers(json_answer(b"{}"))) for _ in range(3)]
        async with running(*engines, policy=policy, session_headers=("x-session-id",)) as gateway:
            for n in range(20):
                assert (await ask(gateway.port, question(n, "X-Session-Id: mine"))).status == 200
            assert sorted(len(engine.asked) for engine in engines) == [0, 0, 20]
            for n in range(30):
                assert (await ask(gateway.port, question(n, f"X-Session-Id: {n}"))).status == 200
            assert all(len(engine.asked) for engine in engines), "each session has its own"

    run(test())
