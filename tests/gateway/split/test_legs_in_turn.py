"""vLLM's way, engines scripted: what each leg gets, and what becomes of a request when a leg fails."""

import asyncio
import gzip
import json
from dataclasses import replace

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec, SplitSpec
from tests.gateway.split.staging import CHAT, COMPLETIONS, SAID, asked, header, idle, run, scripted
from tests.support import (
    FINISH,
    ROLE,
    SSE_HEAD,
    TOKEN,
    Engine,
    Peer,
    Script,
    answers,
    ask,
    chunk,
    event,
    json_answer,
    post,
    running,
    streams,
)
from tests.support_shared import resets

PREFILLED = json_answer(json.dumps({"id": "p", "kv_transfer_params": SAID}).encode())
ANSWER = b'{"id":"d", "choices" : [{"text":"it\\u0073 answer"}],"usage":{"prompt_tokens":3}}'
BODIES = {
    (CHAT, True): b'{"model":"m", "stream":true,"messages":[{"role":"user","content":"hi"}],"max_tokens":7}',
    (CHAT, False): b'{"model":"m","messages":[{"role":"user","content":"hi"}]}',
    (COMPLETIONS, True): b'{"model":"m","prompt":"hi","stream": true}',
    (COMPLETIONS, False): b'{"model":"m","prompt":"hi","max_tokens":7, "stop":["a"]}',
}
EVERY = pytest.mark.parametrize(("path", "stream"), list(BODIES), ids=lambda value: str(value))
LIMITS = LimitsSpec(drain_s=5.0, first_token_timeout_s=600.0)
QUICK = replace(LIMITS, first_token_timeout_s=1.0, idle_timeout_s=1.0)
EVENTS = b"".join(b"data: %b\n\n" % one.encode() for one in (ROLE, TOKEN, FINISH, "[DONE]"))


def answering(stream: bool) -> Script:
    return streams(ROLE, TOKEN, FINISH) if stream else answers(json_answer(ANSWER))


def prefills() -> Engine:
    return Engine(answers(PREFILLED))


async def hangs(peer: Peer) -> None:
    await peer.left()
    peer.close()


def cut(*pieces: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.send(*pieces)
        peer.close()

    return script


def said(stream: bool) -> bytes:
    """The whole body the client must have."""
    return EVENTS if stream else ANSWER


@EVERY
def test_the_client_has_the_second_engines_answer_to_the_byte(path: str, stream: bool) -> None:
    body = BODIES[path, stream]

    async def test() -> None:
        p, d = prefills(), Engine(answering(stream))
        async with scripted([p], [d]) as gateway:
            got = await ask(gateway.port, post(body, path + "?a=b", "x-request-id: r-1"))
            assert (got.status, got.is_whole, got.text) == (200, True, said(stream))
            (first,), (second,) = p.asked, d.asked
            assert first.line == second.line == f"POST {path}?a=b HTTP/1.1"
            assert header(first, "x-request-id") == header(second, "x-request-id") == "r-1"
            assert second.body == body[:-1] + b',"kv_transfer_params":' + json.dumps(SAID).encode() + b"}"
            sent = asked(first)
            assert (sent["max_tokens"], sent["stream"]) == (1, False)
            assert sent["kv_transfer_params"]["do_remote_decode"] is True
            await idle(gateway)

    run(test)


def test_engines_have_their_own_keys_and_names_for_the_model() -> None:
    async def test() -> None:
        p, d = prefills(), Engine(answering(stream=False))
        for engine in (p, d):
            await engine.start()
        engines = (
            EngineSpec(0, p.url, kind="vllm", api_key="kp", model="p-model", role="prefill"),
            EngineSpec(1, d.url, kind="vllm", api_key="kd", model="d-model", role="decode"),
        )
        spec = FleetSpec("m", ("m",), True, engines, split=SplitSpec())
        async with running(p, d, fleets=(spec,)) as gateway:
            got = await ask(gateway.port, post(BODIES[CHAT, False], CHAT))
            assert got.status == 200
            assert [asked(one.asked[0])["model"] for one in (p, d)] == ["p-model", "d-model"]
            assert [header(one.asked[0], "authorization") for one in (p, d)] == ["Bearer kp", "Bearer kd"]

    run(test)


def test_a_compressed_body_is_plain_for_both_and_a_compressed_first_answer_is_understood() -> None:
    packed = gzip.compress(PREFILLED.partition(b"\r\n\r\n")[2])

    async def test() -> None:
        p = Engine(answers(json_answer(packed, "200 OK", "Content-Encoding: gzip")))
        d = Engine(answering(stream=False))
        async with scripted([p], [d]) as gateway:
            body = gzip.compress(BODIES[CHAT, False])
            got = await ask(gateway.port, post(body, CHAT, "Content-Encoding: gzip", "Accept-Encoding: gzip"))
            assert got.body == ANSWER
            assert asked(p.asked[0])["kv_transfer_params"]["do_remote_decode"] is True
            assert asked(d.asked[0])["kv_transfer_params"] == SAID
            assert header(d.asked[0], "content-encoding") is None

    run(test)


FAILURES: dict[str, Script] = {
    "cut before its answer": resets,
    "cut in the head": cut(b"HTTP/1.1 200 OK\r\nContent-"),
    "cut in the body": cut(PREFILLED[:-9]),
    "429": answers(json_answer(b"{}", "429 Too Many Requests")),
    "502": answers(json_answer(b"{}", "502 Bad Gateway")),
    "503": answers(json_answer(b"{}", "503 Service Unavailable")),
    "no HTTP": answers(b"what?\r\n\r\n"),
    "hangs": hangs,
    "hangs in the body": answers(PREFILLED[:-9]),
}


@EVERY
@pytest.mark.parametrize("how", [*FAILURES, "not there"])
def test_a_failed_prefill_is_made_again_by_another_engine(how: str, path: str, stream: bool) -> None:
    body = BODIES[path, stream]

    async def test() -> None:
        bad, good, d = Engine(FAILURES.get(how, resets)), prefills(), Engine(answering(stream))
        async with scripted([bad, good], [d], limits=QUICK) as gateway:
            if how == "not there":
                await bad.stop()
            got = await ask(gateway.port, post(body, path))
            assert (got.status, got.is_whole, got.text) == (200, True, said(stream))
            assert (len(good.asked), len(d.asked)) == (1, 1)
            assert asked(d.asked[0])["kv_transfer_params"] == SAID
            await idle(gateway)

    run(test)


@pytest.mark.parametrize("how", ["cut before its answer", "503", "hangs", "not there"])
def test_where_nobody_else_prefills_the_engine_that_decodes_computes_the_prompt(how: str) -> None:
    async def test() -> None:
        bad, d = Engine(FAILURES.get(how, resets)), Engine(answering(stream=True))
        async with scripted([bad], [d], limits=QUICK) as gateway:
            if how == "not there":
                await bad.stop()
            body = BODIES[CHAT, True]
            got = await ask(gateway.port, post(body, CHAT))
            assert (got.status, got.is_whole, got.text) == (200, True, EVENTS)
            assert d.asked[0].body == body

    run(test)


def test_without_retries_a_failed_prefill_is_the_clients_to_hear_of() -> None:
    async def test() -> None:
        bad, good, d = Engine(resets), prefills(), Engine(answering(stream=True))
        limits = replace(QUICK, retries=0)
        async with scripted([bad, good], [d], limits=limits) as gateway:
            got = await ask(gateway.port, post(BODIES[CHAT, True], CHAT))
            assert got.status == 502
            assert json.loads(got.text)["error"]["type"] == "upstream_cut"
            assert (len(bad.asked), good.asked, d.asked) == (1, [], [])
            await idle(gateway)

    run(test)


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "422 Wrong", "500 Broken"])
@EVERY
def test_what_the_first_engine_refuses_is_refused_in_its_own_words(
    status: str, path: str, stream: bool
) -> None:
    refusal = b'{"error":{"message":"too long","code":400}}'

    async def test() -> None:
        p, d = Engine(answers(json_answer(refusal, status, "x-engine: p"))), Engine(answering(stream))
        async with scripted([p, prefills()], [d]) as gateway:
            got = await ask(gateway.port, post(BODIES[path, stream], path))
            assert (got.status, got.body, got.header("x-engine")) == (int(status[:3]), refusal, ["p"])
            assert (len(p.asked), d.asked) == (1, [])
            await idle(gateway)

    run(test)


@pytest.mark.parametrize(
    "answer", [b'{"kv_transfer_params":null}', b"{}", b"no JSON", b'{"a":"' + b"x" * (5 << 20) + b'"}']
)
def test_without_kv_to_fetch_the_second_engine_computes_the_prompt(answer: bytes) -> None:
    async def test() -> None:
        p, d = Engine(answers(json_answer(answer))), Engine(answering(stream=False))
        async with scripted([p], [d]) as gateway:
            got = await ask(gateway.port, post(BODIES[CHAT, False], CHAT))
            assert (got.status, got.body) == (200, ANSWER)
            assert d.asked[0].body == BODIES[CHAT, False]

    run(test)


DECODE_FAILURES: dict[str, Script] = {
    "cut before its answer": resets,
    "503": answers(json_answer(b"{}", "503 Service Unavailable")),
    "hangs": hangs,
    "cut after its head": cut(SSE_HEAD),
    "cut after the role": cut(SSE_HEAD + chunk(b": comment\n\n")),
    "busy inside a 200": streams('{"error":{"message":"busy","code":503}}'),
}


@pytest.mark.parametrize("how", DECODE_FAILURES)
def test_before_its_first_token_a_failed_decode_has_all_made_again(how: str) -> None:
    async def test() -> None:
        p, bad, good = prefills(), Engine(DECODE_FAILURES[how]), Engine(answering(stream=True))
        async with scripted([p], [bad, good], limits=QUICK) as gateway:
            got = await ask(gateway.port, post(BODIES[CHAT, True], CHAT))
            assert (got.status, got.is_whole) == (200, True)
            assert got.text.replace(b": comment\n\n", b"") == EVENTS
            assert (len(p.asked), len(bad.asked), len(good.asked)) == (2, 1, 1)
            assert asked(good.asked[0])["kv_transfer_params"] == SAID
            await idle(gateway)

    run(test)


def test_kv_that_nobody_has_read_of_is_handed_to_the_next_engine() -> None:
    async def test() -> None:
        p, gone, good = prefills(), Engine(hangs), Engine(answering(stream=True))
        async with scripted([p], [gone, good]) as gateway:
            await gone.stop()
            got = await ask(gateway.port, post(BODIES[CHAT, True], CHAT))
            assert (got.status, got.is_whole, got.text) == (200, True, EVENTS)
            assert (len(p.asked), gone.asked, len(good.asked)) == (1, [], 1)

    run(test)


def test_after_its_first_token_a_failed_decode_is_not_made_again() -> None:
    async def test() -> None:
        p = prefills()
        bad, good = Engine(cut(SSE_HEAD, event(ROLE), event(TOKEN))), Engine(answering(stream=True))
        async with scripted([p], [bad, good]) as gateway:
            got = await ask(gateway.port, post(BODIES[CHAT, True], CHAT))
            assert not got.is_whole
            assert TOKEN.encode() in got.text
            assert b'"error"' in got.text
            assert (len(p.asked), len(bad.asked), good.asked) == (1, 1, [])

    run(test)


@pytest.mark.parametrize("leg", ["prefill", "decode", "decode, in its answer"])
def test_a_client_that_leaves_ends_the_leg_that_runs(leg: str) -> None:
    left = asyncio.Event

    async def test() -> None:
        gone, begun = left(), left()

        async def waits(peer: Peer) -> None:
            if leg.endswith("answer"):
                await peer.send(SSE_HEAD, event(ROLE), event(TOKEN))
            begun.set()
            assert await peer.left()
            gone.set()

        p = Engine(waits) if leg == "prefill" else prefills()
        d = Engine(waits)
        async with scripted([p], [d]) as gateway:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(post(BODIES[CHAT, True], CHAT))
            await asyncio.wait_for(begun.wait(), 30)
            writer.close()
            await asyncio.wait_for(gone.wait(), 30)
            assert len(d.asked) == (0 if leg == "prefill" else 1)
            await idle(gateway)

    run(test)


@pytest.mark.parametrize("leg", ["prefill", "decode"])
def test_a_connection_that_ends_as_it_is_used_again_costs_nothing(leg: str) -> None:
    """The engine closes its idle connection just as the gateway sends on it: H19, for either leg."""

    async def test() -> None:
        seen: list[int] = []

        def once(good: bytes, is_bad: bool) -> Script:
            async def script(peer: Peer) -> None:
                seen.append(1)
                if is_bad and len(seen) == 2:
                    peer.reset()
                    return
                await peer.send(good)

            return script

        p = Engine(once(PREFILLED, True)) if leg == "prefill" else prefills()
        d = Engine(once(json_answer(ANSWER), True)) if leg == "decode" else Engine(answering(stream=False))
        async with scripted([p], [d]) as gateway:
            for _ in range(2):
                got = await ask(gateway.port, post(BODIES[CHAT, False], CHAT))
                assert (got.status, got.body) == (200, ANSWER)
            last = d.asked[-1]
            assert asked(last)["kv_transfer_params"] == SAID
            assert len(p.asked if leg == "prefill" else d.asked) == 3
            assert len(d.asked if leg == "prefill" else p.asked) == 2
            await idle(gateway)

    run(test)
