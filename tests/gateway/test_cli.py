"""The command line: quick help, mistakes told in a line, the whole thing started, drained and orphaned."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import aiohttp
import pytest
import yaml

from gateway.clients.listen import listen, shown
from tests.connections import unheard
from tests.gateway.programs import REPOSITORY, Program, program, shadowlane


def said_by(*argv: str, env: dict[str, str] | None = None, stdin: str = "") -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command that ends by itself."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})}
    done = subprocess.run(
        shadowlane(*argv), env=environment, input=stdin, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    status, text, _ = said_by("--help")
    assert status == 0
    for command in ("serve", "check", "report", "demo", "top", "key", "emulate", "version"):
        assert f"    {command} " in text
    assert "_worker" not in text
    program_ = (
        "import sys\nfrom gateway.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pydantic', 'aiohttp', 'asyncio', 'structlog', 'numpy', 'yaml', 'prometheus_client'}\n"
        "sys.exit(1 if heavy & set(sys.modules) else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    assert (
        subprocess.run([sys.executable, "-c", program_], env=environment, capture_output=True).returncode == 0
    )


@pytest.mark.parametrize("command", ["serve", "check", "report", "demo", "top", "key", "version"])
def test_each_commands_help_shows_an_example(command: str) -> None:
    status, text, _ = said_by(command, "--help")
    assert status == 0
    assert f"\n  shadowlane {command}" in text


def test_version_is_one_line_and_says_whether_the_compiled_form_runs(tmp_path: Path) -> None:
    status, text, _ = said_by("version")
    assert (status, text.count("\n"), text.startswith("shadowlane ")) == (0, 1, True)
    assert f"(not compiled, Python {sys.version_info[0]}.{sys.version_info[1]}." in text
    (tmp_path / "wire").mkdir()
    for file in (REPOSITORY / "wire").glob("*.py"):
        (tmp_path / "wire" / file.name).symlink_to(file)
    (tmp_path / "wire" / f"http1{EXTENSION_SUFFIXES[0]}").touch()  # found before the source beside it
    said = said_by("version", env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"})
    assert said[0] == 0 and "(compiled, " in said[1], said


def test_a_new_key_is_told_once_with_the_entry_that_knows_it() -> None:
    """What is to be kept is on standard output, the key for itself; words about it are not."""
    status, text, told = said_by("key", "search-team")
    key, _, rest = text.partition("\n")
    again, entry, nothing = said_by("key", "search-team", "--stdin", stdin=key + "\n")
    assert (status, again, nothing) == (0, 0, "")
    assert rest == entry and "#" not in text and key not in told and "kept nowhere" in told
    assert key.startswith("sl-") and key not in entry
    assert text.endswith(entry) and entry.startswith("- name: search-team\n  hash: sha256:")
    assert said_by("key")[1] != text
    for odd in ("true", "123", "a: b", "# c", "é"):
        entry = said_by("key", odd)[1].partition("\n")[2]
        assert yaml.safe_load(entry)[0]["name"] == odd


def test_a_key_that_could_be_guessed_gets_no_hash() -> None:
    status, text, told = said_by("key", "--stdin", stdin="secret\n")
    assert (status, text) == (2, "")
    assert "16" in told and "secret" not in told


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "--engine URL"),
        (["--engine", "ftp://x"], "http://"),
        (["-c", "/no/such/file.yaml"], "no such file"),
        (["--engine", "http://a:1", "--candidate", "x=http://b:1"], "--control"),
        (["--engine", "http://a:1", "--workers", "0"], "workers"),
        (["--engine", "http://a:1", "--listen", "8080"], "listen"),
    ],
)
def test_wrong_settings_end_with_2_and_say_what_is_wrong(command: str, flags: list[str], told: str) -> None:
    status, out, err = said_by(command, *flags)
    assert (status, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_a_wrong_file_starts_nothing(tmp_path: Path) -> None:
    config = tmp_path / "shadowlane.yaml"
    config.write_text(
        f"listen: 127.0.0.1:0\nstate_dir: {tmp_path / 'state'}\n"
        "fleets:\n- model: m\n  engines: [http://a:1]\n  policy: {name: prefix_cots}\n"
    )
    status, out, err = said_by("serve", "-c", str(config))
    assert (status, out) == (2, "")
    assert "fleets[0].policy.name" in err
    assert "prefix_cost" in err
    assert not (tmp_path / "state").exists()
    config.write_text("fleets:\n- engines: [http://a:1]\nworkrs: 2\n")
    status, _, err = said_by("serve", env={"SHADOWLANE_CONFIG": str(config)})
    assert status == 2
    assert "workers" in err


@pytest.mark.parametrize("flag", ["--listen", "--admin"])
def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path, flag: str) -> None:
    (held,) = listen("127.0.0.1:0")
    with held:
        taken = shown(held)
        addresses = {"--listen": "127.0.0.1:0", "--admin": "127.0.0.1:0", flag: taken}
        flags = [word for pair in addresses.items() for word in pair]
        state = str(tmp_path / "state")
        status, out, err = said_by("serve", "--engine", "http://a:1", "--state-dir", state, *flags)
    assert (status, out) == (1, "")
    assert f"{taken} is taken" in err
    assert len(err.splitlines()) == 1


def test_check_of_an_engine_that_is_not_there_fails_and_says_so() -> None:
    with unheard() as port:
        status, out, err = said_by("check", "--engine", f"http://127.0.0.1:{port}")
    assert (status, err) == (1, "")
    assert "not reachable: connection refused" in out


def test_a_report_on_nothing_names_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "fp8").mkdir()
    (tmp_path / "fp8" / "log.msgpack").write_bytes(b"junk")
    status, _, err = said_by("report", "fp9", "--state-dir", str(tmp_path))
    assert (status, "there are: fp8" in err, len(err.splitlines())) == (1, True, 1)
    status, _, err = said_by("report", "fp8", "--state-dir", str(tmp_path))
    assert (status, "Traceback" in err, len(err.splitlines())) == (1, False, 1)


@contextmanager
def serving(tmp_path: Path, *flags: str) -> Iterator[tuple[Program, str]]:
    """`shadowlane serve` in front of an emulated engine that answers slowly, and its URL."""
    with program(shadowlane("emulate", "--port", "0", "--model", "m", "--base-ms", "20")) as engine:
        url = json.loads(engine.line('"url"'))["url"]
        argv = shadowlane("serve", "--engine", url, "--state-dir", str(tmp_path / "state"), *flags)
        with program([*argv, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]) as gateway:
            yield gateway, gateway.line("listening on").split()[2]


def ask(max_tokens: int) -> dict[str, object]:
    return {
        "model": "m", "stream": True, "max_tokens": max_tokens, "ignore_eos": True,
        "messages": [{"role": "user", "content": "Hello"}],
    }  # fmt: skip


def test_sigterm_lets_a_running_stream_finish_then_nothing_listens_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    async def streamed(gateway: Program, url: str) -> str:
        """The whole of a stream during which the gateway is told to end."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/chat/completions", json=ask(100)) as answer,
        ):
            text = (await answer.content.readany()).decode()
            os.kill(gateway.pid, signal.SIGTERM)
            return text + (await answer.read()).decode()

    with serving(tmp_path) as (gateway, url):
        text = asyncio.run(streamed(gateway, url))
        assert text.endswith("data: [DONE]\n\n")
        assert text.count("\ndata: ") > 50
        assert gateway.ended() == 0
        assert "ended cleanly" in gateway.said
        host, _, port = url.removeprefix("http://").rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


@pytest.mark.skipif(sys.platform != "linux", reason="children learn of a killed parent on Linux only")
def test_children_do_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as (gateway, _url):
        os.kill(gateway.pid, signal.SIGKILL)
        assert gateway.ended() == -signal.SIGKILL  # and its output ended, which the children had a hand on


def test_two_workers_share_one_address_and_outlive_one_death(tmp_path: Path) -> None:
    async def chats(url: str, n: int) -> list[int]:
        async def one() -> int:
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{url}/v1/chat/completions", json=ask(2)) as answer,
            ):
                assert (await answer.read()).endswith(b"data: [DONE]\n\n")
                return answer.status

        return await asyncio.gather(*(one() for _ in range(n)))

    with serving(tmp_path, "--workers", "2") as (gateway, url):
        started = [json.loads(line) for line in gateway.lines if '"started"' in line]
        workers = [line["pid"] for line in started if line["child"].startswith("worker-")]
        assert len(workers) == 2
        assert asyncio.run(chats(url, 8)) == [200] * 8
        os.kill(workers[0], signal.SIGKILL)
        gateway.line("child died")
        assert asyncio.run(chats(url, 8)) == [200] * 8
        gateway.line(lambda line: '"started"' in line)
        os.kill(gateway.pid, signal.SIGTERM)
        assert gateway.ended() == 0


def test_a_second_run_on_the_same_experiments_is_refused(tmp_path: Path) -> None:
    with unheard() as one, unheard() as other:
        arms = ["--control", f"http://127.0.0.1:{one}", "--candidate", f"x=http://127.0.0.1:{other}"]
        with serving(tmp_path, *arms):
            status, _, err = said_by(
                "serve", "--engine", "http://a:1", "--state-dir", str(tmp_path / "state"), *arms,
                "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            )  # fmt: skip
    assert (status, "another shadowlane" in err, len(err.splitlines())) == (1, True, 1)
