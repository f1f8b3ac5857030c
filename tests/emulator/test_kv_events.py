"""KV events on the wire: vLLM's frames and keys, and a replay that fills a late subscriber's gaps."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import msgpack
import pytest
import zmq
import zmq.asyncio

from routing.events.decode import DEVICE, HOST, Cleared, Removed, Stored, decode
from tests.emulator.support import FAST, FIXTURES, Client, with_engine

PROMPT = list(range(1, 101))
WITH_EVENTS = replace(FAST, kv_events_port=0, num_blocks=64, max_model_len=1024)


async def replay(client: Client, start: int) -> list[tuple[int, Any]]:
    """Every batch from number `start`, by the replay socket."""
    events = client.running.events
    assert events is not None
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(events.replay_endpoint)
        await dealer.send_multipart((b"", start.to_bytes(8, "big")))
        batches: list[tuple[int, Any]] = []
        while True:
            empty, topic, number, payload = await dealer.recv_multipart()
            assert empty == b""
            if number == b"\xff" * 8:
                assert (topic, payload) == (b"", b"")
                return batches
            assert topic == b"kv-events"
            batches.append((int.from_bytes(number, "big"), msgpack.unpackb(payload)))


async def say(client: Client, prompt: list[int], **fields: Any) -> None:
    status, _ = await client.post("/v1/completions", {"prompt": prompt, "max_tokens": 2, **fields})
    assert status == 200


def test_stored_blocks_are_told_with_vllms_keys() -> None:
    async def use(client: Client) -> None:
        await say(client, PROMPT)
        [(number, (_, events, rank))] = await replay(client, 0)
        assert (number, rank) == (0, 0)
        captured = msgpack.unpackb((FIXTURES / "kv_event_stored.msgpack").read_bytes())
        assert list(events[0]) == list(captured[1][0])
        assert events[0]["token_ids"] == PROMPT[:96]
        assert len(events[0]["block_hashes"]) == 6 and events[0]["parent_block_hash"] is None
        assert events[0]["block_size"] == 16 and events[0]["extra_keys"] == [None] * 6

    with_engine(use, WITH_EVENTS)


def test_a_salt_is_told_on_the_first_block_only() -> None:
    async def use(client: Client) -> None:
        await say(client, PROMPT, cache_salt="tenant-a")
        [(_, (_, [stored], _))] = await replay(client, 0)
        assert stored["extra_keys"] == [["tenant-a"], None, None, None, None, None]

    with_engine(use, WITH_EVENTS)


def test_evictions_and_resets_are_told_and_replay_starts_where_asked() -> None:
    async def use(client: Client) -> None:
        for number in range(12):
            await say(client, [number * 1000 + token for token in PROMPT])
        await client.post("/reset_prefix_cache", {})
        batches = await replay(client, 0)
        assert [number for number, _ in batches] == list(range(len(batches)))
        held: set[int] = set()
        for _, (_, events, _) in batches:
            for event in events:
                if event["type"] == "BlockStored":
                    held |= set(event["block_hashes"])
                elif event["type"] == "BlockRemoved":
                    assert held >= set(event["block_hashes"])
                    held -= set(event["block_hashes"])
                else:
                    held.clear()
        assert batches[-1][1][1] == [{"type": "AllBlocksCleared"}] and not held
        assert await replay(client, len(batches) - 1) == batches[-1:]

    with_engine(use, WITH_EVENTS)


@pytest.mark.parametrize(
    ("form", "medium", "tokens"),
    [("vllm", "CPU", 0), ("vllm-arrays", "CPU", 0), ("sglang", "CPU_PINNED", 16)],
)
def test_what_moves_to_the_host_and_back_is_told_with_its_medium(form: str, medium: str, tokens: int) -> None:
    async def use(client: Client) -> None:
        for number in range(12):
            await say(client, [number * 1000 + token for token in PROMPT])
        await say(client, PROMPT)
        host: list[Stored | Removed] = []
        held: dict[int, set[int]] = {DEVICE: set(), HOST: set()}
        for _, said in await replay(client, 0):
            batch = decode(msgpack.packb(said))
            assert not batch.ignored and not batch.malformed
            for event in batch.events:
                assert isinstance(event, Stored | Removed)
                if event.tier == HOST:
                    host.append(event)
                if isinstance(event, Stored):
                    assert not held[event.tier] & set(event.hashes)
                    held[event.tier] |= set(event.hashes)
                else:
                    assert held[event.tier] >= set(event.hashes)
                    held[event.tier] -= set(event.hashes)
            told = any(event.tier == HOST for event in batch.events if not isinstance(event, Cleared))
            assert told == (f"'{medium}'" in str(said))
        assert {len(event.tokens) // 4 for event in host if isinstance(event, Stored)} == {tokens}
        assert any(isinstance(event, Removed) for event in host), "what was loaded left the host"
        metrics = (await client.get("/metrics"))[1]
        [loaded] = re.findall(r"^vllm:external_prefix_cache_hits_total\{.*\} (.*)$", metrics, re.MULTILINE)
        assert float(loaded) > 0.0

    with_engine(use, replace(WITH_EVENTS, kv_events_form=form, host_blocks=128))


def test_a_subscriber_hears_three_frames_as_they_happen() -> None:
    async def use(client: Client) -> None:
        async with client.session.get(client.url + "/kv_event_sources") as answer:
            said = await answer.json()
        assert set(said) == {"0"}
        source = said["0"]
        assert {"publisher", "endpoint", "replay_endpoint", "topic"} <= set(source)
        with zmq.asyncio.Context() as context, context.socket(zmq.SUB) as subscriber:
            subscriber.setsockopt(zmq.LINGER, 0)
            subscriber.subscribe(source["topic"])
            subscriber.connect(source["endpoint"])
            number = 0
            while not await subscriber.poll(50):  # a late joiner misses what was sent before it joined
                number += 1
                await say(client, [number * 1000 + token for token in PROMPT])
            topic, sequence, payload = await asyncio.wait_for(subscriber.recv_multipart(), 30)
        assert topic == b"kv-events" and len(sequence) == 8
        assert msgpack.unpackb(payload)[1][0]["type"] == "BlockStored"

    with_engine(use, WITH_EVENTS)
