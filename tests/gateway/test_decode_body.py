"""Compressed request bodies: read for routing within bounds, sent on as they came."""

import gzip
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import decode_body
from gateway.decode_body import Decoded, Undecodable, beginning, decoded, zstd
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec
from tests.support import CHAT, Engine, answers, ask, json_answer, post, running
from tests.support_shared import run
from wire.http1 import RequestHead

MB = 1 << 20


def deflated_raw(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}
every_coding = pytest.mark.parametrize("coding", CODERS)


@every_coding
@given(body=st.binary(max_size=500), parts=st.integers(1, 4))
def test_what_was_coded_is_decoded_also_from_several_members(coding: str, body: bytes, parts: int) -> None:
    coded = CODERS[coding](body)
    assert decoded([coding.encode()], coded, MB) == Decoded(body, True)
    if coding != "deflate":
        assert decoded([coding.encode()], coded * parts, MB) == Decoded(body * parts, True)


def test_deflate_is_taken_without_its_header_too() -> None:
    assert decoded([b"deflate"], deflated_raw(CHAT), MB) == Decoded(CHAT, True)


def test_codings_are_taken_off_in_the_order_they_were_not_put_on() -> None:
    coded = zstd.compress(gzip.compress(CHAT))
    assert decoded([b"gzip", b"zstd"], coded, MB) == Decoded(CHAT, True)
    with pytest.raises(Undecodable) as refused:
        decoded([b"zstd", b"gzip"], coded, MB)
    assert refused.value.status == 400


@every_coding
@given(data=st.binary(max_size=300))
def test_no_bytes_crash_it_and_none_are_made_up(coding: str, data: bytes) -> None:
    try:
        assert len(decoded([coding.encode()], data, 1000).body) <= 1000
    except Undecodable as refused:
        if refused.status != 400 or not refused.reason:
            raise
    assert len(beginning([coding.encode()], data, 1000)) <= 1000


@every_coding
def test_every_cut_of_a_body_is_refused_and_its_beginning_readable(coding: str) -> None:
    body = random.Random(1).randbytes(2000)
    coded = CODERS[coding](body)
    for end in range(1, len(coded)):
        with pytest.raises(Undecodable):
            decoded([coding.encode()], coded[:end], MB)
        assert body.startswith(beginning([coding.encode()], coded[:end], MB))
    assert (
        beginning([coding.encode()], coded[: len(coded) * 9 // 10] + b"more", MB) != b"" or coding == "zstd"
    )


@every_coding
def test_a_bomb_gives_its_beginning_and_takes_no_more_memory_than_that(coding: str) -> None:
    bomb = CODERS[coding](b" " * (50 * MB))
    tracemalloc.start()
    try:
        found = decoded([coding.encode()], bomb, MB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == Decoded(b" " * MB, False)
    assert peak < 20 * MB
    twice = CODERS[coding](bomb)
    assert not decoded([coding.encode()] * 2, twice, 1000).whole


def test_a_train_of_tiny_members_is_not_followed_to_its_end() -> None:
    train = gzip.compress(b"") * 400_000
    assert decoded([b"gzip"], train, MB) == Decoded(b"", False)


@pytest.mark.parametrize("coding", ["br", "compress", "gzip;q=1", "x" * 500, "gzip gzip"])
def test_an_unknown_coding_is_said_to_be_so(coding: str) -> None:
    with pytest.raises(Undecodable, match="not understood") as refused:
        decoded([coding.encode()], b"abc", MB)
    assert refused.value.status == 415 and len(refused.value.reason) < 200
    assert beginning([coding.encode()], b"abc", MB) == b""


def test_so_is_a_body_coded_without_end() -> None:
    with pytest.raises(Undecodable) as refused:
        decoded([b"gzip"] * 50, b"abc", MB)
    assert refused.value.status == 415


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([b"identity"], []),
        ([b""], []),
        ([b"GZIP"], [b"gzip"]),
        ([b"gzip, zstd"], [b"gzip", b"zstd"]),
        ([b"gzip", b" , Identity,br "], [b"gzip", b"br"]),
    ],
)
def test_which_codings_a_head_tells(values: list[bytes], expected: list[bytes]) -> None:
    headers = [(b"Content-Encoding", value) for value in values]
    names = [name.lower() for name, _ in headers]
    head = RequestHead(b"POST", b"/", headers, names, "1.1", True, None, False, False)
    assert decode_body.codings(head) == expected


def two_fleets(a: Engine, b: Engine, limits: LimitsSpec | None = None, model: str | None = None) -> Any:
    fleets = (
        FleetSpec("a", ("a",), True, (EngineSpec(0, a.url, kind="vllm", model=model),), "least_load"),
        FleetSpec("b", ("b",), False, (EngineSpec(1, b.url, kind="vllm", model=model),), "least_load"),
    )
    return running(a, b, fleets=fleets, limits=limits)


@every_coding
def test_a_coded_request_goes_to_its_models_fleet_byte_for_byte(coding: str) -> None:
    async def go() -> None:
        a, b = Engine(answers(json_answer(b"{}"))), Engine(answers(json_answer(b"{}")))
        await a.start()
        await b.start()
        limits = LimitsSpec(read_bytes=4096, drain_s=1.0)
        async with two_fleets(a, b, limits) as gateway:
            short = json.dumps({"model": "b", "messages": [{"role": "user", "content": "hi"}]}).encode()
            long = json.dumps({"model": "b", "prompt": "x" * 100_000}).encode()
            noise = random.Random(7).randbytes(20_000).hex()
            streamed = json.dumps({"model": "b", "prompt": noise}).encode()
            for body in (short, long, streamed):
                coded = CODERS[coding](body)
                request = post(coded, "/v1/chat/completions", f"Content-Encoding: {coding}")
                answered = await ask(gateway.port, request)
                assert answered.status == 200, answered.raw
                assert b.asked[-1].body == coded
                assert ("Content-Encoding", coding) in b.asked[-1].headers
            assert len(b.asked) == 3 and a.asked == []

    run(go())


@every_coding
def test_a_coded_request_whose_model_is_renamed_is_sent_on_plain(coding: str) -> None:
    """Both changed: the body and the header that describes it."""

    async def go() -> None:
        a, b = Engine(answers(json_answer(b"{}"))), Engine(answers(json_answer(b"{}")))
        await a.start()
        await b.start()
        async with two_fleets(a, b, model="own") as gateway:
            body = b'{"model":"b","prompt":"hi"}'
            request = post(CODERS[coding](body), "/v1/completions", f"Content-Encoding: {coding}")
            assert (await ask(gateway.port, request)).status == 200
            assert b.asked[0].body == b'{"model":"own","prompt":"hi"}'
            assert not [name for name, _ in b.asked[0].headers if name.lower() == "content-encoding"]

    run(go())


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        ("br", b"abc", 415),
        ("gzip", b"no gzip at all", 400),
        ("gzip", gzip.compress(CHAT)[:-3], 400),
        ("zstd", b"{}", 400),
        ("gzip", gzip.compress(b"{"), 400),
    ],
)
def test_what_cannot_be_read_is_refused_in_words_and_never_500(coding: str, body: bytes, status: int) -> None:
    async def go() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            request = post(body, "/v1/chat/completions", f"Content-Encoding: {coding}")
            answered = await ask(gateway.port, request)
            assert answered.status == status and b'"error"' in answered.body, answered.raw
            assert engine.asked == [] and gateway.inflight() == 0

    run(go())
