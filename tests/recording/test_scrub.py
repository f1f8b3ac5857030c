"""The operator's command sees text before it is written: what it does not give back is not."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.recording.scrub import Scrubber
from tests.failures.shadowed import served
from tests.procfs import open_files
from tests.recording.staging import answer, at_rest, chat, recorded
from tests.support import Engine, answers, until
from workload.row import Row

UPPER = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    said["request"]["messages"][0]["content"] = said["request"]["messages"][0]["content"].upper()
    said["answer"] = None
    print(json.dumps(said), flush=True)
"""


# Deeper than any Python decodes.
DEEP = """'{"answer":"","request":{"a":' + '[' * 500_000 + ']' * 500_000 + '}}'"""


def command(script: str) -> tuple[str, ...]:
    return sys.executable, "-c", script


def test_only_what_the_command_gives_back_is_written(tmp_path: Path) -> None:
    async def scene() -> None:
        engine = Engine(answers(*answer("walrus-canary said", 9, 2)))
        more: dict[str, Any] = {"redact": (r"secret",), "redact_command": command(UPPER), "packing": "none"}
        async with recorded(tmp_path, engine, text=True, **more) as there:
            for n in range(5):
                assert await served(there.gateway, chat(f"a secret zebra-canary {n}"))
            await until(lambda: there.folder.exists() and at_rest(tmp_path)[0].count(b"ZEBRA") == 5, 30)
            found = await there.ended()
        written, _ = at_rest(tmp_path)
        assert b"canary" not in written and b"secret" not in written
        said = [one.request["messages"][0]["content"] for one in found if one.request is not None]
        assert said == [f"A [REDACTED] ZEBRA-CANARY {n}" for n in range(5)]
        assert all(one.answer is None and one.output_length == 2 for one in found)

    asyncio.run(scene())


@pytest.mark.parametrize(
    "script",
    [
        "",
        "import sys; sys.exit(3)",
        "print('no json', flush=True); input()",
        'print(\'{"request": 5, "answer": null}\', flush=True); input()',
        "print('{}', flush=True); input()",
        'print(\'{"request": null, "answer": null, "more": 1}\', flush=True); input()',
        f"print({DEEP}, flush=True); input()",
    ],
)
def test_where_the_command_fails_figures_are_written_and_no_text(script: str) -> None:
    row = Row(timestamp=0, input_length=3, output_length=1, request={"prompt": "zebra"}, answer="walrus")
    done: list[Row] = []

    async def scene() -> None:
        scrubber = Scrubber(command(script), structlog.get_logger())
        task = asyncio.get_running_loop().create_task(scrubber.run())
        try:
            scrubber.scrub(row, done.append)
            await until(lambda: len(done) == 1, 30)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert scrubber.lost == {"failed": 1}

    asyncio.run(scene())
    assert done[0].request is None and done[0].answer is None and done[0].input_length == 3


def test_a_command_that_is_not_there_or_behind_costs_text_and_what_waits_at_the_end_goes_without() -> None:
    row = Row(timestamp=0, input_length=3, output_length=1, request={"prompt": "z" * (40 << 20)})
    done: list[Row] = []

    async def scene() -> None:
        scrubber = Scrubber(("/no/such/command",), structlog.get_logger())
        scrubber.scrub(row, done.append)
        scrubber.scrub(row, done.append)  # together more than may wait
        assert scrubber.lost == {"waiting": 1}
        scrubber.close()
        assert scrubber.lost == {"waiting": 1, "stopped": 1}

    asyncio.run(scene())
    assert len(done) == 2 and all(one.request is None for one in done)


def test_a_pipe_that_another_process_holds_is_closed_when_the_command_is_ended() -> None:
    leaves = "import subprocess as s; s.Popen(['sleep', '20'], start_new_session=True)\n" + UPPER
    message = {"messages": [{"content": "a"}]}
    row = Row(timestamp=0, input_length=3, output_length=1, request=message, answer="walrus")
    done: list[Row] = []

    async def scene() -> list[str]:
        before = open_files()
        scrubber = Scrubber(command(leaves), structlog.get_logger(), ends_s=0.5)
        task = asyncio.get_running_loop().create_task(scrubber.run())
        scrubber.scrub(row, done.append)
        await until(lambda: len(done) == 1, 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [pipe for _, pipe in open_files() - before if "pipe" in pipe]

    assert not asyncio.run(scene())
    assert done[0].request == {"messages": [{"content": "A"}]}
