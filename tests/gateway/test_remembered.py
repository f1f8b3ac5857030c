"""Through a whole gateway: what an engine answered takes room among what it is taken to hold."""

import json
from typing import Final

import pytest

from routing.index import DEFAULT_CAPACITY_BYTES
from tests.support import FINISH, TOKEN, Engine, ask, post, running, streams
from tests.support_shared import access_lines, run

_MOST: Final = DEFAULT_CAPACITY_BYTES // 4  # tokens of four bytes, until another length is learned


def question(text: str, id: str) -> bytes:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text * 500}]}
    return post(json.dumps(body).encode(), "/v1/chat/completions", f"X-Request-Id: {id}")


@pytest.mark.parametrize(("tokens", "stays"), [(10, True), (_MOST, False)])
def test_a_long_answer_takes_the_place_of_what_was_asked_before(
    tokens: int, stays: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        told = json.dumps({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}})
        engine = Engine(streams(TOKEN, FINISH, told))
        async with running(engine, access_share=1.0) as gateway:
            for text, id in (("early", "first"), ("later", "other"), ("early", "again")):
                assert (await ask(gateway.port, question(text, id))).is_whole

    run(test())
    lines = access_lines(capfd)
    assert lines["first"]["cached_bytes"] == lines["other"]["cached_bytes"] == 0
    assert (lines["again"]["cached_bytes"] > 0) is stays
