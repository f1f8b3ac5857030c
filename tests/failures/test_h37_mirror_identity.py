"""A candidate rejects copies for their Host; they are booked on users; one id twice confuses an engine."""

import asyncio
import json
from typing import Any

from mirror.headers import MARKER
from mirror.spec import ArmSpec
from tests.failures.shadowed import PATH, chat, served, shadowed
from tests.failures.support import at_once
from tests.mirror import scripted
from tests.mirror.scripted import engine, tokens
from tests.support import FINISH, TOKEN, Engine, ask, post, streams
from tests.support_shared import run

# Where a client may say who it is, spelled as people spell it.
NAMES = """
Authorization authorization AUTHORIZATION X-API-Key x-api-key api-key Api-Key Cookie Set-Cookie Origin
Proxy-Authorization X-Forwarded-For X-Real-IP X-Auth-Token X-Amz-Security-Token X-Goog-Api-Key Referer From
OpenAI-Organization OpenAI-Project Ocp-Apim-Subscription-Key X-User-Id X-Tenant traceparent tracestate baggage
Forwarded X-Made-Up-Yesterday
"""
SECRETS = {name: f"canary-{n}" for n, name in enumerate(NAMES.split())}
TRAVELS = {"user-agent": "curl/8", "x-session-id": "s1", "anthropic-version": "2023-06-01", "accept": "*/*"}


def test_h37_mirror_identity_no_word_of_who_the_client_is_reaches_an_arm() -> None:
    """Each credential, alone and together, in the query too; production gets what an engine is to get."""

    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(tokens) as control, engine(tokens) as candidate:
            arms = (
                ArmSpec("control", control.url, headers=(("authorization", "Bearer own"),)),
                ArmSpec("c", candidate.url + "/mounted"),
            )
            async with shadowed(production, arms=arms) as it:
                fields = [[f"{name}: Bearer {value}"] for name, value in SECRETS.items()]
                fields += [[line for one in fields for line in one]]
                for n, extra in enumerate(fields):
                    more = [f"{name}: {value}" for name, value in TRAVELS.items()]
                    request = post(chat(n), f"{PATH}?key=canary-q&api_key=canary-k", *extra, *more)
                    assert (await ask(it.gateway.port, request)).status == 200
                await it.settled(len(fields))
                assert b"canary" not in repr(it.stage.analysis.frames).encode()
            assert b"canary" in repr(production.asked[-1].headers).encode()
            for arm, path in ((control, b"/v1"), (candidate, b"/mounted/v1")):
                assert len(arm.requests) == len(fields)
                for request_at_arm in arm.requests:
                    assert b"canary" not in request_at_arm.raw
                    assert request_at_arm.line == b"POST %b/chat/completions HTTP/1.1" % path
                    sent = request_at_arm.headers
                    assert sent["host"] == arm.url.removeprefix("http://")
                    assert sent[MARKER.decode()] == "fp8-kv"
                    assert {name: sent[name] for name in TRAVELS} == TRAVELS
            assert {one.headers.get("authorization") for one in control.requests} == {"Bearer own"}
            assert {one.headers.get("authorization") for one in candidate.requests} == {None}

    run(test())


GIVEN = (None, "r-1", "a" * 500, "odd \u00e9 \t id", "1,2;3=4", None, "r-2", "\u20ac")


def test_h37_mirror_identity_every_copy_has_an_id_of_its_own_that_tells_where_it_comes_from() -> None:
    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(tokens) as control, engine(tokens) as candidate:
            arms = ArmSpec("control", control.url), ArmSpec("c", candidate.url)
            async with shadowed(production, arms=arms) as it:
                for n, given in enumerate(GIVEN):
                    extra = [] if given is None else [f"X-Request-Id: {given}"]
                    assert (await ask(it.gateway.port, post(chat(n), PATH, *extra))).status == 200
                await it.settled(len(GIVEN))
            ids = [one.headers["x-request-id"] for arm in (control, candidate) for one in arm.requests]
            assert len(set(ids)) == len(ids) == 2 * len(GIVEN)
            assert all(one.isascii() and one.isprintable() and len(one) < 200 for one in ids)
            assert {one.rsplit("-", 2)[1] for one in ids} == {"control", "c"}
            assert {"r-1-control-0", "r-1-c-0", "r-2-control-0", "r-2-c-0"} <= set(ids)
            assert not set(GIVEN) & set(ids)

    run(test())


def test_h37_mirror_identity_arms_count_for_nothing_in_productions_load_health_and_books() -> None:
    """They hang, fail and refuse; no load, no retry, no failure of production's engines comes of it."""

    async def test() -> None:
        production = [Engine(streams(TOKEN, FINISH)), Engine(streams(TOKEN, FINISH))]
        async with engine(scripted.hang) as control, engine(scripted.busy) as candidate:
            arms = ArmSpec("control", control.url), ArmSpec("c", candidate.url)
            async with shadowed(*production, arms=arms, drain_s=0.1) as it:
                assert all(await at_once(served(it.gateway, chat(n)) for n in range(80)))
                assert [it.gateway.loads.totals(n) for n in range(2)] == [(0, 0, 0, 0)] * 2

                def worker() -> list[dict[str, Any]]:
                    return [one for one in it.stage.analysis.of("status") if "counts" in one]

                async with asyncio.timeout(20):
                    while len(control.requests) + sum(it.books.get("dropped", {}).values()) < 80:
                        await asyncio.sleep(0.02)
                    while not [one for one in worker() if one["counts"].get("complete") == 80]:
                        await asyncio.sleep(0.02)
                last = worker()[-1]
                assert last["counts"] == {"requests": 80, "retried": 0, "complete": 80}
                assert all(one["up"] and not one["error"] for one in last["engines"])
                assert {one["url"] for one in last["engines"]} == {one.url for one in production}
                health = b"GET /health HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"
                assert (await ask(it.gateway.port, health)).status == 200

    run(test())


def test_h37_mirror_identity_a_copy_is_never_copied_again() -> None:
    """Else two gateways that mirror to one another would never stop."""

    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(tokens) as control:
            async with shadowed(production, arms=(ArmSpec("control", control.url),)) as it:
                for n, spelled in enumerate(("x-shadowlane-copy", "X-Shadowlane-Copy", "X-SHADOWLANE-COPY")):
                    assert await served(it.gateway, chat(n), f"{spelled}: elsewhere")
                assert await served(it.gateway, chat(3))
                await it.settled(1)
            (request,) = control.requests
            assert b"conversation 3" in request.body
            assert len(production.asked) == 4

    run(test())


def test_h37_mirror_identity_an_arm_behind_names_gets_the_name_it_is_called_by() -> None:
    """Its own host, its own name for the model; production's stay production's."""

    async def test() -> None:
        production = Engine(streams(TOKEN, FINISH))
        async with engine(tokens) as control:
            by_name = control.url.replace("127.0.0.1", "localhost")
            arms = (ArmSpec("control", by_name, model="m-fp8"),)
            async with shadowed(production, arms=arms) as it:
                request = post(chat(0), PATH).replace(b"Host: gw", b"Host: api.example.com")
                assert (await ask(it.gateway.port, request)).status == 200
                await it.settled(1)
            (copy,) = control.requests
            assert copy.headers["host"] == by_name.removeprefix("http://")
            assert json.loads(copy.body)["model"] == "m-fp8"
            assert json.loads(production.asked[0].body)["model"] == "m"

    run(test())
