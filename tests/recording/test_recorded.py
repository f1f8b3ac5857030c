"""What goes through a gateway that records: rows say what was asked and answered, without its text."""

import asyncio
from pathlib import Path

import pytest

from gateway.spec import SamplingSpec
from tests.failures.shadowed import served
from tests.recording.staging import SAMPLING, answer, at_rest, chat, recorded, recording, rows, sidecar
from tests.standing import StandingLoop, run, standing
from tests.support import Engine, Peer, answers, ask, post, running, until

SECRETS = ("zebra-canary", "walrus-canary", "sk-canary-key")


def test_a_conversation_becomes_rows_that_share_blocks_and_know_their_parents(tmp_path: Path) -> None:
    first, said, second = "a question " * 60, "an answer " * 30, "and another " * 40

    async def scene() -> None:
        turns = [answer("an answer", 200, 60), answer("yes", 420, 7, cached=256)]

        async def script(peer: Peer) -> None:
            await peer.send(*turns.pop(0))

        async with recorded(tmp_path, Engine(script), block_tokens=16) as there:
            assert await served(
                there.gateway, chat(first, max_tokens=99, temperature=0.5), "X-Request-ID: r1"
            )
            assert await served(there.gateway, chat(first, said, second), "X-Request-ID: r2")
            one, two = await there.ended()
        assert (one.id, one.turn, one.parent) == ("r1", 0, None)
        assert (two.id, two.turn, two.parent) == ("r2", 1, "r1")
        assert one.session == two.session and one.session
        assert (one.input_length, one.output_length, two.input_length, two.cached_tokens) == (
            200,
            60,
            420,
            256,
        )
        assert len(one.hash_ids) == -(-200 // 16) and len(two.hash_ids) == -(-420 // 16)
        shared = sum(a == b for a, b in zip(one.hash_ids, two.hash_ids, strict=False))
        assert shared >= len(one.hash_ids) - 2
        assert one.sampling is not None and one.sampling.temperature == 0.5 and one.max_tokens == 99
        assert one.timestamp < two.timestamp
        assert (one.ending, one.status, one.finish, one.task) == ("complete", 200, "stop", "chat")
        assert one.ttft_ms is not None and one.e2e_ms is not None and 0 < one.ttft_ms <= one.e2e_ms
        assert one.request is None and one.answer is None

    asyncio.run(scene())


@pytest.mark.parametrize("text", [False, True])
def test_text_is_at_rest_only_where_it_was_asked_for_and_then_without_what_is_redacted(
    tmp_path: Path, text: bool
) -> None:
    async def scene() -> None:
        engine = Engine(answers(*answer("walrus-canary said", 9, 2)))
        async with recorded(tmp_path, engine, text=text, redact=(r"zebra-\w+",), packing="none") as there:
            body = chat("here is zebra-canary indeed")
            assert await served(there.gateway, body, "Authorization: Bearer sk-canary-key")
            (row,) = await there.ended()
        written, modes = at_rest(tmp_path)
        assert [secret for secret in SECRETS if secret.encode() in written] == (
            ["walrus-canary"] if text else []
        )
        if text:
            assert row.request is not None and row.answer == "walrus-canarysaid"
            assert row.request["messages"][0]["content"] == "here is [redacted] indeed"
        assert modes == {0o600}

    asyncio.run(scene())


def test_a_failed_request_is_a_row_too_and_says_how_it_failed(tmp_path: Path) -> None:
    async def scene() -> None:
        busy = b'{"error":{"message":"no"}}'
        head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        async with recorded(tmp_path, Engine(answers(head % len(busy) + busy))) as there:
            got = await ask(there.gateway.port, post(chat("hello", max_tokens=5)))
            assert got.status == 400
            (row,) = await there.ended()
        assert (row.status, row.ending, row.output_length) == (400, "status 400", 5)
        assert row.input_length >= 1 and row.input_tokens_from == "estimate" and row.ttft_ms is None

    asyncio.run(scene())


def test_without_a_recorder_everything_is_served_and_counted_as_dropped() -> None:
    async def scene() -> None:
        async with running(Engine(answers(*answer("one", 3, 1))), record=SAMPLING) as gateway:
            for n in range(3):
                assert await served(gateway, chat(f"hello {n}"))

    asyncio.run(scene())


def test_what_is_recorded_goes_to_an_experiment_as_well(tmp_path: Path) -> None:
    async def scene() -> None:
        async with recorded(tmp_path) as there:
            samplings = (SamplingSpec("fp8", None, 1.0, b"pepper"),)
            assert await there.gateway.renew(experiments=samplings) is None
            assert await served(there.gateway, chat("hello"))
            (row,) = await there.ended()
        assert row.status == 200 and row.output_length == 2

    asyncio.run(scene())


def test_copies_of_others_are_not_recorded(tmp_path: Path) -> None:
    async def scene() -> None:
        async with recorded(tmp_path) as there:
            assert await served(there.gateway, chat("hello"), "X-Shadowlane-Copy: 1")
            assert await served(there.gateway, chat("hello again"))
            found = await there.ended()
        assert len(found) == 1

    asyncio.run(scene())


def test_a_recorder_that_is_told_to_stop_and_then_gets_no_turn_for_a_while_takes_the_last_answer_still(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, StandingLoop)
        async with recorded(tmp_path) as there:
            with standing():
                assert await served(there.gateway, chat("hello"))
                there.stop.set()
                for _ in range(10):  # it looks for answers that are to come, and the worker has one yet
                    await asyncio.sleep(0)
            loop.leap(10.0)
            assert len(await there.ended()) == 1

    run(scene())


def test_the_books_close_and_the_file_says_what_its_lines_mean(tmp_path: Path) -> None:
    async def scene() -> None:
        async with recorded(tmp_path, block_tokens=32) as there:
            for n in range(5):
                assert await served(there.gateway, chat(f"hello {n} " * 500))
            assert len(await there.ended()) == 5
        told = sidecar(tmp_path)
        assert told["block_tokens"] == 32 and told["text"] is False and told["schema"] == 1
        assert told["bytes_per_token"]["m"] > 1

    asyncio.run(scene())


def test_a_recorder_that_is_killed_has_written_all_that_was_answered(tmp_path: Path) -> None:
    async def scene() -> None:
        async with recorded(tmp_path, packing="zstd", block_tokens=16) as there:
            for n in range(40):
                assert await served(there.gateway, chat(f"hello {n} " * 80))
            # What is in the file now is what a kill would leave: no end, no index, nothing in our memory.
            await until(lambda: len(rows(tmp_path)) == 40, 20)

    asyncio.run(scene())


def test_requests_that_are_served_before_the_recorder_listens_are_written_down(tmp_path: Path) -> None:
    async def scene() -> None:
        engine = Engine(answers(*answer("one two", 20, 2)))
        async with running(engine, record=SAMPLING) as gateway:
            assert await served(gateway, chat("the very first"), "X-Request-ID: first")
            folder = tmp_path / "recordings"
            async with recording(gateway, folder) as there:
                assert await served(gateway, chat("another"), "X-Request-ID: second")
                found = await there.ended()
        assert [(row.id, row.status) for row in found] == [("first", 200), ("second", 200)]
        assert 0.0 == found[0].timestamp < found[1].timestamp and found[0].output_length == 2

    asyncio.run(scene())
