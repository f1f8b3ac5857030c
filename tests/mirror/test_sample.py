"""What is ever copied: stateless paths, whole conversations, a salted share of them."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.admit import JOINED_LATE, TURN_MISSING
from mirror.copyable import copyable, is_stateful
from mirror.headers import copy_headers, is_copy
from mirror.sample import Sampler, copies_of

roots = st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1)
turns = st.integers(min_value=0, max_value=5)


@given(st.lists(st.tuples(roots, turns)), st.floats(0, 1))
def test_a_conversation_first_seen_late_is_never_admitted_and_one_admitted_stays(
    seen: list[tuple[int, int]], rate: float
) -> None:
    sampler = Sampler(b"salt", rate)
    opened: set[int] = set()
    for root, turn in seen:
        admitted = sampler.admits(root, turn)
        if turn > 0:
            assert admitted == (root in opened)
        elif admitted:
            opened.add(root)
        else:
            assert root not in opened


@given(st.lists(st.tuples(roots, turns)))
def test_rate_one_admits_every_conversation_and_rate_zero_none(seen: list[tuple[int, int]]) -> None:
    everything, nothing = Sampler(b"s", 1.0), Sampler(b"s", 0.0)
    for root, turn in seen:
        assert everything.admits(root, 0) and everything.admits(root, turn)
        assert not nothing.admits(root, turn)


@given(roots, st.lists(st.integers(1, 5)), st.booleans())
def test_a_shed_conversation_stays_closed_until_it_begins_anew(
    root: int, later: list[int], sees_all: bool
) -> None:
    sampler = Sampler(b"s", 1.0, sees_all=sees_all)
    assert sampler.admits(root, 0)
    for _ in range(2):
        sampler.shed(root)
        assert not any(sampler.admits(root, turn) for turn in later)
        assert sampler.admits(root, 0)
        assert all(sampler.admits(root, turn) for turn in later)


@given(st.lists(st.tuples(roots, turns, st.booleans())), st.floats(0, 1), st.booleans())
def test_of_the_share_each_request_is_admitted_or_missed_for_a_reason_and_of_the_rest_none_is(
    seen: list[tuple[int, int, bool]], rate: float, sees_all: bool
) -> None:
    sampler, share, shed = Sampler(b"salt", rate, sees_all=sees_all), Sampler(b"salt", rate), set[int]()
    for root, turn, sheds in seen:
        if sampler.admits(root, turn):
            shed.discard(root)
            if sheds:
                sampler.shed(root)
                shed.add(root)
        elif share.admits(root, 0):
            assert turn > 0
            assert sampler.missed(root, turn) == (TURN_MISSING if root in shed else JOINED_LATE)
        else:
            assert sampler.missed(root, turn) is None


@given(st.sets(roots, min_size=1, max_size=50), st.binary(max_size=100), st.floats(0, 1))
def test_two_workers_with_one_salt_choose_the_same_conversations(
    some: set[int], salt: bytes, rate: float
) -> None:
    one, other = Sampler(salt, rate), Sampler(salt, rate, sees_all=False)
    assert [one.admits(root, 0) for root in some] == [other.admits(root, 3) for root in some]


def test_the_share_is_the_rate_and_salts_choose_independently() -> None:
    rng = Random(7)
    some = [rng.getrandbits(64) for _ in range(20_000)]
    first, second = Sampler(b"one", 0.3), Sampler(b"two", 0.3)
    a = {root for root in some if first.admits(root, 0)}
    b = {root for root in some if second.admits(root, 0)}
    assert abs(len(a) / len(some) - 0.3) < 0.015
    assert abs(len(a & b) / len(some) - 0.09) < 0.01
    assert abs(sum(root & 1 for root in a) / len(a) - 0.5) < 0.03


@given(st.lists(st.tuples(st.floats(0, 1), roots, turns), max_size=40), st.booleans())
def test_a_share_that_changes_cuts_no_conversation_that_runs_and_joins_none_late(
    seen: list[tuple[float, int, int]], sees_all: bool
) -> None:
    sampler = Sampler(b"salt", 0.5, sees_all=sees_all)
    opened: set[int] = set()
    for rate, root, turn in seen:
        sampler.renew(rate)
        admitted = sampler.admits(root, turn)
        if root in opened:
            assert admitted
        elif turn > 0 and sees_all:
            assert not admitted
        if admitted and turn == 0:
            opened.add(root)


def test_a_larger_share_holds_the_smaller_one() -> None:
    rng = Random(3)
    some = [rng.getrandbits(64) for _ in range(5_000)]
    sampler = Sampler(b"salt", 0.2)
    before = {root for root in some if sampler.admits(root, 0)}
    sampler.renew(0.4)
    after = {root for root in some if sampler.admits(root, 0)}
    assert before < after and abs(len(after) / len(some) - 0.4) < 0.03


@given(roots, st.floats(1, 5))
def test_amplified_conversations_are_sent_a_whole_number_of_times_nearest_to_the_rate(
    root: int, times: float
) -> None:
    assert int(times) <= copies_of(b"salt", root, times) <= int(times) + 1


def test_amplification_is_met_on_average() -> None:
    rng = Random(5)
    sent = [copies_of(b"salt", rng.getrandbits(64), 2.3) for _ in range(20_000)]
    assert abs(sum(sent) / len(sent) - 2.3) < 0.02


@given(st.integers(1, 20), st.lists(roots, max_size=100))
def test_memory_is_bounded_and_a_forgotten_conversation_is_not_taken_up_again(
    remember: int, some: list[int]
) -> None:
    sampler = Sampler(b"s", 1.0, remember)
    for root in some:
        sampler.admits(root, 0)
    last: list[int] = list(dict.fromkeys(reversed(some)))
    assert [root for root in last if sampler.admits(root, 1)] == last[:remember]


def test_a_rate_that_is_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Sampler(b"", 1.1)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/completions?x=1",
        "/v1/messages",
        "/v1/embeddings",
        "/generate",
        "/completion",
    ],
)
def test_stateless_inference_is_copyable(path: str) -> None:
    assert copyable(path)
    assert not copyable(path, stateful=True)
    assert not copyable(path, [(b"X-Shadowlane-Copy", b"fp8")])


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/batches",
        "/v1/load_lora_adapter",
        "/flush_cache",
        "/v1/responses/resp_1/cancel",
        "/v1/chat/completions/../../admin",
        "/slots/0",
        "/",
        "",
    ],
)
def test_anything_else_is_not(path: str) -> None:
    assert not copyable(path)


@pytest.mark.parametrize(
    ("path", "body", "stateful"),
    [
        ("/v1/chat/completions", {"store": True}, False),
        ("/v1/responses", {"input": "x"}, True),
        ("/v1/responses", {"input": "x", "store": True}, True),
        ("/v1/responses", {"input": "x", "store": False}, False),
        (
            "/v1/responses",
            {"store": False, "previous_response_id": None, "tools": [{"type": "function"}]},
            False,
        ),
        ("/v1/responses", {"store": False, "previous_response_id": "resp_1"}, True),
        ("/v1/responses", {"store": False, "tools": [{"type": "mcp", "server_url": "http://x"}]}, True),
        ("/v1/responses", {"store": False, "background": True}, True),
        ("/v1/messages", {"messages": [], "tools": [{"name": "f", "input_schema": {}}]}, False),
        ("/v1/messages", {"messages": [], "tools": [{"type": "web_search_20250305", "name": "w"}]}, True),
        ("/v1/messages", {"messages": [], "mcp_servers": [{"url": "http://x"}]}, True),
    ],
)
def test_a_body_that_makes_an_engine_remember_or_act_is_stateful(
    path: str, body: object, stateful: bool
) -> None:
    assert is_stateful(path, json.dumps(body).encode()) is stateful


@given(st.binary(max_size=60))
def test_a_response_body_that_cannot_be_read_counts_as_stateful(body: bytes) -> None:
    try:
        harmless = json.loads(body).get("store") is False
    except (ValueError, AttributeError, RecursionError):
        harmless = False
    if not harmless:
        assert is_stateful("/v1/responses", body)


names = st.sampled_from(
    [
        b"Authorization",
        b"Cookie",
        b"X-Api-Key",
        b"api-key",
        b"Proxy-Authorization",
        b"X-Forwarded-For",
        b"Forwarded",
        b"X-Goog-Api-Key",
        b"OpenAI-Organization",
        b"Host",
        b"Content-Length",
        b"Transfer-Encoding",
        b"X-Request-Id",
        b"traceparent",
        b"Set-Cookie",
        b"X-Amz-Security-Token",
    ]
)


@given(st.lists(st.tuples(names | st.binary(max_size=20), st.just(b"canary-2f6c"))))
def test_no_header_but_the_allowed_ones_travels(headers: list[tuple[bytes, bytes]]) -> None:
    kept = copy_headers([*headers, (b"Content-Type", b"application/json"), (b"X-Session-Id", b"s1")])
    assert (b"content-type", b"application/json") in kept and (b"x-session-id", b"s1") in kept
    allowed = {
        b"content-type",
        b"content-encoding",
        b"accept",
        b"user-agent",
        b"x-session-id",
        b"x-session-affinity",
        b"anthropic-version",
        b"anthropic-beta",
    }
    assert all(name in allowed for name, _ in kept)


def test_a_value_that_would_break_out_of_its_line_stays_behind() -> None:
    assert copy_headers([(b"accept", b"a\r\nauthorization: x")]) == []


def test_the_mark_of_a_copy_is_seen_in_any_case() -> None:
    assert is_copy([(b"X-SHADOWLANE-copy", b"")]) and not is_copy([(b"x-shadowlane", b"")])


sessions_named = st.integers(1, (1 << 64) - 1)


@given(st.lists(st.tuples(sessions_named, roots), max_size=60), st.binary(max_size=80), st.floats(0, 1))
def test_a_named_session_has_one_decision_over_conversations_turns_workers_and_restarts(
    seen: list[tuple[int, int]], salt: bytes, rate: float
) -> None:
    workers = [Sampler(salt, rate, sees_all=False) for _ in range(3)]
    decided: dict[int, bool] = {}
    for number, (session, root) in enumerate(dict(seen).items()):
        for at in range(3):  # three conversations of each, here and there; the last after a restart
            worker = workers[(number + at) % 3] if at < 2 else Sampler(salt, rate, sees_all=False)
            taken = worker.admits(root + at, 0, session)
            assert decided.setdefault(session, taken) == taken
            assert workers[number % 3].admits(root + at, 1 + at, session) == taken  # its later turns anywhere
    alone = Sampler(salt, rate)
    assert all(alone.admits(session, 0) == taken for session, taken in decided.items())  # as its name's hash


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 6), roots), max_size=40))
def test_a_share_that_changes_cuts_no_session_in_two(seen: list[tuple[float, int, int]]) -> None:
    sampler, decided = Sampler(b"salt", 0.5), dict[int, bool]()
    for rate, session, root in seen:
        sampler.renew(rate)
        taken = sampler.admits(root, 0, session)
        assert decided.setdefault(session, taken) == taken
        assert sampler.admits(root, 1, session) == taken


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=60), st.booleans())
def test_a_session_left_out_is_not_taken_along_by_one_that_begins_with_its_words(
    seen: list[tuple[int, int]], sees_all: bool
) -> None:
    sampler, own = Sampler(b"salt", 0.5, sees_all=sees_all), Sampler(b"salt", 0.5)
    taken = {session: own.admits(session, 0, session) for session in range(1, 10)}
    for session, turns in seen:
        if sampler.admits(7, turns, session):
            assert taken[session]
            sampler.shed(7, session)
        if not taken[session]:
            assert sampler.missed(7, 1 + turns, session) is None


def test_a_session_left_out_counts_nothing_as_missed_when_the_share_has_grown() -> None:
    sampler = Sampler(b"salt", 0.0)
    assert not sampler.admits(7, 0, 5)
    sampler.renew(1.0)
    assert not sampler.admits(7, 1, 5) and sampler.missed(7, 1, 5) is None


def test_the_share_of_sessions_is_the_rate_and_requests_without_a_name_go_by_their_conversation() -> None:
    rng = Random(11)
    sampler, plain = Sampler(b"salt", 0.3), Sampler(b"salt", 0.3)
    some = [rng.getrandbits(64) for _ in range(10_000)]
    taken = sum(sampler.admits(rng.getrandbits(64), 0, session | 1) for session in some)
    assert abs(taken / len(some) - 0.3) < 0.02
    assert [sampler.admits(root, 0, 0) for root in some] == [plain.admits(root, 0) for root in some]


@given(st.sets(sessions_named, min_size=2, max_size=30))
def test_of_sessions_memory_is_bounded(sessions: set[int]) -> None:
    sampler = Sampler(b"s", 0.0, remember=len(sessions) - 1)
    first, *rest = sessions
    for session in (first, *rest):
        assert not sampler.admits(session, 0, session)
    sampler.renew(1.0)
    assert not any(sampler.admits(session, 0, session) for session in rest)  # decided, and remembered
    assert sampler.admits(first, 0, first)  # forgotten: its hash decides anew
