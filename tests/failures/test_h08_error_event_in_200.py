"""An error in the middle of a stream is swallowed or relabelled, or the stream stays open after it."""

import asyncio
from itertools import product

from gateway.spec import LimitsSpec
from tests.failures.support import ask_each, last_counts, number, told
from tests.support import FINISH, LAST, ROLE, SSE_HEAD, TOKEN, Answered, Engine, Peer, chunk, running
from tests.support_shared import run


def data(payload: str) -> bytes:
    return b"data: " + payload.encode() + b"\n\n"


# How engines, and proxies before them, say in a stream that something went wrong.
ERRORS = {
    "an object": data('{"error":{"message":"kv full","code":503}}'),
    "a code of words": data('{"error":{"message":"kv full","type":"x","code":"too_long"}}'),
    "with blanks": data('{ "error" : { "message" : "kv full" } }'),
    "a text": data('{"error":"Request failed","error_type":"generation"}'),
    "of its own kind": data('{"object":"error","message":"kv full","type":"x","param":null,"code":400}'),
    "after other fields": data('{"id":"1","choices":[],"error":{"message":"kv full"}}'),
    "beside a finish reason": data(
        '{"choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"code":502,"message":"x"}}'
    ),
    "an event of that name": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
    "a name without blank": b"event:error\ndata: kv full\n\n",
    "a type": data('{"type":"error","error":{"type":"overloaded_error","message":"x"}}'),
    "a field of that name": b'error: {"code":500,"message":"kv full","type":"server_error"}\n\n',
    "a failed response": data('{"type":"response.failed","response":{"error":{"message":"x"}}}'),
}
BEFORE = [(), (ROLE,), (ROLE, TOKEN), (ROLE, TOKEN, TOKEN)]
AFTER = {
    "nothing": b"",
    "[DONE]": data("[DONE]"),
    "a comment": b": ping\n\n",
    "tokens and [DONE]": data(TOKEN) + data(FINISH) + data("[DONE]"),
}
CASES = list(product(ERRORS, BEFORE, AFTER))


def sent(case: int) -> list[bytes]:
    error, before, after = CASES[case]
    return [*map(data, before), ERRORS[error], *([AFTER[after]] if AFTER[after] else [])]


def test_h08_error_event_in_200_is_relayed_unchanged_and_counted_wherever_it_stands() -> None:
    """Each spelling at each place, with each thing after it: the same bytes, the engine's end, an error."""

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD)
        for part in sent(number(peer)):
            await peer.send(chunk(part))
            await asyncio.sleep(0.001)
        await peer.send(LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            for case, got in enumerate(await ask_each(gateway.port, len(CASES))):
                assert (got.status, got.is_whole, got.text) == (200, True, b"".join(sent(case))), CASES[case]
            assert (await last_counts(gateway, heard)).get("requests") == len(CASES)
            assert heard.counts.get("error_event") == len(CASES), heard.counts

    run(test())


def test_h08_error_event_in_200_is_counted_however_much_follows() -> None:
    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, chunk(data(TOKEN)), chunk(ERRORS["an object"]))
        for _ in range(3 * number(peer)):
            await asyncio.sleep(0.005)
            await peer.send(chunk(b": ping\n\n" if number(peer) % 2 else data(TOKEN)))
        await peer.send(chunk(data(FINISH) + data("[DONE]")), LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            await ask_each(gateway.port, 8)
            assert (await last_counts(gateway, heard)).get("requests") == 8
            assert heard.counts.get("error_event") == 8, heard.counts

    run(test())


def test_h08_error_event_in_200_what_a_text_says_of_errors_is_none() -> None:
    """Answers may talk about errors, of JSON and of streams; that is no error."""
    texts = [r"{\"error\":{\"message\":\"x\"}}", r"\nevent: error\n", r"error: no", r"{\"object\":\"error\"}"]

    async def script(peer: Peer) -> None:
        token = TOKEN.replace("tok", texts[number(peer)])
        await peer.send(SSE_HEAD, *(chunk(data(one)) for one in (token, FINISH, "[DONE]")), LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            await ask_each(gateway.port, len(texts))
            assert (await last_counts(gateway, heard)).get("complete") == len(texts)

    run(test())


def test_h08_error_event_in_200_before_an_engine_that_hangs_ends_with_the_idle_limit() -> None:
    """The engine's error is passed on at once; when it then says nothing more, the answer is cut visibly."""
    cases = [(error, before) for error in ERRORS for before in BEFORE[2:]]

    async def script(peer: Peer) -> None:
        error, before = cases[number(peer)]
        await peer.send(SSE_HEAD, *(chunk(data(one)) for one in before), chunk(ERRORS[error]))
        await peer.left()

    def right(case: int, got: Answered) -> bool:
        error, before = cases[case]
        engines = b"".join(map(data, before)) + ERRORS[error]
        return got.text.startswith(engines) and not got.is_whole and b"[DONE]" not in got.text

    async def test() -> None:
        limits = LimitsSpec(idle_timeout_s=0.3)
        async with running(Engine(script), limits=limits) as gateway, told(gateway.run_dir) as heard:
            answered = await ask_each(gateway.port, len(cases))
            assert all(right(case, got) for case, got in enumerate(answered))
            assert gateway.inflight() == 0
            assert (await last_counts(gateway, heard)).get("timeout") == len(cases)

    run(test())
