"""What the relay decides without waiting: paths, heads, first events, outcomes, model names."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import head, model_name, paths
from gateway.first_event import FirstEvent
from gateway.outcome import FIRST_TOKEN, Outcome, outcome
from gateway.tail import Tail
from wire.exchange import Ending
from wire.http1 import RequestHead
from wire.response import ResponseHead
from wire.stateless import STATELESS


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("/v1/chat/completions", paths.Kind.RELAY),
        ("/v1/chat/completions?x=1", paths.Kind.RELAY),
        ("/generate", paths.Kind.RELAY),
        ("/tokenize", paths.Kind.RELAY),
        ("/inference/v1/generate", paths.Kind.RELAY),
        ("/v1/models/org%2Fname", paths.Kind.RELAY),
        ("/v1/models", paths.Kind.RELAY),  # only its GET is the gateway's own
        ("/pause", paths.Kind.REFUSED),
        ("/v1", paths.Kind.REFUSED),
        ("/v1/unload_lora_adapter", paths.Kind.REFUSED),
        ("/v1/./x", paths.Kind.REFUSED),
        ("/v1/x%00", paths.Kind.REFUSED),
        ("*", paths.Kind.REFUSED),
        ("", paths.Kind.REFUSED),
    ],
)
def test_what_a_path_asks_for(target: str, kind: paths.Kind) -> None:
    assert paths.read(b"POST", target.encode()).kind is kind


def test_a_listed_administrative_path_is_let_through() -> None:
    assert paths.read(b"POST", b"/pause", {"/pause"}).kind is paths.Kind.RELAY
    assert paths.read(b"POST", b"/resume", {"/pause"}).kind is paths.Kind.REFUSED


@given(st.binary(max_size=60))
def test_no_target_crashes_and_what_is_relayed_is_inference(target: bytes) -> None:
    asked = paths.read(b"POST", b"/" + target)
    if asked.kind is paths.Kind.RELAY:
        assert asked.path.startswith("/v1/") or asked.path in STATELESS
        assert "/../" not in asked.path + "/"


def request(*headers: tuple[bytes, bytes]) -> RequestHead:
    names = [name.lower() for name, _ in headers]
    return RequestHead(b"POST", b"/v1/x", list(headers), names, "1.1", True, None, False, False)


def to_engine(*headers: tuple[bytes, bytes], credential: bytes | None = None, trusted: bool = False) -> bytes:
    return head.to_engine(
        request(*headers),
        target=b"/v1/x",
        authority=b"e:1",
        credential=credential,
        peer=b"9.9.9.9",
        trusted=trusted,
    )


@pytest.mark.parametrize(
    "field",
    [
        (b"Connection", b"keep-alive"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Proxy-Connection", b"keep-alive"),
        (b"Proxy-Authorization", b"x"),
        (b"TE", b"trailers"),
        (b"Trailer", b"x"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Upgrade", b"h2c"),
        (b"Expect", b"100-continue"),
        (b"Content-Length", b"9"),
        (b"Host", b"gw"),
    ],
)
def test_hop_by_hop_fields_end_here(field: tuple[bytes, bytes]) -> None:
    assert b"\r\n" + field[0] + b": " + field[1] not in to_engine(field)


@pytest.mark.parametrize(
    "field",
    [
        (b"Authorization", b"Bearer user"),
        (b"traceparent", b"00-a-b-01"),
        (b"X-Session-Affinity", b"s"),
        (b"Accept-Encoding", b"gzip"),
        (b"content-type", b"application/json"),
        (b"Cookie", b"a=1"),
    ],
)
def test_end_to_end_fields_pass_with_their_case(field: tuple[bytes, bytes]) -> None:
    assert b"\r\n" + field[0] + b": " + field[1] + b"\r\n" in to_engine(field)


def test_fields_named_by_connection_are_hop_by_hop_too() -> None:
    made = to_engine((b"Connection", b"close, X-Hop"), (b"x-hop", b"1"), (b"X-Hop2", b"2"))
    assert b"x-hop: 1" not in made and b"X-Hop2: 2" in made


def test_forwarding_fields_are_added_to_what_is_there() -> None:
    made = to_engine((b"X-Forwarded-For", b"1.1.1.1"), (b"Via", b"1.1 edge"), trusted=True)
    assert (
        b"\r\nx-forwarded-for: 1.1.1.1, 9.9.9.9\r\n" in made
        and b"\r\nvia: 1.1 edge, 1.1 shadowlane\r\n" in made
    )


def test_an_engines_key_replaces_every_proof_the_client_sent() -> None:
    sent = ((b"Authorization", b"Bearer user"), (b"X-API-Key", b"user"), (b"api-key", b"user"))
    made = to_engine(*sent, credential=b"engine")
    assert b"user" not in made and made.count(b"authorization: Bearer engine") == 1


def test_an_answers_head_keeps_order_and_repeats() -> None:
    fields = [
        (b"Set-Cookie", b"a"),
        (b"X", b"1"),
        (b"Set-Cookie", b"b"),
        (b"Connection", b"X-H"),
        (b"X-H", b"1"),
    ]
    names = [name.lower() for name, _ in fields]
    response = ResponseHead(200, b"Fine", fields, names, True, None, chunked=True, is_events=False)
    made = head.to_client(response)
    assert made == b"HTTP/1.1 200 Fine\r\nSet-Cookie: a\r\nX: 1\r\nSet-Cookie: b\r\n"


STREAM = b': ping\n\n: again\r\n\r\ndata: {"error":{"message":"busy","code":503}}\n\ndata: [DONE]\n\n'


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_a_refusal_inside_a_200_is_seen_wherever_it_is_cut_and_no_byte_is_lost(cuts: list[int]) -> None:
    first, passed, at, code = FirstEvent(), b"", 0, None
    for cut in [*sorted(cuts), len(STREAM)]:
        seen = first.feed(STREAM[at:cut])
        passed, at = passed + seen.passed, cut
        if seen.began:
            code = seen.error_code
            break
    assert code == 503 and passed + STREAM[at:] == STREAM


@pytest.mark.parametrize(
    ("block", "code"),
    [
        (b'data: {"choices":[]}\n\n', None),
        (b'data: {"choices":[{"delta":{"content":"the \\"error\\": x"}}]}\n\n', None),
        (b'data:{"error":"overloaded"}\r\n\r\n', 500),
        (b'data: {"error":{"message":"x","code":"429"}}\n\n', 429),
        (b'data: {"error":{"message":"x","code":null}}\n\n', 500),
        (b'data: not json with "error"\n\n', None),
        (b"event: message_start\ndata: {}\n\n", None),
    ],
)
def test_what_a_first_event_says(block: bytes, code: int | None) -> None:
    seen = FirstEvent().feed(block)
    assert seen.began and seen.error_code == code and seen.passed == block


def test_a_first_event_without_end_is_not_held_for_ever() -> None:
    first, passed = FirstEvent(), b""
    while not (seen := first.feed(b"x" * 10_000)).began:
        passed += seen.passed
    assert passed == b"" and len(seen.passed) > 64 << 10


@pytest.mark.parametrize(
    ("ending", "status", "is_stream", "tail", "expected"),
    [
        (Ending.COMPLETE, 200, False, [], Outcome.COMPLETE),
        (Ending.COMPLETE, 200, True, [b'data: {"finish_reason": "stop"}\n\n'], Outcome.COMPLETE),
        (Ending.COMPLETE, 200, True, [b"data: [DO", b"NE]\n\n"], Outcome.COMPLETE),
        (Ending.COMPLETE, 200, True, [b'data: {"finish_reason":null}\n\n'], Outcome.TRUNCATED),
        (
            Ending.COMPLETE,
            200,
            True,
            [b'data: {"error":{"code":500}}\n\n', b"data: [DONE]\n\n"],
            Outcome.ERROR_EVENT,
        ),
        (Ending.COMPLETE, 404, False, [], Outcome.CLIENT_ERROR),
        (Ending.COMPLETE, 503, False, [], Outcome.ENGINE_ERROR),
        (Ending.CUT, 200, True, [b"data: [DONE]"], Outcome.CUT),
        (Ending.CANCELLED, 200, True, [], Outcome.CLIENT_GONE),
        (Ending.REFUSED, 0, False, [], Outcome.REFUSED),
    ],
)
def test_how_an_answer_ended(
    ending: Ending, status: int, is_stream: bool, tail: list[bytes], expected: Outcome
) -> None:
    seen = Tail()
    for read in tail:
        seen.add(read)
    assert outcome(ending, status, seen if is_stream else None) is expected


@pytest.mark.parametrize(
    ("event", "is_token"),
    [
        (b'{"choices":[{"delta":{"role":"assistant","content":""}}]}', False),
        (b'{"choices":[{"delta":{"content":null}}]}', False),
        (b": ping", False),
        (b'{"choices":[{"delta":{"content":"a"}}]}', True),
        (b'{"choices":[{"delta":{"reasoning_content":"a"}}]}', True),
        (b'{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}', True),
        (b'{"choices":[{"text":"a"}]}', True),
        (b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}', True),
        (b'{"type":"response.output_text.delta","delta":"a"}', True),
        (b'{"choices":[],"usage":{"completion_tokens":3}}', False),
    ],
)
def test_what_counts_as_the_first_token(event: bytes, is_token: bool) -> None:
    assert bool(FIRST_TOKEN.search(event)) is is_token


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("model"), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(), values, max_size=4), st.text(), st.text(), st.dictionaries(st.text(), values)
)
def test_a_models_name_is_found_at_the_top_level_and_only_it_is_renamed(
    before: dict[str, object], name: str, new: str, after: dict[str, object]
) -> None:
    fields = {**{k: v for k, v in before.items() if k != "model"}, "model": name}
    fields |= {k: v for k, v in after.items() if k not in fields}
    body = json.dumps(fields).encode()
    found = model_name.find(body)
    assert found is not None and found.name == name
    assert json.loads(model_name.renamed(body, new)) == {**fields, "model": new}


@given(st.binary(max_size=200))
def test_no_body_crashes_the_search_for_a_model(body: bytes) -> None:
    model_name.find(b'{"model":"' + body)
    found = model_name.find(body)
    assert found is None or b'"model"' in body


def test_what_is_not_a_top_level_string_is_not_a_models_name() -> None:
    for body in (
        b'{"a":[{"model":"no"}],"b":"model"}',
        b'{"model":5}',
        b'{"model":"\\q"}',
        b'{"model":"half',
        b"[]",
    ):
        assert model_name.find(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","x":{"model":"no"},"model":"b"}',
        b'{"model":"a","mod\\u0065l":"b"}',
        b'{"\\u006dodel":"b"}',
        b'{"model":{"a":[1]},"model":"b"}',
        b'{"x":"model","y":["model"],"model" : "b" }',
    ],
)
def test_of_several_names_the_last_counts_as_it_does_for_engines(body: bytes) -> None:
    found = model_name.find(body)
    assert found is not None and found.name == json.loads(body)["model"] == "b"
    assert json.loads(model_name.renamed(body, "c"))["model"] == "c"


class Watched(bytes):
    """Counts what is asked of it: `steps` from mark to mark, and the bytes that `find` has looked at."""

    steps = 0
    looked = 0

    def __getitem__(self, at: Any) -> Any:
        self.steps += 1
        return super().__getitem__(at)

    def find(self, sought: Any, start: Any = 0, end: Any = None) -> int:
        found = super().find(sought, start, end)
        self.looked += (found if found >= 0 else len(self)) - start
        return found


@pytest.mark.parametrize(
    "unit", [b'\\"', b'"', b"{", b"[]", b'"",', b"\\", b'"model"', b'"model":"x",', b'"mod\\u0065l":"x",']
)
def test_looking_for_the_name_takes_work_in_proportion(unit: bytes) -> None:
    for start in (b'{"a":"', b'{"a":', b"{"):
        short, long = (Watched(start + unit * (size // len(unit))) for size in (20_000, 40_000))
        for body in (short, long):
            model_name.find(body)
            assert 1 <= body.steps <= len(body) and body.looked <= 2 * len(body)
        assert long.steps <= 2 * short.steps + 10 and long.looked <= 2 * short.looked + 100


@given(st.text('"\\\\{}[]:ax', max_size=40).map(str.encode))
def test_no_quote_is_tried_in_vain(body: bytes) -> None:
    """A search that passed one by would look at all that follows again from the next, and from the next."""
    for at, byte in enumerate(body):
        assert (model_name.MARK.match(body, at) is not None) is (byte in b'"{}[]')
