"""404 for names with %2F; a query gone; `//v1` answered by a redirect; a redirect followed without a body."""

import pytest

from gateway.spec import EngineSpec, FleetSpec
from tests.failures.support import NOT_STREAMED, at_once
from tests.support import Engine, Peer, answers, ask, json_answer, post, running
from tests.support_shared import run

PCHAR = "-._~!$&'()*+,;=:@"  # what a path may hold unencoded besides letters and digits (RFC 3986 3.3)
AS_WRITTEN = [
    "/v1/models/org%2Fname",
    "/v1/models/org%2fname",
    "/v1/x?a=1%2B2&b=c+d&b=&e",
    "/v1/x?",
    "/v1/x??a",
    "/v1/x?a=/../b",
    "/v1/x?next=http://else.example/a?b=c",
    "/v1/x?a=%00%0d%0a",
    "/v1/x?a=%zz&b=%",
    "/v1/x?" + "&".join(f"k{n}={n}" for n in range(200)),
    "//v1/chat/completions",
    "/v1//chat///completions",
    "/v1/chat/completions/",
    "/v1/chat/completions//?a",
    "/v1/a%20b",
    "/v1/a+b",
    "/v1/%7Ex",
    "/v1/~x",
    "/v1/%E2%82%AC",
    "/v1/a;b=c/d,e",
    "/v1/a..b/...c",
    "/v1/" + PCHAR,
]
# Each byte there is, encoded: in a query all go through, in a path those that all readers read alike.
IN_QUERY = [f"/v1/x?q=%{byte:02X}&r=%{byte:02x}" for byte in range(256)]
IN_PATH = [f"/v1/models/a%{byte:02X}b" for byte in range(256)]


def raw(method: str, target: str) -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n".encode()


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT", "PATCH"])
def test_h22_path_rewritten_never_the_engine_gets_the_target_as_the_client_wrote_it(method: str) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))

        async def one(target: str) -> int:
            request = post(NOT_STREAMED, target) if method == "POST" else raw(method, target)
            return (await ask(gateway.port, request)).status

        targets = [*AS_WRITTEN, *IN_QUERY]
        async with running(engine) as gateway:
            assert await at_once(map(one, targets)) == [200] * len(targets)
        assert sorted(peer.line for peer in engine.asked) == sorted(f"{method} {t} HTTP/1.1" for t in targets)

    run(test())


def test_h22_path_rewritten_never_an_encoded_byte_passes_as_it_is_or_is_refused_in_words() -> None:
    """Control characters and backslashes are read in two ways: refused.  All else arrives byte for byte."""

    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))

        async def one(target: str) -> int:
            got = await ask(gateway.port, raw("GET", target))
            assert got.status == 200 or b'"error"' in got.body
            return got.status

        async with running(engine) as gateway:
            statuses = await at_once(map(one, IN_PATH))
        refused = {byte for byte, status in enumerate(statuses) if status != 200}
        assert refused == {*range(0x20), ord("\\")}
        assert {statuses[byte] for byte in refused} == {404}
        arrived = {peer.line for peer in engine.asked}
        assert arrived == {f"GET {IN_PATH[byte]} HTTP/1.1" for byte in range(256) if byte not in refused}

    run(test())


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
def test_h22_path_rewritten_never_redirects_go_to_the_client_and_are_not_followed(status: int) -> None:
    async def test() -> None:
        async def script(peer: Peer) -> None:
            where = f"Location: {engine.url}/v1/elsewhere?a=%2F&b"
            await peer.send(json_answer(b'{"moved":1}', f"{status} Moved", where))

        engine = Engine(script)
        async with running(engine) as gateway:
            got = await ask(gateway.port, post(NOT_STREAMED))
            assert (got.status, got.body) == (status, b'{"moved":1}')
            assert got.header("location") == [f"{engine.url}/v1/elsewhere?a=%2F&b"]
        assert [peer.body for peer in engine.asked] == [NOT_STREAMED]

    run(test())


@pytest.mark.parametrize("mount", ["", "/mounted", "/a/b%20c"])
def test_h22_path_rewritten_only_by_the_path_that_the_engines_address_has(mount: str) -> None:
    async def test() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        await engine.start()
        specs = (EngineSpec(0, engine.url + mount, kind="vllm"),)
        async with running(engine, fleets=[FleetSpec(None, (), True, specs, "least_load")]) as gateway:
            for target in AS_WRITTEN:
                assert (await ask(gateway.port, post(NOT_STREAMED, target))).status == 200
        asked = [peer.line for peer in engine.asked if peer.line.startswith("POST")]  # all but the probes
        assert asked == [f"POST {mount}{t} HTTP/1.1" for t in AS_WRITTEN]

    run(test())
