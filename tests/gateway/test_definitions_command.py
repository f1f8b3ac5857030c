"""`shadowlane definitions`: one answer of an engine under every tool's definition, or why there is none."""

import asyncio
import json
from io import StringIO

import pytest
from rich.console import Console

from gateway.commands.definitions import command, measure, table
from tests.support import Engine, Script, answers, json_answer, streams


def part(finish: str | None = None, **delta: str) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


STREAM = streams(
    part(role="assistant", content=""),
    part(content="one "),
    part(content="two"),
    part("stop"),
    json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
)


def asked(script: Script) -> tuple[str, list[bytes]]:
    """The table that an engine with this script leads to, and what the engine was asked."""

    async def run() -> tuple[str, list[bytes]]:
        engine = Engine(script)
        await engine.start()
        try:
            rows = await measure(engine.url + "/v1/", "llama", "Hello.", 7, 30.0)
        finally:
            await engine.stop()
        written = StringIO()
        console = Console(width=120, file=written)
        console.print(table(rows))
        return written.getvalue(), [peer.body for peer in engine.asked]

    return asyncio.run(run())


def test_every_tool_has_its_row_and_the_engine_is_asked_once_for_a_stream_with_usage() -> None:
    shown, bodies = asked(STREAM)
    for tool in ("Shadowlane", "AIPerf", "GuideLLM", "genai-bench", "inference-perf", "vLLM", "LLMPerf"):
        assert tool in shown
    [body] = [json.loads(body) for body in bodies]
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (body["model"], body["max_tokens"]) == ("llama", 7)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (answers(json_answer(b"{}", "503 Service Unavailable")), "503"),
        (answers(json_answer(b'{"choices":[]}')), "stream"),
    ],
)
def test_an_engine_that_does_not_answer_in_a_stream_is_told(script: Script, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asked(script)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nowhere"])
def test_an_engine_that_is_not_there_is_said_on_stderr(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(url, None, "x", 1, 10.0) == 1
    assert capsys.readouterr().err.startswith("shadowlane definitions: ")
