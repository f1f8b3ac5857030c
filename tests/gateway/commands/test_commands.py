"""What is typed of an experiment, a folder or a number that there is not is told as that; nothing is done."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from gateway.cli import main

Said = pytest.CaptureFixture[str]


@pytest.fixture
def admin() -> Iterator[str]:
    """An admin address that has no experiment but fp8-kv, as the real one says so."""

    async def none(_request: web.Request) -> web.Response:
        message = "no such experiment; there are: fp8-kv"
        return web.json_response({"error": {"message": message, "code": "experiment_not_found"}}, status=404)

    async def start() -> tuple[web.AppRunner, str]:
        app = web.Application()
        app.router.add_get("/{path:.*}", none)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner, url = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    yield url
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_top_of_no_such_experiment_names_those_there_are(admin: str, capsys: Said) -> None:
    assert main(["top", "fp4", "--admin", admin]) == 1
    said = capsys.readouterr().err
    assert said == "shadowlane top: no such experiment; there are: fp8-kv\n"


def test_top_of_nobody_says_that_nobody_answers(capsys: Said) -> None:
    assert main(["top", "fp4", "--admin", "http://127.0.0.1:1"]) == 1
    assert "does not answer as a Shadowlane's admin address does" in capsys.readouterr().err


def test_nothing_is_forgotten_in_a_folder_that_is_not_there(tmp_path: Path, capsys: Said) -> None:
    argv = ["experiment", "forget", "--all", "--id", "x", "--state-dir"]
    assert main([*argv, str(tmp_path / "nostate")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert main([*argv, str(tmp_path)]) == 0
    assert "there is nothing to forget" in capsys.readouterr().out


@pytest.mark.parametrize("limit", ["0", "-3", "x", "1.5"])
def test_a_list_of_pairs_has_one_at_least(limit: str, capsys: Said) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["diff", "fp8-kv", "--limit", limit])
    assert ended.value.code == 2
    assert "expected a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("below", ["", "inside"])
def test_a_recording_does_not_go_where_a_file_is(below: str, tmp_path: Path, capsys: Said) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    to = file / below if below else file
    assert main(["record", "--to", str(to), "--engine", "http://127.0.0.1:1"]) == 2
    said = capsys.readouterr().err
    assert "record.to: expected a folder for the recording's files" in said and f"the file {file}" in said
    assert file.read_text() == "mine"


def test_a_recordings_folder_may_be_there_or_not_yet(tmp_path: Path, capsys: Said) -> None:
    for to in (tmp_path, tmp_path / "new" / "one"):
        config = tmp_path / "shadowlane.yaml"
        config.write_text(f"fleets:\n- engines: [http://127.0.0.1:1]\nrecord: {{to: '{to}'}}\n")
        assert main(["check", "-c", str(config)]) == 1  # nobody answers at port 1
        assert "not reachable" in capsys.readouterr().out
