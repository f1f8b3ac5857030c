"""Pairs whose answers are compared in meaning, on a thread: what is asked, what is dropped and why."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from queue import Queue
from threading import Event
from typing import Any

import pytest

from analysis.likening import Likening, compared
from analysis.spec import EmbedderSpec
from tests.analysis.fleet import answer_frame, pair_frame
from tests.analysis.shell.embeddings import Served, embedded, embeddings

WAIT_S = 30.0


def spec(served: Served, **more: Any) -> EmbedderSpec:
    return EmbedderSpec("trial", served.url, "m", **more)


def frame(n: int, said: str = "nearest", other: str = "a stone", **more: Any) -> dict[str, Any]:
    """The n-th pair: the control says the one, the candidate the other."""
    answers = [answer_frame(arm, n, 20, 10, [words]) for arm, words in (("control", said), ("fp8", other))]
    return pair_frame(answers, at_ns=n, id=f"p{n}", **more)


@contextmanager
def likening(**more: Any) -> Iterator[tuple[Likening, "Queue[dict[str, Any]]"]]:
    one, told = Likening(**more), Queue[dict[str, Any]]()
    try:
        yield one, told
    finally:
        one.close(wait=True)


def test_a_pair_is_asked_about_once_with_key_and_model_and_gives_scores_without_text() -> None:
    with embeddings() as served, likening() as (one, told):
        one.offer(spec(served, api_key="sk-e"), frame(1), told.put)
        body = told.get(timeout=WAIT_S)
        assert set(body) == {"id", "at_ns", "phase", "block", "scores", "why", "dropped"}
        assert (body["id"], body["why"], body["dropped"]) == ("p1", None, {})
        assert 0.0 < body["scores"]["fp8"] < 1.0
        path, headers, asked = served.requests[0]
        assert path == "/v1/embeddings" and headers["authorization"] == "Bearer sk-e"
        assert asked == {"model": "m", "input": ["a stone", "nearest"]}
        one.offer(spec(served, api_key="sk-e"), frame(2, "same", "same"), told.put)
        assert told.get(timeout=WAIT_S)["scores"] == {"fp8": 1.0}
        assert len(served.requests) == 1  # equal answers need nobody's word


def test_in_the_calibration_it_is_the_controls_own_two_answers_that_are_compared() -> None:
    said = frame(1, phase="calibration")
    again = {**said["answers"][0], "twin": 1}
    said["answers"] += [again, {**said["answers"][1], "twin": 1}]
    assert set(compared(said)) == {"control"}
    assert set(compared(frame(1))) == {"fp8"}


def test_what_is_not_judged_or_says_nothing_is_not_asked_about() -> None:
    failed = frame(3)
    failed["answers"][0]["status"] = 500
    with embeddings() as served, likening() as (one, told):
        for left_out in (frame(1, mark="warm_up"), frame(2, phase="forced"), failed):
            one.offer(spec(served), left_out, told.put)
        one.offer(spec(served), frame(4), told.put)
        body = told.get(timeout=WAIT_S)
        assert (body["id"], body["dropped"], told.empty()) == ("p4", {}, True)
        assert len(served.requests) == 1


def test_pairs_that_find_too_many_waiting_are_dropped_and_counted_and_nobody_waits() -> None:
    go = Event()

    def late(body: Any) -> tuple[int, Any]:
        assert go.wait(WAIT_S)
        return embedded(body)

    with embeddings(late) as served, likening() as (one, told):
        for n in range(67):  # the 64 that may wait, and three
            one.offer(spec(served), frame(n), told.put)
        assert told.empty()  # not one was answered
        go.set()
        bodies = [told.get(timeout=WAIT_S) for _ in range(64)]
        assert [body["id"] for body in bodies] == [f"p{n}" for n in range(64)]
        assert bodies[-1]["dropped"] == {"busy": 3}


def test_one_that_takes_too_many_texts_is_left_out() -> None:
    with embeddings() as served, likening() as (one, told):
        few = spec(served, rows=2)
        many = frame(1)
        many["answers"].append(answer_frame("int4", 1, 20, 10, ["a third text"]))
        one.offer(few, many, told.put)
        one.offer(few, frame(2), told.put)
        body = told.get(timeout=WAIT_S)
        assert (body["id"], body["dropped"]) == ("p2", {"too_many_texts": 1})


WRONG: dict[str, tuple[tuple[int, Any], str, str]] = {
    "a refusal": ((503, {"error": "busy"}), "refused", "it answered 503"),
    "no JSON": ((200, b"<html>"), "malformed", "its answer is not a list of embeddings"),
    "one too few": (
        (200, {"data": [{"index": 0, "embedding": [1.0]}]}),
        "malformed",
        "it gave 1 embeddings of 2 texts",
    ),
    "one twice": (
        (200, {"data": [{"index": 0, "embedding": [1.0]}] * 2}),
        "malformed",
        "it gave 2 embeddings of 2 texts",
    ),
    "of several lengths": (
        (200, {"data": [{"index": n, "embedding": [1.0] * (n + 1)} for n in range(2)]}),
        "malformed",
        "its embeddings are of several lengths, empty or not finite",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_server_that_gives_nothing_is_said_to_once_and_asked_again_later(case: str) -> None:
    now, (answer, reason, why) = [100.0], WRONG[case]
    answers = [answer, answer]

    def wrong_twice(body: Any) -> tuple[int, Any]:
        return answers.pop() if answers else embedded(body)

    with embeddings(wrong_twice) as served, likening(now_s=lambda: now[0]) as (one, told):
        asked = spec(served)
        one.offer(asked, frame(1), told.put)
        assert told.get(timeout=WAIT_S) == {"scores": {}, "why": why, "dropped": {reason: 1}}
        one.offer(asked, frame(2), told.put)  # within a second: it is not asked
        one.offer(asked, frame(3), told.put)
        _settled(one, asked, told)
        now[0] += 1.0
        one.offer(asked, frame(4), told.put)  # wrong again: 2 s now, and nothing new to say
        _settled(one, asked, told)
        now[0] += 1.0
        one.offer(asked, frame(5), told.put)
        _settled(one, asked, told)
        assert len(served.requests) == 2
        now[0] += 1.0
        one.offer(asked, frame(6), told.put)
        body = told.get(timeout=WAIT_S)
        assert (body["id"], body["why"], body["dropped"]) == ("p6", None, {reason: 5})


def test_one_that_is_not_there_is_told_to_be_and_so_is_one_that_is_silent() -> None:
    with embeddings() as gone:
        pass
    go = Event()

    def silent(body: Any) -> tuple[int, Any]:
        go.wait(WAIT_S)
        return embedded(body)

    with embeddings(silent) as served, likening() as (one, told):
        one.offer(spec(gone), frame(1), told.put)
        body = told.get(timeout=WAIT_S)
        assert body["dropped"] == {"unreachable": 1} and body["why"].startswith("it cannot be asked (")
        one.offer(spec(served, timeout_s=0.05), frame(2), told.put)
        body = told.get(timeout=WAIT_S)
        assert (body["why"], body["dropped"]) == ("it does not answer in time", {"unreachable": 1})
        go.set()


def test_a_connection_is_kept_and_one_that_was_closed_meanwhile_is_no_failure() -> None:
    with embeddings() as served, likening() as (one, told):
        for n in range(3):
            one.offer(spec(served), frame(n), told.put)
            assert told.get(timeout=WAIT_S)["why"] is None
        assert served.connections() == 1
        served.hang_up()
        one.offer(spec(served), frame(3), told.put)
        assert told.get(timeout=WAIT_S)["why"] is None
        assert (served.connections(), len(served.requests)) == (2, 4)


def _settled(one: Likening, asked: EmbedderSpec, told: "Queue[dict[str, Any]]") -> None:
    """All that was offered was looked at, for what comes after it was; nothing was told of it."""
    done = Event()
    with embeddings() as another:
        mark = replace(asked, url=another.url)
        one.offer(mark, frame(0), lambda body: done.set())
        assert done.wait(WAIT_S)
    assert told.empty(), told.queue
