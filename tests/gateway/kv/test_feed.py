"""Engines are heard over real sockets: late, with losses, restarted, forged, over ranks, in every form."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from emulator.server import Running
from routing.events.board import State
from tests.connections import unheard
from tests.gateway.kv.staging import FAST, SIZE, emulated, engine, feeding, neighbours, run, scripted, until
from tests.routing.events.memory import CLEARED, payload, removed, stored
from wire.tasks import Tasks

PROMPT = list(range(100, 180))


async def ask(running: Running, prompt: list[int], **fields: Any) -> int:
    """Have an emulated engine compute a prompt; how many tokens it found in its cache."""
    body = {"model": "emulated", "prompt": prompt, "max_tokens": 2, **fields}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{running.url}/v1/completions", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()
        usage = (await answer.json())["usage"]
    return int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)


def test_an_engine_that_was_busy_before_is_known_from_its_beginning_without_configuration(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        running = await emulated(stack)
        for number in range(30):
            await ask(running, [number, *PROMPT])
        async with feeding(tmp_path, engine(running.url)) as fed:
            await fed.exact()
            await until(lambda: fed.match([7, *PROMPT]) == {0: 5})
            await ask(running, [99, *PROMPT])
            await until(lambda: fed.match([99, *PROMPT]) == {0: 5})
            assert fed.match([98, *PROMPT]) == {0: 0}

    run(test)


@pytest.mark.parametrize("form", ["vllm", "vllm-arrays", "sglang"])
def test_every_form_is_understood_and_salts_are_kept_apart(tmp_path: Path, form: str) -> None:
    async def test(stack: AsyncExitStack) -> None:
        running = await emulated(stack, replace(FAST, kv_events_form=form))
        async with feeding(tmp_path, engine(running.url, kind="auto")) as fed:
            await fed.exact()
            await ask(running, PROMPT)
            await ask(running, PROMPT, cache_salt="tenant-a")
            await ask(running, [*PROMPT, *PROMPT], cache_salt="tenant-a")
            await until(lambda: fed.match([*PROMPT, *PROMPT], salt="tenant-a") == {0: 10})
            assert fed.match([*PROMPT, *PROMPT]) == {0: 5}
            assert fed.match(PROMPT, salt="tenant-b") == {0: 0}
            heard = await fed.exact()
            assert not heard.publisher.ignored

    run(test)


def test_sglang_tells_its_load(tmp_path: Path) -> None:
    """Of three requests it computes two at a time, for longer than this takes."""

    async def test(stack: AsyncExitStack) -> None:
        running = await emulated(stack, replace(FAST, kv_events_form="sglang", speed=0.01, max_num_seqs=2))
        tasks = Tasks()
        stack.push_async_callback(tasks.cancel)
        for word in range(3):
            tasks.spawn(ask(running, [word, *PROMPT], max_tokens=1000), name="ask")
        async with feeding(tmp_path, engine(running.url, kind="sglang", id=3)) as fed:

            def is_told() -> bool:
                load = fed.reader.loads(0).get(3)
                if load is None or (load.running, load.queued) != (2, 1):
                    return False
                return 0 < load.used_tokens < load.most_tokens == 256 * 16

            await until(is_told)

    run(test)


@pytest.mark.parametrize("loss", [0.2, 0.7])
def test_lost_messages_are_replayed_and_what_is_known_is_what_the_engine_finds(
    tmp_path: Path, loss: float
) -> None:
    """Prompts that evict one another, each message lost with this chance."""

    async def test(stack: AsyncExitStack) -> None:
        running = await emulated(stack, replace(FAST, kv_events_loss=loss, num_blocks=40, max_model_len=512))
        async with feeding(tmp_path, engine(running.url)) as fed:
            await fed.exact()
            for number in range(60):
                await ask(running, [number % 13, *PROMPT])
            heard = fed.heard()
            assert heard is not None
            for word in range(10):  # until one of the last is not lost, all is known again
                await ask(running, [1000 + word, *PROMPT])
                await asyncio.sleep(0.05)
            heard.publisher.audit()
            cache = running.engine.scheduler.cache
            prompts = [[number % 13, *PROMPT] for number in range(13)]

            def found(prompt: list[int]) -> int:
                return cache.held(cache.lease(prompt), len(prompt)) // SIZE

            await until(
                lambda: (
                    fed.state() is State.EXACT
                    and all(fed.match(prompt) == {0: found(prompt)} for prompt in prompts)
                )
            )
            assert heard.publisher.counts["gaps"] > 0 and heard.publisher.counts["removed"] > 0

    run(test)


def test_an_engine_that_restarts_is_forgotten_and_heard_anew(tmp_path: Path) -> None:
    """On the same address, with the same ports, its numbers from 0."""

    async def test(stack: AsyncExitStack) -> None:
        port = neighbours(4)
        params = replace(FAST, kv_events_port=port + 1)
        first = await emulated(stack, params, port)
        async with feeding(tmp_path, engine(first.url)) as fed:
            await fed.exact()
            await ask(first, PROMPT)
            await until(lambda: fed.match(PROMPT) == {0: 5})
            await first.close()
            second = await emulated(stack, params, port)
            await ask(second, [5, *PROMPT])
            await until(lambda: fed.match([5, *PROMPT]) == {0: 5}, 20)
            assert fed.match(PROMPT) == {0: 0}

    run(test)


def test_an_engine_that_moves_is_found_where_it_publishes_now(tmp_path: Path) -> None:
    """Its ports are other ones after a restart, which it tells."""

    async def test(stack: AsyncExitStack) -> None:
        first = await emulated(stack)
        async with feeding(tmp_path, engine(first.url)) as fed:
            await fed.exact()
            await ask(first, [5, *PROMPT])
            await until(lambda: fed.match([5, *PROMPT]) == {0: 5})
            await first.close()
            second = await emulated(stack, port=first.port)
            await ask(second, PROMPT)
            await until(lambda: fed.match(PROMPT) == {0: 5}, 30)
            assert fed.match([5, *PROMPT]) == {0: 0}  # that was the other's

    run(test)


@pytest.mark.parametrize("shape", [3, 4])
def test_a_gap_is_asked_for_in_both_shapes_of_replays(tmp_path: Path, shape: int) -> None:
    async def test(stack: AsyncExitStack) -> None:
        publisher = await scripted(stack, shape=shape)
        at = engine("http://127.0.0.1:1", publish=publisher.publish_at, replay=publisher.replay_at)
        publisher.store(0)
        async with feeding(tmp_path, at) as fed:
            heard = await fed.exact()
            publisher.store(1)
            await until(lambda: fed.match([1] * SIZE) == {0: 1})
            publisher.publish(removed(1000), lost=True)
            publisher.store(2, lost=True)
            publisher.store(3)
            await until(lambda: fed.match([3] * SIZE) == {0: 1})
            assert [fed.match([word] * SIZE) for word in range(3)] == [{0: 0}, {0: 1}, {0: 1}]
            assert heard.publisher.counts["gaps"] == 1 and publisher.asked == [0, 2]

    run(test)


def test_without_replays_a_gap_leaves_what_was_said_since_and_no_certainty(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        publisher = await scripted(stack)
        async with feeding(tmp_path, engine("http://127.0.0.1:1", publish=publisher.publish_at)) as fed:
            await until(lambda: (heard := fed.heard()) is not None and heard.is_linked)
            while fed.state() is not State.EXACT:  # until the subscription has begun there
                publisher.number = 0
                publisher.store(0)
                await asyncio.sleep(0.02)
            publisher.store(1, lost=True)
            publisher.store(2)
            await until(lambda: fed.state() is State.DEGRADED)
            assert fed.match([2] * SIZE) == {}
            assert fed.reader.at_least([*_chain(2)], SIZE) == {0: 1}
            assert fed.reader.at_least([*_chain(0)], SIZE) == {0: 0}
            publisher.publish(CLEARED)
            await until(lambda: fed.match([2] * SIZE) == {0: 0})

    run(test)


def _chain(word: int) -> list[int]:
    from routing.events.chain import block_chain

    return block_chain([word] * SIZE, SIZE)


def test_ranks_are_publishers_of_their_own(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        port = neighbours()
        first, second = await scripted(stack, port=port), await scripted(stack, port=port + 1)
        at = engine("http://127.0.0.1:1", publish="tcp://{host}:" + str(first.port), ranks=2)
        async with feeding(tmp_path, at) as fed:
            await until(lambda: len(fed.feed.heard) == 2 and all(h.is_linked for _, h in fed.feed.heard))
            words = [stored([1, 2], None, [5] * 2 * SIZE, SIZE)]
            while fed.match([5] * 2 * SIZE) != {0: 1}:  # both blocks at one rank of two: one on average
                for publisher, events in ((first, words), (second, [CLEARED])):
                    publisher.number = 0
                    publisher.publish(*events)
                await asyncio.sleep(0.05)
            assert fed.state(rank=0) is fed.state(rank=1) is State.EXACT

    run(test)


def test_any_topic_is_heard_unless_one_is_asked_for(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        publisher = await scripted(stack, topic=b"whatever \xff")
        at: dict[str, Any] = {"publish": publisher.publish_at, "replay": publisher.replay_at}
        publisher.store(1)
        async with feeding(
            tmp_path,
            engine("http://127.0.0.1:1", **at),
            engine("http://127.0.0.1:2", id=1, topic="kv@", **at),
        ) as fed:
            await fed.exact(0)
            await fed.exact(1)  # by the replay, which has no other's messages
            publisher.store(2)
            await until(lambda: fed.match([2] * SIZE)[0] == 1)
            heard = fed.heard(1)
            await until(lambda: heard is not None and heard.publisher.ignored["topic"] == 1)
            assert fed.match([2] * SIZE) == {0: 1, 1: 0}

    run(test)


def test_what_one_forges_harms_no_other_and_ends_nothing(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        good, bad = await scripted(stack), await scripted(stack)
        async with feeding(
            tmp_path,
            engine("http://127.0.0.1:1", publish=good.publish_at, replay=good.replay_at),
            engine(
                "http://127.0.0.1:2", id=1, publish=bad.publish_at, replay=bad.replay_at, most_blocks=2000
            ),
        ) as fed:
            await fed.exact(0)
            await fed.exact(1)
            good.store(1)
            bad.store(1)
            await until(lambda: fed.match([1] * SIZE) == {0: 1, 1: 1})
            for frames in ((), (b"x",), (b"", b"", b""), (b"", b"1234", b""), (b"",) * 9):
                if frames:
                    bad.send(*frames)
            bad.send(b"", b"\xff" * 8, b"junk")
            bad.publish(data=b"\xc1")
            bad.publish(data=b"\x91" * 5000)
            bad.publish(data=payload(stored([7], 7, [1] * SIZE, SIZE), {"type": "BlockRemoved"}))
            for n in range(0, 6000, 50):
                hashes = range(n + 10_000, n + 10_050)
                bad.publish(stored(hashes, None, [n + 1, *range(50 * SIZE - 1)], SIZE))
            good.store(2)
            await until(lambda: fed.match([2] * SIZE).get(0) == 1)
            heard = fed.heard(1)
            assert heard is not None
            await until(lambda: heard.publisher.ignored["too_many_blocks"] > 0)
            assert heard.publisher.state is not State.EXACT and heard.publisher.held <= 2000
            assert heard.publisher.ignored["frames"] >= 4
            assert fed.match([1] * SIZE) == {0: 1}

    run(test)


def test_a_flood_at_one_keeps_no_other_from_being_heard(tmp_path: Path) -> None:
    """The other's word is heard long before the flood has been read."""

    async def test(stack: AsyncExitStack) -> None:
        good, bad = await scripted(stack), await scripted(stack, kept=False)
        async with feeding(
            tmp_path,
            engine("http://127.0.0.1:1", publish=good.publish_at, replay=good.replay_at),
            engine("http://127.0.0.1:2", id=1, publish=bad.publish_at),
        ) as fed:
            await fed.exact(0)
            await until(lambda: (heard := fed.heard(1)) is not None and heard.is_linked)
            message = payload(*(stored([n], None, [n] * 64 * SIZE, 64 * SIZE) for n in range(8)))
            for _ in range(900):
                bad.publish(data=message)
            good.store(1)
            heard = fed.heard(1)
            assert heard is not None
            await until(lambda: fed.match([1] * SIZE).get(0) == 1)
            assert heard.publisher.counts["batches"] < 800

    run(test)


def test_engines_that_connect_to_publish_are_told_apart_by_their_topic(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        port, *port_of = (stack.enter_context(unheard()) for _ in range(3))
        bind, to = f"tcp://*:{port}", f"tcp://127.0.0.1:{port}"
        params = replace(FAST, kv_events_to=to)
        urls = [f"http://127.0.0.1:{port}" for port in port_of]
        async with feeding(tmp_path, *(engine(url, id, bind=bind) for id, url in enumerate(urls))) as fed:
            engines = [
                await emulated(stack, replace(params, kv_events_topic=f"kv@127.0.0.1:{port}@m"), port)
                for port in port_of
            ]
            stranger = await emulated(stack, replace(params, kv_events_topic="kv@10.9.9.9@m"))
            at = fed.feed.status()["bound"]
            for number in range(100):
                if fed.heard(0) is not None and fed.heard(1) is not None:
                    break
                for one in (*engines, stranger):
                    await ask(one, [number, *PROMPT])
            await ask(engines[1], PROMPT)
            await until(
                lambda: (
                    fed.reader.at_least(_chain_of(PROMPT), SIZE).get(1) == 5 or fed.match(PROMPT).get(1) == 5
                )
            )
            assert not fed.reader.at_least(_chain_of(PROMPT), SIZE).get(0)
            assert fed.feed.status()["bound"][bind].get("unknown_engine", 0) > 0, at
            assert len(fed.feed.heard) == 2

    run(test)


def _chain_of(tokens: list[int]) -> list[int]:
    from routing.events.chain import block_chain

    return block_chain(tokens, SIZE)


def test_an_engine_that_leaves_is_forgotten_and_one_that_stays_goes_on(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        publishers = [await scripted(stack), await scripted(stack)]
        specs = [
            engine(f"http://127.0.0.1:{n + 1}", n, publish=one.publish_at, replay=one.replay_at)
            for n, one in enumerate(publishers)
        ]
        for one in publishers:
            one.store(1)
        async with feeding(tmp_path, *specs) as fed:
            await fed.exact(0)
            kept = await fed.exact(1)
            assert fed.match([1] * SIZE) == {0: 1, 1: 1}
            fed.renew(specs[1])
            assert fed.match([1] * SIZE) == {1: 1} and fed.heard(1) is kept
            fed.renew(*specs)
            await fed.exact(0)
            assert fed.match([1] * SIZE) == {0: 1, 1: 1}
            counts = fed.feed.counts()
            assert counts["kv_events", "http://127.0.0.1:1", "0", "stored"] == 2  # its past is not forgotten

    run(test)


def test_an_engine_without_events_is_said_to_have_none(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        running = await emulated(stack, replace(FAST, kv_events_port=None))
        async with feeding(
            tmp_path,
            engine(running.url),
            engine("http://127.0.0.1:9", 1),
            engine("http://127.0.0.1:8", 2, "tgi"),
        ) as fed:
            await until(lambda: "not asked" not in str(fed.feed.status()))
            errors = [one["error"] for one in fed.feed.status()["engines"]]
            assert errors == [
                "it does not say that it publishes any",
                "connection refused",
                "engines of the kind tgi publish no events",
            ]
            assert fed.match(PROMPT) == {}

    run(test)
