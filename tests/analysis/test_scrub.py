"""The operator's command sees text before it is written: what it does not give back is not."""

import asyncio
import sys
from pathlib import Path

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


class Log:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, str]]] = []

    def error(self, what: str, **more: str) -> None:
        self.told.append((what, more))

    info = error


def test_why_a_command_does_not_answer_is_told_once_with_its_name_and_nothing_else_of_it(
    tmp_path: Path,
) -> None:
    """It is tried again each second, for as long as there are texts."""
    program, log, done = tmp_path / "clean", Log(), list[Text]()
    text = Text({"messages": [{"content": "a"}]}, "walrus")

    async def scene() -> None:
        scrubber = Scrubber((str(program), "a-key"), log)
        task = asyncio.get_running_loop().create_task(scrubber.run())
        for n in (1, 2):
            scrubber.scrub(text, done.append)
            await until(lambda n=n: len(done) == n, 30)  # type: ignore[misc]
        assert [what for what, _ in log.told] == ["text is kept no more until redact_command answers"]
        program.write_text(f"#!{sys.executable}\n{UPPER}")
        program.chmod(0o700)
        scrubber.scrub(text, done.append)
        await until(lambda: len(done) == 3, 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scene())
    (_, failed), (again, _) = log.told
    assert again == "redact_command answers again"
    assert (
        failed["command"] == str(program) and "No such file" in failed["why"] and "a-key" not in str(log.told)
    )
    assert [one.request for one in done] == [None, None, {"messages": [{"content": "A"}]}]


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
