"""What a real vLLM publishes says what it then finds: prompts of token ids, evictions and salts."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
import uvloop

from gateway.kv.spec import KvEngine
from gateway.spec import EventsSpec
from tests.e2e.servers import free_port, vllm
from tests.gateway.kv.staging import Fed, feeding, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
BLOCK = 32


async def asked(session: aiohttp.ClientSession, url: str, tokens: list[int], **more: Any) -> int:
    """Have it compute a prompt; how many tokens it found in its cache."""
    body = {"model": "tiny", "prompt": tokens, "max_tokens": 1, "temperature": 0, **more}
    async with session.post(url + "/v1/completions", json=body) as answer:
        assert answer.status == 200, await answer.text()
        return int((await answer.json())["usage"]["prompt_tokens_details"]["cached_tokens"])


async def heard_of(fed: Fed, tokens: list[int], names: dict[str, str]) -> None:
    """Wait until all whole blocks of a prompt that was just computed are known to be held."""
    await until(lambda: fed.match(tokens, BLOCK, **names).get(0) == len(tokens) // BLOCK, 30)


@pytest.mark.parametrize("replays", [True, False])
def test_what_vllm_says_it_holds_it_finds(tmp_path: Path, replays: bool) -> None:
    """A cache of 100 blocks under 100 prompts of 3 to 20, many of which begin alike."""
    config = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{free_port()}"}
    if replays:
        config["replay_endpoint"] = f"tcp://*:{free_port()}"
    flags = [
        "--kv-events-config",
        json.dumps(config),
        "--num-gpu-blocks-override",
        "100",
        "--max-num-seqs",
        "4",
    ]
    rng = Random(4)
    beginnings = [[rng.randrange(4, 4000) for _ in range(BLOCK * 6)] for _ in range(8)]

    async def test(url: str) -> None:
        async with (
            aiohttp.ClientSession() as session,
            feeding(tmp_path, KvEngine(0, url, "auto", EventsSpec())) as fed,
        ):
            await until(lambda: (heard := fed.heard()) is not None and heard.is_linked, 60)
            await asyncio.sleep(0.5)  # the subscription begins at the other side
            seen: list[tuple[int, int]] = []
            for n in range(100):
                tokens = list(rng.choice(beginnings))
                tokens += [rng.randrange(4, 4000) for _ in range(rng.randrange(1, BLOCK * 12))]
                salt = {"cache_salt": "tenant"} if n % 5 == 4 else {}
                names = {"salt": "tenant"} if salt else {}
                held = fed.match(tokens, BLOCK, **names).get(0, 0)
                found = await asked(session, url, tokens, **salt)
                # The last token is always computed, and with it its block.
                seen.append((min(held, (len(tokens) - 1) // BLOCK) * BLOCK, found))
                await heard_of(fed, tokens, names)
            heard = fed.heard()
            assert heard is not None
            assert seen.count((0, 0)) < len(seen) / 2  # there was something to find
            assert [pair for pair in seen if pair[0] != pair[1]] == []
            assert heard.publisher.counts["removed"] > 50
            assert not heard.publisher.ignored and heard.publisher.counts["gaps"] == 0

    with vllm(tmp_path, *flags) as url:
        uvloop.run(test(url))
