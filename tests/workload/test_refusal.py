"""What a server refuses is told in its own words: a model or a path it lacks, and every load that fails."""

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from emulator.params import EngineParams
from emulator.server import start
from tests.recording.staging import answer
from tests.support import Engine, Script, answers, json_answer
from workload.asks import CHAT, Ask
from workload.command import main
from workload.refusal import words_of
from workload.replay import HttpSender, NotServedError, Settings, open_loop
from workload.replaying import session

NO_MODEL = b'{"object":"error","message":"The model `other` does not exist.","code":404}'
NO_PATH = b'{"detail":"Not Found"}'
FULL = b'{"error":{"message":"the queue is full","code":503}}'


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b'{"error": {"message": "no such model", "code": 404}}', "no such model"),
        (b'{"error": "no such model"}', "no such model"),
        (NO_MODEL, "The model `other` does not exist."),
        (NO_PATH, "Not Found"),
        (b"404 page\n not found\n", "404 page not found"),
        (b"\x1b[31mred", "·[31mred"),
        (b'{"error": {}}', None),
        (b"[]", None),
        (b"", None),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"x" * 999, "x" * 199 + "…"),
    ],
)
def test_the_words_are_found_wherever_an_engine_puts_them(said: bytes, words: str | None) -> None:
    assert words_of(said) == words


async def learnt(script: Script, model: str | None) -> None:
    engine = Engine(script)
    await engine.start()
    try:
        async with session() as http:
            await HttpSender(http, Settings(engine.url), clock=time.monotonic).learn(CHAT, model)
    finally:
        await engine.stop()


def test_a_model_that_is_not_there_is_no_path_that_is_not_there() -> None:
    with pytest.raises(ValueError, match=r"refuses the model: .*`other` does not exist.*--model") as raised:
        asyncio.run(learnt(answers(json_answer(NO_MODEL, "404 Not Found")), "other"))
    assert not isinstance(raised.value, NotServedError)
    with pytest.raises(NotServedError, match=rf"does not serve {CHAT}: status 404: Not Found"):
        asyncio.run(learnt(answers(json_answer(NO_PATH, "404 Not Found")), "other"))
    with pytest.raises(ValueError, match=r"status 503: the queue is full"):
        asyncio.run(learnt(answers(json_answer(FULL, "503 Service Unavailable")), None))


def test_a_request_asks_for_the_model_of_its_row_whatever_was_made_of_its_text() -> None:
    """A command that redacts may replace any string of a body."""

    async def scene() -> str:
        engine = Engine(answers(*answer("one", 5, 1)))
        await engine.start()
        body = {"model": "[redacted]", "messages": [{"role": "user", "content": "so"}]}
        try:
            async with aiohttp.ClientSession() as http:
                sender = HttpSender(http, Settings(engine.url), clock=time.monotonic)
                await open_loop(
                    [Ask(0.0, "a", 5, 1, body=body, model="m")], sender.send, clock=time.monotonic
                )
        finally:
            await engine.stop()
        return str(json.loads(engine.asked[0].body)["model"])

    assert asyncio.run(scene()) == "m"


def test_a_replay_of_a_wrong_model_says_what_the_engine_says(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    row = {"timestamp": 0, "input_length": 9, "output_length": 2, "hash_ids": [1], "model": "x"}
    file.write_text(json.dumps(row) + "\n")

    async def scene() -> tuple[int | None, str]:
        engine = await start(EngineParams(model="m"), "127.0.0.1", 0)
        argv = [sys.executable, "-m", "gateway.cli", "replay", str(file), "--to", engine.url]
        try:
            replay = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.PIPE)
            async with asyncio.timeout(60):
                _, told = await replay.communicate()
            return replay.returncode, told.decode()
        finally:
            await engine.close()

    status, told = asyncio.run(scene())
    assert status == 2 and "refuses the model" in told and "`x`" in told and "does not serve" not in told


async def swept(refuses_after: int) -> int:
    """A sweep of loads of 2 and 4, of a server that refuses all but the first so many requests."""
    served = 0

    async def script(peer: object) -> None:
        nonlocal served
        served += 1
        whole = answer("one two", 32, 2) if served <= refuses_after else [json_answer(FULL, "503 Full")]
        await peer.send(*whole)  # type: ignore[attr-defined]

    engine = Engine(script)
    await engine.start()
    argv = ["workload", "sweep", "--to", engine.url, "--model", "m", "--depths", "2,4"]
    try:
        return await asyncio.to_thread(main, [*argv, "--prompt-tokens", "32", "--output-tokens", "2"])
    finally:
        await engine.stop()


def test_a_sweep_of_which_nothing_ended_well_fails_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert asyncio.run(swept(2)) == 1  # the two by which tokens are learned
    said = capsys.readouterr().out
    assert "failed at 2: 2 status 503 (the server: the queue is full)" in said
    assert "no request ended well at any depth" in said


def test_a_sweep_that_finds_the_end_of_what_a_server_bears_has_done_its_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert asyncio.run(swept(4)) == 0
    said = capsys.readouterr().out
    assert "failed at 4: 4 status 503" in said and "failed at 2" not in said
    assert "largest depth of which 99% keep the SLO: 2" in said


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--share 99", "a share: above 0, at most 1"),
        ("--share 0", "a share: above 0, at most 1"),
        ("--share nan", "a share: above 0, at most 1"),
        ("--depths 0", "whole numbers of at least 1"),
        ("--concurrency 0.4", "whole numbers of at least 1"),
        ("--rates a", "numbers above 0"),
        ("--rates 1,,2", "numbers above 0"),
        ("--rates inf", "numbers above 0"),
        ("--seconds 0", "a number above 0"),
        ("--most-open 0", "a whole number of at least 1"),
        ("--timeout -1", "a number above 0"),
        ("--slo-ttft-ms 0", "a number above 0"),
        ("--shared-tokens -1", "a whole number of at least 0"),
        ("--prompt-tokens 0", "whole numbers of at least 1"),
    ],
)
def test_a_number_that_means_nothing_is_refused_with_what_would_do(
    flags: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["workload", "sweep", "--to", "http://127.0.0.1:1", *flags.split(" ")])
    assert ended.value.code == 2
    assert f"expected {told}" in capsys.readouterr().err


def test_prompts_share_no_more_than_they_have(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["workload", "sweep", "--to", "http://127.0.0.1:1", "--depths", "1", "--prompt-tokens", "9,99"]
    assert main([*argv, "--shared-tokens", "10"]) == 2
    assert "expected at most 9" in capsys.readouterr().err
