"""Unless it was asked for, nothing that a gateway writes holds a prompt or an answer, however it ends."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.launch.staging import gone
from tests.recording.staging import answer, chat
from tests.support import LAST, SSE_HEAD, Engine, Peer, answers, event, until
from workload.packed import read_lines

PROMPT, ANSWER = "zebra-canary-prompt", "walrus-canary-answer"


def at_rest(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, unpacked where it is packed."""
    found: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            found[str(path)] = path.read_bytes()
            if path.name.endswith((".zst", ".gz")):
                found[f"{path}, unpacked"] = b"\n".join(read_lines(path))
    return found


async def ending(peer: Peer) -> None:
    """Whole, cut, an error, or none at all, as the prompt says."""
    if b"cut" in peer.body:
        await peer.send(SSE_HEAD, event(f'{{"choices":[{{"index":0,"delta":{{"content":"{ANSWER}"}}}}]}}'))
        peer.close()
    elif b"fail" in peer.body:
        text = f'{{"error":{{"message":"{PROMPT} {ANSWER}"}}}}'.encode()
        await peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
    elif b"hang" in peer.body:
        await peer.send(SSE_HEAD, event(f'{{"choices":[{{"index":0,"delta":{{"content":"{ANSWER}"}}}}]}}'))
        await peer.left()
        await peer.send(LAST)
    else:
        await answers(*answer(ANSWER, 30, 2))(peer)


async def ask(stack: AsyncExitStack, whole: Whole, how: str, n: int) -> None:
    """One conversation of two turns; what hangs stays open, its beginning read, for as long as `stack`."""
    for said in ((f"{PROMPT} {how} {n} " * 20,), (f"{PROMPT} {how} {n} " * 20, ANSWER, f"more {PROMPT}")):
        url, name = whole.url + "/v1/chat/completions", {"x-request-id": f"{how}-{n}-{len(said)}"}
        with suppress(aiohttp.ClientError):
            async with asyncio.timeout(30):
                got = await stack.enter_async_context(whole.http.post(url, data=chat(*said), headers=name))
                await (got.content.readany() if how == "hang" else got.read())


@pytest.mark.parametrize("end", ["drain, after the recording was killed", "kill"])
def test_no_byte_of_a_prompt_or_an_answer_is_at_rest_at_any_ending(tmp_path: Path, end: str) -> None:
    recordings = tmp_path / "state" / "recordings"

    async def recorded(stack: AsyncExitStack, whole: Whole, n: int) -> None:
        """Ask until it is written; what comes before the recorder listens is not."""
        async with asyncio.timeout(60):
            while f'"whole-{n}-1"'.encode() not in b"".join(at_rest(recordings).values()):
                await ask(stack, whole, "whole", n)
                await asyncio.sleep(0.1)

    async def scene(engines: AsyncExitStack) -> None:
        one, control, candidate = (Engine(ending) for _ in range(3))
        await begin(engines, one, control, candidate)
        arms = {"control": {"engine": control.url}, "candidates": [{"name": "c", "engine": candidate.url}]}
        settings: dict[str, Any] = {
            "fleets": [{"model": "m", "engines": [{"url": one.url, "kind": "vllm"}]}],
            "experiments": [{"name": "t", "sample": {"rate": 1.0}, **arms}],
            "record": {"to": str(recordings), "file_bytes": 4096},
        }
        async with serving(tmp_path, settings) as whole:
            async with AsyncExitStack() as stack:
                await until(lambda: {"_recording", "_shadow"} <= set(whole.children()), 30)
                await recorded(stack, whole, 98)
                for n in range(6):
                    for how in ("whole", "cut", "fail"):
                        await ask(stack, whole, how, n)
                await ask(stack, whole, "hang", 0)
                if end == "kill":
                    processes = list(whole.children().values())
                    whole.kill(signal.SIGKILL)
                    assert await whole.ended() == -signal.SIGKILL
            if end == "kill":
                await gone(*processes)
            else:  # clients have left what hangs
                os.kill(whole.children()["_recording"], signal.SIGKILL)
                await ask(stack, whole, "whole", 99)
                await recorded(stack, whole, 99)

    with_engines(scene)
    found = at_rest(tmp_path)
    assert any(".jsonl" in path and b'"whole-98-1"' in text for path, text in found.items())
    assert any("log.msgpack" in path for path in found)
    config = str(tmp_path / "shadowlane.yaml")
    leaks = [path for path, text in found.items() if path != config and b"canary" in text]
    assert not leaks
