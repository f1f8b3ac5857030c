"""Unless it was asked for, nothing that a gateway writes holds a prompt or an answer, however it ends."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.launch.staging import gone
from tests.recording.staging import answer, chat
from tests.support import LAST, SSE_HEAD, Engine, Peer, answers, event, until
from workload.packed import read_lines

pytestmark = pytest.mark.long

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


async def ask(whole: Whole, how: str, n: int) -> None:
    """One conversation of two turns; the second is left by its client where it would hang."""
    for said in ((f"{PROMPT} {how} {n} " * 20,), (f"{PROMPT} {how} {n} " * 20, ANSWER, f"more {PROMPT}")):
        try:
            async with asyncio.timeout(1.0 if how == "hang" else 30.0):
                url = whole.url + "/v1/chat/completions"
                async with whole.http.post(
                    url, data=chat(*said), headers={"x-request-id": f"{how}-{n}"}
                ) as got:
                    await got.read()
        except (TimeoutError, aiohttp.ClientError):
            pass


@pytest.mark.parametrize("end", ["drain", "kill", "recording killed"])
def test_no_byte_of_a_prompt_or_an_answer_is_at_rest_at_any_ending(tmp_path: Path, end: str) -> None:
    recordings = tmp_path / "state" / "recordings"

    async def scene(stack: AsyncExitStack) -> None:
        one, control, candidate = (Engine(ending) for _ in range(3))
        await begin(stack, one, control, candidate)
        arms = {"control": {"engine": control.url}, "candidates": [{"name": "c", "engine": candidate.url}]}
        settings: dict[str, Any] = {
            "fleets": [{"model": "m", "engines": [{"url": one.url, "kind": "vllm"}]}],
            "experiments": [{"name": "t", "sample": {"rate": 1.0}, **arms}],
            "record": {"to": str(recordings), "file_bytes": 4096},
        }
        async with serving(tmp_path, settings) as whole:
            await until(lambda: {"_recording", "_shadow"} <= set(whole.children()), 30)
            async with asyncio.timeout(60):  # what comes before the recorder listens is not recorded
                while not any(b'"input_length"' in text for text in at_rest(recordings).values()):
                    await ask(whole, "whole", 98)
            for n in range(6):
                for how in ("whole", "cut", "fail"):
                    await ask(whole, how, n)
            await ask(whole, "hang", 0)
            if end == "recording killed":
                os.kill(whole.children()["_recording"], signal.SIGKILL)
                await ask(whole, "whole", 99)
            elif end == "kill":
                processes = list(whole.children().values())
                whole.kill(signal.SIGKILL)
                assert await whole.ended() == -signal.SIGKILL
                await gone(*processes)

    with_engines(scene)
    found = at_rest(tmp_path)
    assert any(".jsonl" in path for path in found) and any("log.msgpack" in path for path in found)
    config = str(tmp_path / "shadowlane.yaml")
    leaks = [path for path, text in found.items() if path != config and b"canary" in text]
    assert not leaks
