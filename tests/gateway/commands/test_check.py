"""`shadowlane check`: every engine asked on a real socket, what is missing said, the status right."""

import asyncio
import io
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import web

from config.load import load
from config.schema import Config
from gateway.commands.check import check
from gateway.fleets.probe import Place, ask_all
from tests.connections import listening, unheard

FIXTURES = Path(__file__).parents[1] / "fixtures"
Answers = Mapping[str, tuple[int, str]]


def recorded(engine: str) -> Answers:
    """What `engine` answered: path -> (status, body)."""
    answers: Answers = json.loads((FIXTURES / f"answers_{engine}.json").read_text())
    return answers


async def started(answers: Answers, key: str | None, stack: AsyncExitStack) -> str:
    """The URL of a server that gives `answers`, to who has `key`."""

    async def answer(request: web.Request) -> web.Response:
        if key is not None and request.headers.get("authorization") != f"Bearer {key}":
            return web.Response(status=401)
        status, body = answers.get(request.path, (404, ""))
        return web.Response(status=status, text=body)

    async def embed(request: web.Request) -> web.Response:
        if key is not None and request.headers.get("authorization") != f"Bearer {key}":
            return web.Response(status=401)
        texts = (await request.json())["input"]
        return web.json_response({"data": [{"index": i, "embedding": [0.5] * 3} for i in range(len(texts))]})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    if "/v1/embeddings" in answers:
        app.router.add_post("/v1/embeddings", embed)
    runner = web.AppRunner(app)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    return f"http://127.0.0.1:{runner.addresses[0][1]}"


def checked(
    engines: Mapping[str, tuple[Answers, str | None]], settings: Callable[[Mapping[str, str]], Any]
) -> tuple[int, str]:
    """Exit status and text of `check` for the config that `settings` makes of the engines' URLs."""

    async def run() -> tuple[int, str]:
        async with AsyncExitStack() as stack:
            urls = {name: await started(*engine, stack) for name, engine in engines.items()}
            config: Config = load(None, {}, settings(urls))
            out = io.StringIO()
            status = await asyncio.to_thread(check, config, out, timeout_s=10)
            return status, out.getvalue()

    return asyncio.run(run())


def test_each_engine_is_described_and_all_reachable_is_success() -> None:
    engines = {name: (recorded(name), None) for name in ("vllm", "sglang", "llamacpp")}
    status, text = checked(
        engines,
        lambda urls: {
            "fleets": [{"engines": [urls["vllm"]]}],
            "experiments": [
                {
                    "name": "t",
                    "control": {"engine": urls["sglang"]},
                    "candidates": [{"name": "x", "engine": urls["llamacpp"]}],
                }
            ],
        },
    )
    assert status == 0
    assert "reachable: vllm 0.32.0" in text
    assert "reachable: sglang 0.5.23" in text
    assert "reachable: llamacpp" in text
    assert "t: candidate x" in text
    assert "3 engines: all reachable" in text


def test_an_engine_that_is_not_there_is_failure_with_the_reason() -> None:
    with unheard() as port:
        url = f"http://127.0.0.1:{port}"
        status, text = checked({}, lambda _urls: {"fleets": [{"engines": [url]}]})
    assert status == 1
    assert "not reachable: connection refused" in text


def test_engines_that_are_looked_up_are_named_as_not_asked() -> None:
    looked_up = {"discover": {"file": "/srv/phi.json"}}
    status, text = checked({}, lambda _urls: {"fleets": [{"model": "phi", **looked_up}]})
    assert status == 0
    assert "engines of file /srv/phi.json  (fleet phi)\n  not asked" in text
    assert "no engine to ask" in text
    assert "reachable" not in text
    engine = {"e": (recorded("vllm"), None)}
    _, text = checked(engine, lambda urls: {"fleets": [{"engines": [urls["e"]], **looked_up}]})
    assert "(fleet default)\n  not asked" in text
    assert "1 engine: all reachable" in text


def test_what_is_missing_is_said_with_what_to_do() -> None:
    answers = dict(recorded("sglang"))
    answers["/metrics"] = (404, "")
    status, text = checked(
        {"e": (answers, None)},
        lambda urls: {"fleets": [{"model": "other", "engines": [{"url": urls["e"], "kind": "vllm"}]}]},
    )
    assert status == 0
    assert "the config says vllm, it looks like sglang" in text
    assert "the name other: it is tiny there, and answers all the same" in text
    assert "--enable-cache-report" in text
    assert "--enable-metrics" in text


def test_a_role_is_held_against_what_an_engine_was_started_for() -> None:
    """SGLang tells it; the port where pairs meet too."""
    alone = dict(recorded("sglang"))
    for path in ("/server_info", "/get_server_info"):
        alone[path] = (200, json.dumps({**json.loads(alone[path][1]), "disaggregation_mode": "null"}))
    half = dict(alone)
    for path in ("/server_info", "/get_server_info"):
        told = {**json.loads(half[path][1]), "disaggregation_mode": "prefill"}
        half[path] = (200, json.dumps({**told, "disaggregation_bootstrap_port": 9000}))

    def roles(urls: Mapping[str, str]) -> Any:
        engines = [{"url": urls["half"], "role": "prefill"}, {"url": urls["alone"], "role": "decode"}]
        return {"fleets": [{"model": "tiny", "engines": engines}]}

    status, text = checked({"half": (half, None), "alone": (alone, None)}, roles)
    assert status == 0
    assert "(fleet tiny, prefill)" in text
    assert "agreement: bootstrap_port is 8998 here, and 9000 there" in text
    assert "agreement: its role here is decode, and it was started for both" in text


def test_a_key_that_is_needed_is_asked_for_and_one_that_is_given_is_used_and_never_printed() -> None:
    engine = {"e": (recorded("vllm"), "sk-right")}
    status, text = checked(engine, lambda urls: {"fleets": [{"engines": [urls["e"]]}]})
    assert (status, "missing: a key: set api_key" in text) == (0, True)

    def keyed(key: str) -> Callable[[Mapping[str, str]], Any]:
        return lambda urls: {"fleets": [{"engines": [{"url": urls["e"], "api_key": key}]}]}

    status, text = checked(engine, keyed("sk-wrong"))
    assert (status, "it refused this one" in text) == (1, True)
    assert "1 engine: all reachable, 1 of them refusing the api_key" in text
    assert "sk-" not in text
    status, text = checked(engine, keyed("sk-right"))
    assert (status, "reachable: vllm 0.32.0" in text) == (0, True)
    assert "key" not in text


def test_an_engine_that_needs_a_key_and_is_never_shown_a_clients_is_failure() -> None:
    """Copies have no key but the arm's own, and where the gateway knows keys engines do not hear of them."""
    engines = {
        "open": (recorded("vllm"), None),
        "arm": (recorded("vllm"), None),
        "shut": (recorded("vllm"), "k"),
    }

    def mirrored(urls: Mapping[str, str]) -> Any:
        arms = {"control": {"engine": urls["arm"]}, "candidates": [{"name": "x", "engine": urls["shut"]}]}
        return {"fleets": [{"engines": [urls["open"]]}], "experiments": [{"name": "t", **arms}]}

    def keyed(urls: Mapping[str, str]) -> Any:
        return {
            "fleets": [{"engines": [urls["shut"]]}],
            "keys": [{"name": "a", "hash": "sha256:" + "a" * 64}],
        }

    for settings in (mirrored, keyed):
        status, text = checked(engines, settings)
        assert (status, "missing: a key: set api_key" in text) == (1, True)
        assert "1 of them refusing the api_key" in text


def test_a_server_that_accepts_and_says_nothing_is_told_within_the_time_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        (heard,) = ask_all([Place(url)], 0.3)
    assert heard.error == "no answer in time"


def test_a_server_that_speaks_something_else_is_told() -> None:
    async def run() -> str | None:
        async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")

        async with listening(greet) as port:
            (heard,) = await asyncio.to_thread(ask_all, [Place(f"http://127.0.0.1:{port}")], 5)
            return heard.error

    assert asyncio.run(run())


def test_a_recording_that_is_not_there_makes_the_configuration_wrong(tmp_path: Path) -> None:
    def settings(urls: Mapping[str, str]) -> Any:
        (tmp_path / "there").mkdir(exist_ok=True)
        (tmp_path / "there" / "one.jsonl").write_bytes(b'{"timestamp": 0}\n')
        (tmp_path / "empty").mkdir(exist_ok=True)
        (tmp_path / "bare").mkdir(exist_ok=True)
        (tmp_path / "bare" / "one.jsonl").write_bytes(b"\n\n")
        return {
            "fleets": [{"engines": [urls["vllm"]]}],
            "experiments": [
                {
                    "name": "t",
                    "mode": "replay",
                    "replay": {"files": [str(tmp_path / name) for name in names]},
                    "control": {"engine": urls["control"]},
                    "candidates": [{"name": "c", "engine": urls["c"]}],
                }
            ],
        }

    engines = {name: (recorded("vllm"), None) for name in ("vllm", "control", "c")}
    names = ["there"]
    assert checked(engines, settings)[0] == 0
    names = ["there", "gone"]
    status, text = checked(engines, settings)
    assert status == 2 and f"experiment t: replay: {tmp_path / 'gone'}: there is no such" in text
    for name, why in (("empty", "no file of traffic here"), ("bare", "there is no request in it")):
        names = ["there", name]
        status, text = checked(engines, settings)
        assert status == 2 and f"experiment t: replay: {tmp_path / name}: {why}" in text
        assert "`shadowlane record` writes one, once requests were served" in text


def test_a_server_of_embeddings_is_asked_for_some_and_one_that_gives_none_is_failure() -> None:
    engines = {name: (recorded("vllm"), None) for name in ("vllm", "control", "c")}
    embeds = {"/v1/embeddings": (200, "")}

    def settings(name: str, **more: str) -> Callable[[Mapping[str, str]], Any]:
        return lambda urls: {
            "fleets": [{"engines": [urls["vllm"]]}],
            "experiments": [
                {
                    "name": "t",
                    "control": {"engine": urls["control"]},
                    "candidates": [{"name": "c", "engine": urls["c"]}],
                    "similarity": {"url": urls[name], "model": "bge", **more},
                }
            ],
        }

    status, text = checked({**engines, "s": (embeds, "sk-right")}, settings("s", api_key="sk-right"))
    assert (status, "(t: similarity)\n  reachable: bge gives 3 numbers a text" in text) == (0, True)
    status, text = checked({**engines, "s": (embeds, "sk-right")}, settings("s", api_key="sk-wrong"))
    assert (status, "no embeddings of bge: it answered 401" in text) == (1, True)
    assert "sk-" not in text and "3 engines: all reachable" in text
    status, text = checked({**engines, "s": ({}, None)}, settings("s"))
    assert (status, "no embeddings of bge: it answered 405" in text) == (1, True)
