"""SGLang's way, engines scripted: both legs meet in one room, and neither is left waiting for the other."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.spec import LimitsSpec, SplitSpec
from tests.gateway.split.staging import CHAT, COMPLETIONS, asked, fleet, idle, run, scripted
from tests.support import (
    FINISH,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Engine,
    Gateway,
    Peer,
    Script,
    answers,
    ask,
    event,
    json_answer,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import resets

BODY = b'{"model":"m", "messages":[{"role":"user","content":"hi"}],"stream":true}'
NOT_STREAMED = BODY.replace(b"true", b"false")
ANSWER = b'{"id":"d", "choices" : [{"text":"its answer"}]}'
EVENTS = b"".join(b"data: %b\n\n" % one.encode() for one in (ROLE, TOKEN, FINISH, "[DONE]"))
STYLE = SplitSpec("sglang")
QUICK = LimitsSpec(drain_s=5.0, first_token_timeout_s=1.0, idle_timeout_s=1.0)


class Meeting:
    """Scripted engines that meet: the one that decodes answers once the other has the same room."""

    def __init__(self) -> None:
        self._there: dict[str, asyncio.Event] = {}
        self.missed = 0  # decodes that were given up on

    def _room(self, peer: Peer) -> asyncio.Event:
        room = json.dumps(asked(peer)["bootstrap_room"])
        return self._there.setdefault(room, asyncio.Event())

    def prefills(self, answer: Script | None = None) -> Engine:
        async def script(peer: Peer) -> None:
            self._room(peer).set()
            await (answer or answers(json_answer(b'{"id":"p"}')))(peer)

        return Engine(script)

    def decodes(self, answer: Script) -> Engine:
        async def script(peer: Peer) -> None:
            waits = asyncio.ensure_future(self._room(peer).wait())  # noqa: TID251
            left = asyncio.ensure_future(peer.left())  # noqa: TID251
            await asyncio.wait((waits, left), return_when=asyncio.FIRST_COMPLETED)
            met = waits.done()
            for one in (waits, left):
                one.cancel()
            await asyncio.gather(waits, left, return_exceptions=True)
            if met:
                await answer(peer)
            else:
                self.missed += 1
                peer.close()

        return Engine(script)


async def hangs(peer: Peer) -> None:
    await peer.left()
    peer.close()


@pytest.mark.parametrize("stream", [True, False])
def test_both_are_asked_the_same_and_the_client_has_the_answer_of_the_one_that_decodes(stream: bool) -> None:
    async def test() -> None:
        meeting = Meeting()
        p = meeting.prefills()
        d = meeting.decodes(streams(ROLE, TOKEN, FINISH) if stream else answers(json_answer(ANSWER)))
        body = BODY if stream else NOT_STREAMED
        async with scripted([p], [d], STYLE) as gateway:
            got = await ask(gateway.port, post(body, CHAT))
            assert (got.status, got.is_whole) == (200, True)
            assert got.text == (EVENTS if stream else ANSWER)
            (first,), (second,) = p.asked, d.asked
            assert first.body == second.body
            assert first.body.startswith(body[:-1] + b',"bootstrap_host":"127.0.0.1","bootstrap_port":')
            sent = asked(first)
            assert sent["bootstrap_port"] == p.port
            assert 0 <= sent["bootstrap_room"] < 1 << 63
            await idle(gateway)

    run(test)


def test_every_request_has_a_room_of_its_own() -> None:
    async def test() -> None:
        meeting = Meeting()
        p, d = meeting.prefills(), meeting.decodes(answers(json_answer(ANSWER)))
        async with scripted([p], [d], STYLE) as gateway:
            for _ in range(5):
                assert (await ask(gateway.port, post(NOT_STREAMED, CHAT))).status == 200
            two = b'{"model":"m","prompt":["a","b"]}'
            assert (await ask(gateway.port, post(two, COMPLETIONS))).status == 200
            rooms: list[Any] = [asked(peer)["bootstrap_room"] for peer in p.asked]
            assert rooms == [asked(peer)["bootstrap_room"] for peer in d.asked]
            assert len({*rooms[:5], *rooms[5]}) == 7

    run(test)


FAILURES: dict[str, Script] = {
    "cut before its answer": resets,
    "429": answers(json_answer(b"{}", "429 Too Many Requests")),
    "503": answers(json_answer(b"{}", "503 Service Unavailable")),
    "no HTTP": answers(b"what?\r\n\r\n"),
    "an error inside a 200": streams('{"error":{"message":"KVTransferError","code":500}}'),
    "hangs": hangs,
}


@pytest.mark.parametrize("how", [*FAILURES, "not there"])
def test_a_failed_prefill_does_not_leave_the_other_waiting_and_another_pair_answers(how: str) -> None:
    async def test() -> None:
        meeting = Meeting()
        bad, good = Engine(FAILURES.get(how, resets)), meeting.prefills()
        d = meeting.decodes(streams(ROLE, TOKEN, FINISH))
        async with scripted([bad, good], [d], STYLE, limits=QUICK) as gateway:
            if how == "not there":
                await bad.stop()
            got = await ask(gateway.port, post(BODY, CHAT))
            assert (got.status, got.is_whole, got.text) == (200, True, EVENTS)
            assert len(good.asked) == 1
            rooms = [
                asked(peer)["bootstrap_room"] for peer in d.asked
            ]  # the first it may not even have heard of
            assert len(set(rooms)) == len(rooms) in (1, 2)
            assert rooms[-1] == asked(good.asked[0])["bootstrap_room"]
            assert asked(d.asked[-1])["bootstrap_port"] == good.port
            await idle(gateway)
            await until(lambda: meeting.missed == len(d.asked) - 1)

    run(test)


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Broken"])
def test_what_the_one_that_prefills_refuses_is_refused_in_its_own_words(status: str) -> None:
    refusal = b'{"error":{"message":"too long","code":400}}'

    async def test() -> None:
        meeting = Meeting()
        p = Engine(answers(json_answer(refusal, status)))
        d = meeting.decodes(streams(ROLE, TOKEN, FINISH))
        async with scripted([p, meeting.prefills()], [d], STYLE) as gateway:
            got = await ask(gateway.port, post(BODY, CHAT))
            assert (got.status, got.body) == (int(status[:3]), refusal)
            await idle(gateway)
            assert len(p.asked) == 1
            await until(lambda: meeting.missed == len(d.asked) <= 1)

    run(test)


def test_without_another_pair_the_client_hears_of_it_and_nobody_waits() -> None:
    async def test() -> None:
        meeting = Meeting()
        bad, d = Engine(resets), meeting.decodes(streams(ROLE, TOKEN, FINISH))
        async with scripted([bad], [d], STYLE) as gateway:
            got = await ask(gateway.port, post(BODY, CHAT))
            assert got.status == 502
            assert json.loads(got.text)["error"]["type"] == "upstream_cut"
            await idle(gateway)
            await until(lambda: meeting.missed == len(d.asked) <= 1)

    run(test)


@pytest.mark.parametrize("how", ["503", "cut before its answer", "hangs", "not there"])
def test_a_failed_decode_ends_the_prefill_and_another_pair_answers(how: str) -> None:
    gone: list[int] = []

    async def test() -> None:
        meeting = Meeting()

        async def until_left(peer: Peer) -> None:
            if len(p.asked) == 1 and how != "not there":
                assert await peer.left()
                gone.append(1)
                peer.close()
            else:
                await peer.send(json_answer(b"{}"))

        p = meeting.prefills(until_left)
        bad, good = Engine(FAILURES.get(how, resets)), meeting.decodes(streams(ROLE, TOKEN, FINISH))
        async with scripted([p], [bad, good], STYLE, limits=QUICK) as gateway:
            if how == "not there":
                await bad.stop()
            got = await ask(gateway.port, post(BODY, CHAT))
            assert (got.status, got.is_whole, got.text) == (200, True, EVENTS)
            await idle(gateway)
            assert len(good.asked) == 1
            assert asked(p.asked[-1])["bootstrap_room"] == asked(good.asked[0])["bootstrap_room"]
            assert (len(p.asked), gone) == ((1, []) if how == "not there" else (2, [1]))

    run(test)


def test_once_the_answer_has_begun_the_end_of_the_prefill_is_nothing_to_it() -> None:
    async def test() -> None:
        meeting, told = Meeting(), asyncio.Event()

        async def cut_late(peer: Peer) -> None:
            await told.wait()
            peer.reset()

        async def slowly(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(ROLE), event(TOKEN))
            told.set()
            await asyncio.sleep(0.2)
            await peer.send(event(FINISH), event("[DONE]"), b"0\r\n\r\n")

        async with scripted([meeting.prefills(cut_late)], [meeting.decodes(slowly)], STYLE) as gateway:
            got = await ask(gateway.port, post(BODY, CHAT))
            assert (got.status, got.is_whole, got.text) == (200, True, EVENTS)
            await idle(gateway)

    run(test)


@pytest.mark.parametrize("when", ["before its answer", "in its answer"])
def test_a_client_that_leaves_ends_both_legs(when: str) -> None:
    async def test() -> None:
        meeting, begun = Meeting(), asyncio.Event()
        gone: list[str] = []

        def waits(name: str, *pieces: bytes) -> Script:
            async def script(peer: Peer) -> None:
                await peer.send(*pieces)
                if name == "decode":
                    begun.set()
                assert await peer.left()
                gone.append(name)
                peer.close()

            return script

        p = meeting.prefills(waits("prefill"))
        said = (SSE_HEAD, event(ROLE), event(TOKEN)) if when == "in its answer" else ()
        d = Engine(waits("decode", *said))
        async with scripted([p], [d], STYLE) as gateway:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post(BODY, CHAT))
            await asyncio.wait_for(begun.wait(), 30)
            writer.close()
            await _gone(gateway, gone, ["decode", "prefill"])

    run(test)


async def _gone(gateway: Gateway, gone: list[str], wanted: list[str]) -> None:
    async with asyncio.timeout(30):
        while sorted(gone) != wanted:
            await asyncio.sleep(0.01)
    await idle(gateway)


def test_an_idle_connection_that_ends_as_it_is_used_again_costs_nothing() -> None:
    async def test() -> None:
        meeting, seen = Meeting(), list[int]()

        async def second_resets(peer: Peer) -> None:
            seen.append(1)
            if len(seen) == 2:
                peer.reset()
            else:
                await peer.send(json_answer(ANSWER))

        p, d = meeting.prefills(), Engine(second_resets)
        async with scripted([p], [d], STYLE) as gateway:
            for _ in range(2):
                got = await ask(gateway.port, post(NOT_STREAMED, CHAT))
                assert (got.status, got.body) == (200, ANSWER)
            assert len(d.asked) == 3
            assert asked(d.asked[-1])["bootstrap_room"] == asked(p.asked[-1])["bootstrap_room"]
            await idle(gateway)

    run(test)


def test_what_cannot_be_split_goes_to_an_engine_that_does_both() -> None:
    async def test() -> None:
        p, d, both = (Engine(answers(json_answer(ANSWER))) for _ in range(3))
        for engine in (p, d, both):
            await engine.start()
        spec = fleet(
            [("prefill", p.url), ("decode", d.url), ("both", both.url)], replace(STYLE, min_bytes=99)
        )
        async with running(p, d, both, fleets=(spec,)) as gateway:
            messages = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}'
            for path, body in (("/v1/messages", messages), (CHAT, NOT_STREAMED)):
                assert (await ask(gateway.port, post(body, path))).status == 200
            assert (p.asked, d.asked, [peer.body for peer in both.asked]) == (
                [],
                [],
                [messages, NOT_STREAMED],
            )

    run(test)
