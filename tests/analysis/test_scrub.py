"""The operator's command sees text before it is written: what it does not give back is not."""

import asyncio
import sys

import pytest
import structlog

from analysis.scrub import Scrubber, Text
from tests.procfs import open_files
from tests.support import until

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
def test_where_the_command_fails_no_text_comes_back(script: str) -> None:
    text, done = Text({"prompt": "zebra"}, "walrus"), list[Text]()

    async def scene() -> None:
        scrubber = Scrubber(command(script), structlog.get_logger())
        task = asyncio.get_running_loop().create_task(scrubber.run())
        try:
            scrubber.scrub(text, done.append)
            await until(lambda: len(done) == 1, 30)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert scrubber.lost == {"failed": 1}

    asyncio.run(scene())
    assert done == [Text(None, None)]


def test_a_command_that_is_not_there_or_behind_costs_text_and_what_waits_at_the_end_goes_without() -> None:
    text, done = Text({"prompt": "z" * (40 << 20)}), list[Text]()

    async def scene() -> None:
        scrubber = Scrubber(("/no/such/command",), structlog.get_logger())
        scrubber.scrub(text, done.append)
        scrubber.scrub(text, done.append)  # together more than may wait
        assert scrubber.lost == {"waiting": 1}
        scrubber.close()
        assert scrubber.lost == {"waiting": 1, "stopped": 1}

    asyncio.run(scene())
    assert done == [Text(None, None)] * 2


def test_a_pipe_that_another_process_holds_is_closed_when_the_command_is_ended() -> None:
    leaves = "import subprocess as s; s.Popen(['sleep', '20'], start_new_session=True)\n" + UPPER
    text, done = Text({"messages": [{"content": "a"}]}, "walrus"), list[Text]()

    async def scene() -> list[str]:
        before = open_files()
        scrubber = Scrubber(command(leaves), structlog.get_logger(), ends_s=0.5)
        task = asyncio.get_running_loop().create_task(scrubber.run())
        scrubber.scrub(text, done.append)
        await until(lambda: len(done) == 1, 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [pipe for _, pipe in open_files() - before if "pipe" in pipe]

    assert not asyncio.run(scene())
    assert done[0].request == {"messages": [{"content": "A"}]}
