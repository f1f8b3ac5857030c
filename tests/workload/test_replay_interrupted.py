"""`shadowlane replay` that is interrupted tells what it has, and what was typed wrong before it sends."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from tests.recording.staging import answer
from tests.support import Engine, Peer
from workload.command import main


def trace(folder: Path, requests: int) -> Path:
    """One conversation: each turn is sent once the one before it has ended."""
    file = folder / "trace.jsonl"
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    fields = {"input_length": 20, "output_length": 2, "session": "s", "request": body}
    with file.open("w") as lines:
        for n in range(requests):
            own = {"timestamp": n, "hash_ids": [n], "id": f"r{n}", "parent": f"r{n - 1}" if n else None}
            lines.write(json.dumps({**fields, **own, "turn": n}) + "\n")
    return file


def test_at_sigint_what_has_ended_is_shown_what_is_open_is_left_and_the_exit_status_says_so(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        seen, left = 0, asyncio.Event()

        async def two_and_no_more(peer: Peer) -> None:
            nonlocal seen
            seen += 1
            if seen <= 2:
                await peer.send(*answer("one two", 20, 2))
                return
            replay.send_signal(signal.SIGINT)
            assert await peer.left()
            left.set()

        engine = Engine(two_and_no_more)
        await engine.start()
        argv = [sys.executable, "-m", "gateway.cli", "replay", str(trace(tmp_path, 3)), "--to", engine.url]
        out = tmp_path / "rows.jsonl"
        replay = await asyncio.create_subprocess_exec(*argv, "--out", str(out), stdout=-1, stderr=-1)
        try:
            async with asyncio.timeout(60):
                printed, said = await replay.communicate()
                await left.wait()
        finally:
            await engine.stop()
        assert replay.returncode == 130
        assert b"2 of 2 ended well" in printed
        assert b"interrupted: these are the 2 of 3 requests that had ended" in said
        assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["r0", "r1"]

    asyncio.run(scene())


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_a_folder_that_is_not_there_is_told_before_anything_is_sent(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Port 0 answers nobody: had anything been sent, that would be told instead.
    wrong = str(tmp_path / "no" / "rows.jsonl")
    assert main(["replay", str(trace(tmp_path, 1)), "--to", "http://127.0.0.1:0", option, wrong]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_an_argument_that_is_not_known_is_told_with_the_usage_of_its_own_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["workload", "sweep", "--to", "http://127.0.0.1:0", "--input", "200"])
    said = capsys.readouterr().err
    assert "usage: shadowlane workload sweep" in said and "--prompt-tokens" in said
    assert "unrecognized arguments: --input 200" in said
