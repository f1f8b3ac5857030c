"""A 422 for what the engine would take; tool fields, nulls and vendors' fields gone; answers that differ."""

import gzip
import json
import re

import pytest

from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from routing import prompt
from tests.failures.support import at_once
from tests.support import Engine, Peer, answers, ask, json_answer, post, running
from tests.support_shared import run

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
    "/v1/made/up/tomorrow",
    "/generate",
    "/completion",
    "/tokenize",
)
TOOLS = b'"tools":[{"type":"function","function":{"name":"f"}},{"type":"x_1","y":null}],"tool_choice":"auto"'
BODIES = {
    "tools, nulls, a vendor's fields": b'{ "vendor_x":{"a":[1]},"messages":[{"role":"assistant",'
    b'"content":null,"tool_calls":[]},{"role":"tool","tool_call_id":"x","content":"1"}],'
    b'"chat_template_kwargs":{"enable_thinking":false},' + TOOLS + b',"model":"m"}',
    "tool calls": b'{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function",'
    b'"function":{"name":"f","arguments":"{\\"x\\": 1}"},"index":0}]}]}',
    "reasoning": b'{"model":"m","messages":[{"role":"assistant","reasoning_content":"r","reasoning":"q",'
    b'"content":"c"}],"reasoning_effort":"high","thinking":{"type":"enabled","budget_tokens":9}}',
    "numbers": b'{"model":"m","n":1.0,"seed":123456789012345678901234567890,"top_p":1e-3,"a":-0,"b":0.10,'
    b'"temperature":0.30000000000000004,"prompt":"p"}',
    "strings": b'{"model":"m","prompt":"\\u00e9\\ud83d\\ude42 \\/ \\u0000 '
    b'\xc3\xa9 \xf0\x9f\x99\x82 \xe2\x80\xa8"}',
    "half a surrogate": b'{"model":"m","prompt":"\\ud83d"}',
    "not UTF-8": b'{"model":"m","prompt":"\xff\xfe caf\xe9"}',
    "odd blanks": b'\t{\r\n "model"\n:\t"m" ,\r"prompt" : "p" }\n\n',
    "a key twice": b'{"model":"m","prompt":"a","prompt":"b","model":"m"}',
    "keys in odd order": b'{"z":1,"prompt":"p","a":2,"model":"m","b":3}',
    "odd contents": b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},'
    b'{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},{"type":"made_up","q":[[]]}]}]}',
    "odd roles": b'{"model":"m","messages":[{"role":"developer",'
    b'"content":"a","name":"n"},{"role":"function"},{}]}',
    "odd prompts": b'{"model":"m","prompt":[[1,2,3],[4]],'
    b'"echo":true,"suffix":null,"logit_bias":{"50256":-100}}',
    "a body that is a list": b'[{"model":"m"}]',
    "no model": b'{"prompt":"p"}',
    "empty object": b"{}",
    "big integer keys": b'{"model":"m","prompt":"p","x":{"1":{"2":{"3":[[[[[[null]]]]]]}}}}',
}


async def taken(engine: Engine, gateway_port: int, requests: list[bytes]) -> None:
    """Every request is served."""
    statuses = await at_once((status(gateway_port, request) for request in requests), 16)
    assert statuses == [200] * len(requests)


async def status(port: int, request: bytes) -> int:
    return (await ask(port, request)).status


def unread(path: str, body: bytes) -> bool:
    """Whether the gateway says of a body that no engine could read it."""
    try:
        prompt.read(path, body, b"k")
    except prompt.Unreadable:
        return True
    return False


@pytest.mark.parametrize("path", PATHS)
def test_h25_fields_dropped_never_the_engine_gets_the_very_bytes(path: str) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        bodies = [body for body in BODIES.values() if not unread(path, body)]
        assert len(bodies) >= len(BODIES) - 2  # what is not UTF-8 may be refused, and a list
        async with running(engine) as gateway:
            await taken(engine, gateway.port, [post(body, path) for body in bodies])
        assert sorted(peer.body for peer in engine.asked) == sorted(bodies)

    run(test())


def test_h25_fields_dropped_never_also_from_bodies_that_stream_by_or_are_packed() -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        big = [body[:-1] + b" " * 5_000 + body[-1:] for body in BODIES.values()]
        packed = [gzip.compress(body) for body in BODIES.values() if not unread(PATHS[0], body)]
        async with running(engine, limits=LimitsSpec(read_bytes=1_000)) as gateway:
            await taken(engine, gateway.port, [post(body) for body in big])
            zipped = (post(body, PATHS[0], "Content-Encoding: gzip") for body in packed)
            await taken(engine, gateway.port, list(zipped))
        assert sorted(peer.body for peer in engine.asked) == sorted([*big, *packed])

    run(test())


def test_h25_fields_dropped_never_from_answers_either() -> None:
    async def test() -> None:
        bodies = list(BODIES.values())

        async def script(peer: Peer) -> None:
            await peer.send(json_answer(bodies[int(peer.line.split("?")[1].split()[0])]))

        async with running(Engine(script)) as gateway:
            got = await at_once(ask(gateway.port, post(b"{}", f"/v1/x?{n}")) for n in range(len(bodies)))
        assert [answer.body for answer in got] == bodies

    run(test())


NAMED = {
    "first": b'{"model":"alpha","prompt":"model"}',
    "last": b'{"prompt":"\\"model\\":\\"alpha\\"","model":"alpha"}',
    "with blanks": b'{ "model"\n :\t"alpha" , "prompt":"alpha"}',
    "escaped": b'{"model":"al\\u0070ha","prompt":"alpha"}',
    "nested ones too": b'{"x":{"model":"alpha"},"metadata":[{"model":"alpha"}],"model":"alpha","y":"model"}',
    "with nulls and numbers": b'{"n":1.0,"seed":1e400,"a":null,"model":"alpha","z":-0}',
}


@pytest.mark.parametrize("own", ["tiny", 'a/very/long name with \u00e9 and \\ and "'])
@pytest.mark.parametrize("streamed_by", [False, True], ids=["read", "streamed by"])
def test_h25_fields_dropped_never_where_the_models_name_is_another_there_only_it_changes(
    own: str, streamed_by: bool
) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        await engine.start()
        spec = EngineSpec(0, engine.url, kind="vllm", model=own)
        fleets = [FleetSpec("alpha", ("alpha",), True, (spec,), "least_load")]
        limits = LimitsSpec(read_bytes=400 if streamed_by else 100_000)
        end = b" " * 600
        async with running(engine, fleets=fleets, limits=limits) as gateway:
            for how, body in NAMED.items():
                sent = body + end
                assert (await ask(gateway.port, post(sent))).status == 200, how
                arrived = engine.asked[-1].body
                name = json.dumps(own, ensure_ascii=False).encode()
                # Put back, the client's bytes: so nothing but one name has changed, and it is the outer one.
                old = re.search(rb'"al(?:p|\\u0070)ha"', body)
                assert old is not None and arrived.count(name) == 1, how
                assert arrived.replace(name, b'"al\\u0070ha"' if how == "escaped" else b'"alpha"') == sent
                if how != "with nulls and numbers":
                    assert json.loads(arrived) == {**json.loads(sent), "model": own}, how

    run(test())
