"""No key and no prompt in anything the gateway writes: planted ones, driven through every way of failing."""

import asyncio
import gzip
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.failures.support import at_once, reset
from tests.gateway.programs import Program, program, shadowlane
from tests.gateway.whole import begin, with_engines
from tests.procfs import children
from tests.support import FINISH, LAST, SSE_HEAD, TOKEN, Engine, Peer, ask, chunk, event, json_answer, until

STEM = "zq" + secrets.token_hex(6)  # every canary begins like this; nothing else does


def canary(place: str) -> str:
    """A secret that tells where it was planted."""
    return f"{STEM}-{place}"


BEARER, X_KEY, COOKIE, QUERY = canary("bearer"), canary("x-api-key"), canary("cookie"), canary("query")
ENGINE_KEY, ARM_KEY, ADMIN = canary("engine-key"), canary("arm-key"), canary("admin")
PROMPT, ANSWER = canary("prompt"), canary("answer")
ENVIRONMENT = {"ENGINE_KEY": ENGINE_KEY, "ARM_KEY": ARM_KEY}

SECRETS = (
    f"Authorization: Bearer {BEARER}", f"X-Api-Key: {X_KEY}", f"Cookie: session={COOKIE}",
    f"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.{BEARER}",
)  # fmt: skip
SAID = json.dumps({"choices": [{"index": 0, "delta": {"content": ANSWER}}]})


def body(model: str = "plain", **more: Any) -> bytes:
    return json.dumps(
        {"model": model, "stream": True, "messages": [{"role": "user", "content": PROMPT}], **more}
    ).encode()


def request(case: str, content: bytes | None = None, *extra: str, length: str | None = None) -> bytes:
    """A request with every secret in it, whose case the engine sees in the query."""
    content = body() if content is None else content
    framing = f"Content-Length: {len(content)}" if length is None else length
    lines = [
        f"POST /v1/chat/completions?case={case}&api_key={QUERY} HTTP/1.1", "Host: gw",
        "Content-Type: application/json", framing, *SECRETS, *extra, "Connection: close",
    ]  # fmt: skip
    return "\r\n".join(line for line in lines if line).encode("latin-1") + b"\r\n\r\n" + content


async def engine_script(peer: Peer) -> None:
    """An engine that fails as it is asked to, and repeats in its answers whatever it was told."""
    case = peer.line.partition("case=")[2].partition("&")[0]
    echo = json.dumps({"error": {"message": f"{peer.line} {peer.headers} {peer.body!r}", "code": 1}}).encode()
    if case.startswith("status-"):
        await peer.send(json_answer(echo, f"{case.removeprefix('status-')} {PROMPT}", f"X-Echo: {BEARER}"))
    elif case == "cut-before-head":
        reset(peer)
    elif case == "cut-in-head":
        await peer.send(b"HTTP/1.1 200 OK\r\nX-Echo: " + BEARER.encode())
        reset(peer)
    elif case == "cut-in-stream":
        await peer.send(SSE_HEAD, event(SAID), b"40\r\ndata: " + PROMPT.encode())
        reset(peer)
    elif case == "error-event":
        await peer.send(SSE_HEAD, chunk(b"data: " + echo + b"\n\n"), event("[DONE]"), LAST)
    elif case == "error-event-503":
        await peer.send(
            SSE_HEAD, chunk(b"data: " + echo.replace(b'"code": 1', b'"code": 503') + b"\n\n"), LAST
        )
    elif case == "truncated":
        await peer.send(SSE_HEAD, event(SAID), LAST)
    elif case == "no-http":
        await peer.send(f"{PROMPT} {BEARER} is not HTTP\r\n\r\n".encode())
    elif case == "two-lengths":
        await peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2{PROMPT}\r\n\r\n".encode())
    elif case == "bad-chunk":
        await peer.send(SSE_HEAD, event(SAID), f"{PROMPT}\r\n".encode())
    elif case == "bad-utf8":
        broken = SAID.encode().replace(ANSWER.encode(), ANSWER.encode() + b"\xff")
        await peer.send(SSE_HEAD, chunk(b"data: " + broken + b"\n\n"), event(FINISH), LAST)
    elif case == "bad-json":
        await peer.send(SSE_HEAD, chunk(b"data: {" + ANSWER.encode() + b"\n\n"), event(FINISH), LAST)
    elif case == "long-head":
        await peer.send(b"HTTP/1.1 200 OK\r\nX-Echo: " + ANSWER.encode() * 20_000 + b"\r\n\r\n")
    elif case == "silent":
        await peer.left()
    elif case == "silent-in-stream":
        await peer.send(SSE_HEAD, event(SAID))
        await peer.left()
    else:
        await peer.send(SSE_HEAD, event(SAID), event(TOKEN), event(FINISH), event("[DONE]"), LAST)


def cases() -> Iterator[tuple[str, bytes]]:
    """Every way a request fails, by name; those of the engine's are named as `engine_script` knows them."""
    for case in (
        "good", "status-400", "status-401", "status-404", "status-422", "status-429", "status-500",
        "status-502", "status-503", "cut-before-head", "cut-in-head", "cut-in-stream", "error-event",
        "error-event-503",
        "truncated", "no-http", "two-lengths", "bad-chunk", "bad-utf8", "bad-json", "long-head", "silent",
        "silent-in-stream",
    ):  # fmt: skip
        for model in ("plain", "keyed"):
            yield case, request(case, body(model))
    yield "no engine there", request("refused", body("gone"))
    yield "unknown model", request("x", body(PROMPT))
    yield "model is a number", request("x", body(5))  # type: ignore[arg-type]
    yield "no JSON", request("x", b"{" + PROMPT.encode())
    yield "no UTF-8", request("x", body().replace(PROMPT.encode(), PROMPT.encode() + b"\xff"))
    yield "no UTF-8 in the model", request("x", b'{"model":"' + PROMPT.encode() + b'\xff","messages":[]}')
    yield "nested", request("x", b'{"model":"plain","messages":' + b"[" * 5000 + PROMPT.encode())
    yield (
        "messages of the wrong kind",
        request("x", json.dumps({"model": "plain", "messages": PROMPT}).encode()),
    )
    yield "half a surrogate", request("x", body().replace(PROMPT.encode(), PROMPT.encode() + b"\\ud800"))
    yield "no gzip", request("x", body(), "Content-Encoding: gzip")
    yield "half a gzip", request("x", gzip.compress(body() * 50)[:-20], "Content-Encoding: gzip")
    yield "unknown coding", request("x", body(), f"Content-Encoding: {PROMPT}")
    form = f'--b\r\nContent-Disposition: form-data; name="{PROMPT}"\r\n\r\n'.encode()
    yield "multipart", request("x", form, f"Content-Type: multipart/form-data; boundary={BEARER}")
    yield "body too large", request("x", body() + b" " * 200_000)
    yield "announced too large", request("x", None, length="Content-Length: 99999999999")
    yield "head too large", request("x", None, f"X-Long: {BEARER * 10_000}")
    yield "a control character", request("x", None, f"X-Bad: {BEARER}\x01")
    yield "a control character in the key", request("x").replace(b"Bearer ", b"Bearer \x01")
    yield "a folded line", request("x", None, f"X-Fold: 1\r\n {BEARER}")
    yield "a bare line end", request("x", None, f"X-Bare: 1\n{BEARER}: 2")
    yield "a name with a blank", request("x", None, f"X Name {BEARER}: 2")
    yield "two framings", request("x", None, "Transfer-Encoding: chunked")
    yield "a length that is none", request("x", length=f"Content-Length: {BEARER}")
    yield "chunks that are none", request("x", PROMPT.encode() + b"\r\n", length="Transfer-Encoding: chunked")
    yield (
        "chunk extension",
        request("x", b"5;" + PROMPT.encode() + b"\n", length="Transfer-Encoding: chunked"),
    )
    yield "no request line", f"{BEARER} {PROMPT}\r\n\r\n".encode()
    yield "no version", f"GET /v1/models?key={QUERY} HTTP/9.9\r\n\r\n".encode()
    yield "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + PROMPT.encode()
    yield "an administrative path", request("x").replace(b"/v1/chat/completions", b"/reset_prefix_cache")
    yield "dots", request("x").replace(b"/v1/chat/completions", b"/v1/../" + QUERY.encode())
    yield "CONNECT", f"CONNECT {QUERY}:443 HTTP/1.1\r\nHost: x\r\nAuthorization: {BEARER}\r\n\r\n".encode()
    yield "an upgrade", request("x", None, "Upgrade: websocket", "Connection: upgrade")
    yield "an id that is none", request("x", None, f"X-Request-Id: {BEARER} {PROMPT}")
    yield "an id too long", request("x", None, f"X-Request-Id: {BEARER * 20}")
    yield (
        "traces",
        request("x", None, f"traceparent: {BEARER}", f"x-forwarded-for: {BEARER}", f"via: {BEARER}"),
    )


def config(urls: dict[str, str], state: Path) -> dict[str, Any]:
    return {
        "listen": "127.0.0.1:0", "admin": urls["admin"], "state_dir": str(state),
        "fleets": [
            {"model": "plain", "engines": [urls["plain"]]},
            {"model": "keyed", "engines": [{"url": urls["keyed"], "api_key": "${ENGINE_KEY}"}]},
            {"model": "gone", "engines": [{"url": urls["gone"], "api_key": "${ENGINE_KEY}"}]},
        ],
        "experiments": [{
            "name": "trial", "fleet": "plain", "sample": {"rate": 1.0}, "timeout_s": 3,
            "calibration_s": 0, "calibration_pairs": 2, "window_s": 0.1, "warm_up_s": 0,
            "control": {"engine": urls["control"], "api_key": "${ARM_KEY}"},
            "candidates": [{"name": "other", "engine": urls["candidate"], "api_key": "${ARM_KEY}"}],
        }],
        "limits": {
            "body_bytes": 65536, "read_bytes": 65536, "first_token_timeout_s": 1.5, "idle_timeout_s": 1.5,
        },
        "log": {"level": "debug", "format": "json", "access": 1.0},
    }  # fmt: skip


# What a person may break in a file that holds a key, and how.
BROKEN: dict[str, Callable[[str], str]] = {
    "an open quote": lambda text: text.replace("${ENGINE_KEY}", f'"{ENGINE_KEY}'),
    "a key that is a list": lambda text: text.replace("${ENGINE_KEY}", f"[{ENGINE_KEY}]"),
    "a key with a blank": lambda text: text.replace("${ENGINE_KEY}", f"{ENGINE_KEY} x"),
    "a key in the wrong place": lambda text: text + f"\napi_key: {ENGINE_KEY}\n",
    "a variable for a number": lambda text: text.replace("body_bytes: 65536", "body_bytes: ${ENGINE_KEY}"),
    "a variable for a word": lambda text: text.replace("level: debug", "level: ${ENGINE_KEY}"),
    "a variable for an address": lambda text: text.replace("listen: 127.0.0.1:0", "listen: ${ENGINE_KEY}"),
    "a key in a URL": lambda text: text.replace("http://127", f"http://user:{ENGINE_KEY}@127"),
    "a tab": lambda text: text.replace("${ENGINE_KEY}", f"{ENGINE_KEY}\n\t- x"),
    "no UTF-8": lambda text: text.replace("${ENGINE_KEY}", f"{ENGINE_KEY}\udcff"),
}


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def leaks(where: str, text: bytes | str) -> list[str]:
    """Where a canary stands, and what stands around it."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return [
        f"{where}: {data[max(0, at.start() - 120) : at.end() + 60]!r}"
        for at in re.finditer(STEM.encode(), data)
    ]


def leaks_on_disk(folder: Path) -> list[str]:
    found: list[str] = []
    for path in folder.rglob("*"):
        found += leaks("a file's name", str(path))
        if path.is_file():
            found += leaks(str(path), path.read_bytes())
    return found


def leaks_in_commands(pid: int) -> list[str]:
    """Command lines of a process and its children: any user of the machine can read them."""
    found = leaks("a command line", Path(f"/proc/{pid}/cmdline").read_bytes())
    for _, words in children(pid):
        found += leaks("a command line", "\0".join(words).encode())
    return found


PAGES = (
    "/", "/livez", "/readyz", "/metrics", "/api/status", "/api/experiments", "/api/experiments/trial",
    "/api/experiments/trial/report.html", f"/api/experiments/none?token={ADMIN}", f"/none?token={ADMIN}",
)  # fmt: skip


async def leaks_in_pages(admin: str) -> list[str]:
    """What the admin server answers, whoever asks; a page may not even repeat what its client sent."""
    found: list[str] = []
    headers = {"Authorization": f"Bearer {ADMIN}", "X-Api-Key": ADMIN, "Cookie": f"token={ADMIN}"}
    async with aiohttp.ClientSession() as http:
        for path in PAGES:
            for method in ("GET", "POST", "DELETE"):
                async with http.request(method, admin + path, headers=headers, data=ADMIN) as answer:
                    found += leaks(f"{method} {path}", await answer.read())
    return found


async def leave(port: int, sent: bytes, after_s: float) -> None:
    """A client that goes away."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await asyncio.sleep(after_s)
    writer.transport.abort()


def address(gateway: Program, word: str) -> str:
    line = gateway.line(lambda said: word in said and "http" in said)
    return "http" + line.split("http", 1)[1].split()[0].rstrip('/",')


@pytest.mark.timeout(180)
def test_no_key_and_no_prompt_is_in_anything_that_is_written(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = {name: Engine(engine_script) for name in ("plain", "keyed", "control", "candidate")}
        await begin(stack, *engines.values())
        with socket.create_server(("127.0.0.1", 0)) as gone, socket.create_server(("127.0.0.1", 0)) as free:
            urls = {name: engine.url for name, engine in engines.items()}
            urls["gone"] = f"http://127.0.0.1:{gone.getsockname()[1]}"
            urls["admin"] = f"127.0.0.1:{free.getsockname()[1]}"  # the same when its process comes back
        file, state, runtime = tmp_path / "config.yaml", tmp_path / "state", tmp_path / "run"
        runtime.mkdir(mode=0o700)
        good = yaml.safe_dump(config(urls, state), sort_keys=False)
        write(file, good)
        environment = {**ENVIRONMENT, "XDG_RUNTIME_DIR": str(runtime)}
        found: list[str] = []
        loop = asyncio.get_running_loop()
        with program(shadowlane("serve", "--config", str(file)), environment) as gateway:
            listening = await loop.run_in_executor(None, address, gateway, "listening")
            admin = await loop.run_in_executor(None, address, gateway, "admin")
            port = int(listening.rsplit(":", 1)[1])
            await until(lambda: "engine down" in gateway.said, 30)
            # What fails may pause the experiment; a conversation that began before it did is never copied.
            begun = (body(messages=[{"role": "user", "content": f"{PROMPT} {n}"}]) for n in count())
            async with asyncio.timeout(60):
                while not any(PROMPT.encode() in peer.body for peer in engines["control"].asked):
                    assert (await ask(port, request("good", next(begun)), 30)).status == 200
            tried = list(cases())
            assert len({name for name, _ in tried}) >= 20
            answers = await at_once((ask(port, sent, 30) for _, sent in tried), 8)
            assert any(one.status == 200 and ANSWER.encode() in one.text for one in answers)
            leaving = ("silent", "good", "silent-in-stream")
            await at_once(leave(port, request(case), 0.05 * n) for n, case in enumerate(leaving))
            await leave(port, request("x")[:-30], 0.1)  # half a body
            await leave(port, request("x")[:80], 0.1)  # half a head
            for break_it in BROKEN.values():
                refused = gateway.said.count("configuration refused")
                write(file, break_it(good))
                os.kill(gateway.pid, signal.SIGHUP)
                await until(lambda seen=refused: gateway.said.count("configuration refused") > seen, 20)  # type: ignore[misc]
            write(file, good)
            os.kill(gateway.pid, signal.SIGHUP)
            assert (await ask(port, request("good"), 30)).status == 200
            # A worker and the shadow die with requests in them.
            dying = [loop.create_task(ask(port, request("silent-in-stream"), 30)) for _ in range(3)]
            await asyncio.sleep(0.3)
            for child, _ in children(gateway.pid):
                os.kill(child, signal.SIGABRT)
            await asyncio.gather(*dying, return_exceptions=True)

            async def serving_again() -> None:
                while True:
                    try:
                        if (await ask(port, request("good"), 30)).status == 200:
                            return
                    except OSError:
                        pass
                    await asyncio.sleep(0.1)

            await asyncio.wait_for(serving_again(), 60)
            await at_once((ask(port, sent, 30) for name, sent in tried if name != "silent"), 8)
            await asyncio.sleep(2.5)  # all is reported once a second

            async def pages() -> list[str]:
                while True:
                    try:
                        return await leaks_in_pages(admin)
                    except aiohttp.ClientConnectionError:
                        await asyncio.sleep(0.1)

            found += await asyncio.wait_for(pages(), 60)
            found += leaks_on_disk(state) + leaks_on_disk(runtime) + leaks_in_commands(gateway.pid)
            gateway.process.terminate()
            await loop.run_in_executor(None, gateway.ended)
        found += leaks("log", gateway.said) + leaks_on_disk(state)
        assert not found, "\n".join(dict.fromkeys(found))

    with_engines(test)


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_config_is_told_without_the_keys_in_it(how: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    urls = dict.fromkeys(("plain", "keyed", "gone", "control", "candidate"), "http://127.0.0.1:9")
    urls["admin"] = "127.0.0.1:0"
    write(file, BROKEN[how](yaml.safe_dump(config(urls, tmp_path / "state"), sort_keys=False)))
    env = {**os.environ, **ENVIRONMENT}
    for command in ("check", "serve"):
        argv = [sys.executable, "-P", "-m", "gateway.cli", command, "--config", str(file)]
        done = subprocess.run(
            argv, env=env, capture_output=True, timeout=60, cwd=Path(__file__).parents[2], check=False
        )
        assert done.returncode != 0
        assert not leaks(command, done.stdout + done.stderr)
