"""Which requests are not split and go whole to an engine that decodes, in fleets whose engines have roles."""

import json
from dataclasses import replace

import pytest

from gateway.spec import SplitSpec
from tests.gateway.split.staging import CHAT, COMPLETIONS, fleet, run, scripted
from tests.gateway.split.test_legs_in_turn import ANSWER, BODIES, LIMITS, answering, prefills
from tests.support import (
    Engine,
    answers,
    ask,
    json_answer,
    post,
    running,
    until,
)

WHOLE: dict[str, tuple[str, bytes, SplitSpec]] = {
    "short": (CHAT, BODIES[CHAT, False], SplitSpec(min_bytes=1000)),
    "two answers": (CHAT, BODIES[CHAT, False][:-1] + b',"n":2}', SplitSpec()),
    "two prompts": (COMPLETIONS, b'{"model":"m","prompt":["a","b"]}', SplitSpec()),
    "no generation": ("/v1/embeddings", b'{"model":"m","input":"a"}', SplitSpec()),
    "another API": ("/v1/responses", b'{"model":"m","input":"a"}', SplitSpec()),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_not_split_goes_as_it_is_to_an_engine_that_decodes(name: str) -> None:
    path, body, split = WHOLE[name]

    async def test() -> None:
        p, d = prefills(), Engine(answering(stream=False))
        async with scripted([p], [d], split) as gateway:
            got = await ask(gateway.port, post(body, path))
            assert (got.status, got.body) == (200, ANSWER)
            assert (p.asked, [peer.body for peer in d.asked]) == ([], [body])

    run(test)


def test_a_body_too_large_to_be_read_goes_by_to_an_engine_that_decodes() -> None:
    async def test() -> None:
        p, d = prefills(), Engine(answering(stream=False))
        async with scripted([p], [d], limits=replace(LIMITS, read_bytes=1024)) as gateway:
            body = json.dumps({"model": "m", "prompt": "x" * 5000}).encode()
            got = await ask(gateway.port, post(body, COMPLETIONS))
            assert (got.status, got.body) == (200, ANSWER)
            assert (p.asked, [peer.body for peer in d.asked]) == ([], [body])

    run(test)


def test_a_prompt_that_an_engine_holds_but_for_a_little_is_not_split() -> None:
    """Its own words count, not what it shares with what was handed over before."""
    said_before = "the lighthouse and the sea " * 60

    def turn(*words: str) -> bytes:
        messages = [{"role": "user", "content": one} for one in words]
        return json.dumps({"model": "m", "messages": messages}).encode()

    async def test() -> None:
        p, d = prefills(), Engine(answering(stream=False))
        async with scripted([p], [d], SplitSpec(min_bytes=200)) as gateway:
            for body in (turn(said_before), turn(said_before, "And then?"), turn("other " * 100)):
                assert (await ask(gateway.port, post(body, CHAT))).status == 200
            assert (len(p.asked), len(d.asked)) == (2, 3)
            assert d.asked[1].body == turn(said_before, "And then?")

    run(test)


def test_an_engine_that_does_both_makes_the_whole_answer_where_it_is_chosen_to_prefill() -> None:
    async def test() -> None:
        both, d = Engine(answering(stream=False)), Engine(answering(stream=False))
        for engine in (both, d):
            await engine.start()
        spec = fleet([("both", both.url), ("decode", d.url)], SplitSpec())
        async with running(both, d, fleets=(spec,)) as gateway:
            got = await ask(gateway.port, post(BODIES[CHAT, False], CHAT))
            assert (got.status, got.body) == (200, ANSWER)
            assert ([peer.body for peer in both.asked], d.asked) == ([BODIES[CHAT, False]], [])

    run(test)


def test_an_opened_path_reaches_the_engine_it_was_opened_on_whatever_its_role() -> None:
    async def test() -> None:
        p, d = Engine(answers(json_answer(b"{}"))), Engine(answering(stream=False))
        for engine in (p, d):
            await engine.start()
        spec = fleet([("prefill", p.url), ("decode", d.url)], SplitSpec())
        opened = replace(spec.engines[0], allow_paths=("/reset_prefix_cache",))
        spec = replace(spec, engines=(opened, spec.engines[1]))
        async with running(p, d, fleets=(spec,)) as gateway:
            got = await ask(gateway.port, post(b"", "/reset_prefix_cache"))
            assert got.status == 200
            assert (len(p.asked), d.asked) == (1, [])

    run(test)


def test_roles_that_a_reload_brings_and_takes_hold_from_the_next_request_on() -> None:
    async def test() -> None:
        p, d = prefills(), Engine(answering(stream=False))
        async with scripted([p], [d]) as gateway:
            split = gateway.spec.fleets
            none = tuple(replace(one, role="decode") for one in split[0].engines)
            assert (await ask(gateway.port, post(BODIES[CHAT, False], CHAT))).body == ANSWER
            only = replace(split[0], engines=(replace(none[1], role="both"),), split=None)
            assert await gateway.renew(fleets=(only,)) is None
            assert (await ask(gateway.port, post(BODIES[CHAT, False], CHAT))).body == ANSWER
            assert (len(p.asked), len(d.asked)) == (1, 2)
            assert d.asked[1].body == BODIES[CHAT, False]
            assert await gateway.renew(fleets=split) is None
            await until(lambda: len(p.asked) == 1)
            answered = await ask(gateway.port, post(BODIES[CHAT, False], CHAT))
            assert answered.body == ANSWER

    run(test)


def test_a_websocket_goes_to_an_engine_that_answers() -> None:
    handshake = (
        b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: gw\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    async def test() -> None:
        p, d = prefills(), Engine(answers(json_answer(b"{}", "403 Forbidden", "Connection: close")))
        async with scripted([p], [d]) as gateway:
            for _ in range(8):
                assert (await ask(gateway.port, handshake)).status == 403
            assert (p.asked, len(d.asked)) == ([], 8)

    run(test)
