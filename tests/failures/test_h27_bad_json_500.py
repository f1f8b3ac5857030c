"""A client's mistake shows up as a 500 or a crash; SDKs repeat it for ever; alarms go off."""

import json

import pytest

from gateway.spec import LimitsSpec
from tests.failures.support import NOT_STREAMED, at_once
from tests.support import Answered, Engine, Gateway, answers, ask, json_answer, post, running
from tests.support_shared import run

PATHS: tuple[str, ...] = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1/embeddings",
)
PATHS += ("/generate", "/completion", "/tokenize", "/v1/rerank")
TYPES: tuple[str, ...] = (
    "application/json",
    "",
    "text/plain",
    "application/json; charset=utf-16",
    "x",
    "application/x-www-form",
)
TYPES += ("multipart/form-data", "multipart/form-data; boundary=", 'multipart/form-data; boundary="')
DEEP = 20_000
BAD = {
    "not JSON": b"{not json",
    "empty": b"",
    "blank": b" \r\n ",
    "a list": b"[]",
    "a string": b'"text"',
    "a number": b"7",
    "null": b"null",
    "a model that is a number": b'{"model":5}',
    "a model that is null": b'{"model":null,"messages":[]}',
    "a model that is an object": b'{"model":{"model":"m"}}',
    "a model that is empty": b'{"model":""}',
    "a model of many bytes": b'{"model":"' + b"m" * 100_000 + b'"}',
    "a model with control characters": b'{"model":"\\u0000\\r\\n\\u001b[31m"}',
    "no model": b'{"messages":[{"role":"user","content":"x"}]}',
    "messages that are a string": b'{"model":"m","messages":"x"}',
    "messages that are numbers": b'{"model":"m","messages":[1,null,[],"x",{"role":7,"content":{"a":[]}}]}',
    "messages that are an object": b'{"model":"m","messages":{"role":"user"}}',
    "a prompt that is an object": b'{"model":"m","prompt":{"a":1}}',
    "a prompt of mixed lists": b'{"model":"m","prompt":[1,"a",[2],null,{}],"input":[[[]]]}',
    "contents that are odd": b'{"model":"m","messages":[{"role":"user","content":[1,null,[],{"type":9}]}]}',
    "tools that are odd": b'{"model":"m","tools":7,"messages":[{"role":"tool"}],"stream":"y","max_tokens":0}',
    "a byte order mark": b'\xef\xbb\xbf{"model":"m"}',
    "UTF-16": '{"model":"m"}'.encode("utf-16"),
    "Latin-1": '{"model":"m","prompt":"caf\u00e9"}'.encode("latin-1"),
    "bytes": bytes(range(256)) * 4,
    "zeros": b"\0" * 5_000,
    "nested lists": b"[" * DEEP,
    "nested lists, closed": b"[" * DEEP + b"]" * DEEP,
    "nested objects": b'{"a":' * DEEP,
    "nested objects, closed": b'{"model":"m","x":' + b'{"a":' * DEEP + b"1" + b"}" * (DEEP + 1),
    "nested messages": b'{"model":"m","messages":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "nested contents": b'{"model":"m","messages":[{"role":"user","content":'
    + b"[" * DEEP
    + b"]" * DEEP
    + b"}]}",
    "a number too large": b'{"model":"m","n":1' + b"0" * 5_000 + b',"seed":1e999999}',
    "not a number": b'{"model":"m","temperature":NaN,"top_p":Infinity}',
    "keys twice": b'{"model":"m","model":5,"messages":[],"messages":"x"}',
    "a comma too many": b'{"model":"m",}',
    "single quotes": b"{'model':'m'}",
    "two values": b'{"model":"m"}{"model":"m"}',
    "half a surrogate": b'{"model":"\\ud83d","messages":[{"role":"\\udc00","content":"\\ud83d"}]}',
    "an escape that is none": b'{"model":"m","prompt":"\\x"}',
    "a string without end": b'{"model":"m","prompt":"' + b'\\"' * 4_000,
    "half an object": b'{"model":"m","messages":[{"role":"user","con',
}


def of_type(kind: str, body: bytes, path: str) -> bytes:
    field = f"Content-Type: {kind}\r\n" if kind else ""
    return post(body, path).replace(b"Content-Type: application/json\r\n", field.encode())


def is_the_clients(got: Answered) -> bool:
    """An error that an SDK does not repeat, in OpenAI's shape."""
    return 400 <= got.status < 500 and bool(json.loads(got.text)["error"]["message"])


async def still_well(gateway: Gateway, engine: Engine) -> None:
    """Nothing is held, nothing is held against the engine, and good requests are served."""
    assert gateway.inflight() == 0 and gateway.loads.totals(0) == (0, 0, 0, 0)
    health = b"GET /health HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
    assert (await ask(gateway.port, health)).status == 200
    engine.script = answers(json_answer(b"{}"))
    assert (await ask(gateway.port, post(NOT_STREAMED))).status == 200


JUDGES = answers(json_answer(b'{"error":{"message":"the engine says no"}}', "422 Unprocessable"))


@pytest.mark.parametrize("read_bytes", [8 << 20, 10], ids=["read", "streamed by"])
def test_h27_bad_json_500_never_every_body_on_every_path_is_the_clients_mistake(read_bytes: int) -> None:
    async def test() -> None:
        engine = Engine(JUDGES)
        cases = [(how, path) for how in BAD for path in PATHS]
        async with running(engine, limits=LimitsSpec(read_bytes=read_bytes)) as gateway:
            got = await at_once((ask(gateway.port, post(BAD[how], path)) for how, path in cases), 16)
            for case, answer in zip(cases, got, strict=True):
                assert is_the_clients(answer), (case, answer.raw[:300])
            await still_well(gateway, engine)

    run(test())


@pytest.mark.parametrize("kind", TYPES)
def test_h27_bad_json_500_never_whatever_type_the_body_is_said_to_be(kind: str) -> None:
    async def test() -> None:
        engine = Engine(JUDGES)
        bodies = [*BAD.values(), NOT_STREAMED]
        async with running(engine) as gateway:
            asked = (ask(gateway.port, of_type(kind, body, PATHS[0])) for body in bodies)
            assert all(map(is_the_clients, await at_once(asked, 16)))
            await still_well(gateway, engine)

    run(test())


@pytest.mark.parametrize(
    "coding", ["gzip", "br", "zstd", "deflate", "identity", "gzip, gzip", "made-up", "", "\u00e9"]
)
def test_h27_bad_json_500_never_however_it_is_said_to_be_packed(coding: str) -> None:
    async def test() -> None:
        engine = Engine(JUDGES)
        bodies = [*BAD.values(), NOT_STREAMED]
        async with running(engine) as gateway:
            requests = [
                post(body).replace(b"Host", f"Content-Encoding: {coding}\r\nHost".encode()) for body in bodies
            ]
            asked = (ask(gateway.port, request) for request in requests)
            assert all(map(is_the_clients, await at_once(asked, 16)))
            await still_well(gateway, engine)

    run(test())


def test_h27_bad_json_500_never_a_good_body_cut_after_any_byte_is_the_clients_mistake() -> None:
    """As with a client whose own JSON was cut, and said to be whole."""
    good = (
        b'{"model":"m","stream":true,"messages":[{"role":"user","content":"caf\xc3\xa9 \\u00e9"}],"n":1.5e3}'
    )

    async def test() -> None:
        engine = Engine(JUDGES)
        async with running(engine) as gateway:
            got = await at_once((ask(gateway.port, post(good[:cut])) for cut in range(len(good))), 16)
            assert all(map(is_the_clients, got))
            await still_well(gateway, engine)

    run(test())


def test_h27_bad_json_500_never_any_byte_of_a_good_body_may_be_another() -> None:
    good = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    odd = (0x00, 0x22, 0x2C, 0x5B, 0x5C, 0x7B, 0x7D, 0xC3, 0xFF)

    async def test() -> None:
        engine = Engine(JUDGES)
        bodies = [good[:at] + bytes([byte]) + good[at + 1 :] for at in range(len(good)) for byte in odd]
        async with running(engine) as gateway:
            got = await at_once((ask(gateway.port, post(body)) for body in bodies), 16)
            assert all(map(is_the_clients, got))
            await still_well(gateway, engine)

    run(test())
