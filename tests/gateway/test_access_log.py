"""One line for a request, of counts and instants and none of its words; a bound on all; ids that are ids."""

import asyncio
import json
import os
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from gateway.access_log import AccessLog
from gateway.outcome import Outcome
from gateway.processes.line_writer import LineWriter, write_lines
from gateway.request_id import request_id
from gateway.usage import Usage
from routing.types import Choice

MS = 1_000_000
NO_FAILURE = {Outcome.COMPLETE, Outcome.CLIENT_ERROR, Outcome.CLIENT_GONE, Outcome.TOO_LARGE, Outcome.LIMITED}
FAILURES = set(Outcome) - NO_FAILURE


def log(share: float = 1.0, *, failures: bool = True, chance: float = 0.5) -> AccessLog:
    return AccessLog(
        "worker-0",
        share=share,
        failures=failures,
        rng=lambda: chance,
        wall=lambda: datetime(2030, 1, 2, 3, 4, 5, 678_000, UTC),
    )


def written(access: AccessLog, what: Outcome = Outcome.COMPLETE, **more: Any) -> dict[str, Any]:
    at: dict[str, Any] = {
        "request_id": "r1", "method": b"POST", "path": "/v1/chat/completions", "status": 200,
        "received_ns": 5000 * MS, "end_ns": 7000 * MS,
    }  # fmt: skip
    access.finished(what, **{**at, **more})
    (line,) = access.take()
    told: dict[str, Any] = json.loads(line)
    return told


def test_a_line_tells_every_instant_in_milliseconds_since_the_request_came() -> None:
    instants: dict[str, Any] = {
        "body_ns": 5001,
        "chosen_ns": 5002,
        "sent_ns": 5003,
        "head_ns": 5100,
        "token_ns": 5250,
    }
    instants = {name: at * MS for name, at in instants.items()}
    told = written(log(), last_ns=6999 * MS + 500_000, **instants)
    assert {name: at for name, at in told.items() if name.endswith("_ms")} == {
        "body_ms": 1.0, "chosen_ms": 2.0, "sent_ms": 3.0, "head_ms": 100.0, "token_ms": 250.0,
        "last_ms": 1999.5, "end_ms": 2000.0,
    }  # fmt: skip
    assert told["timestamp"] == "2030-01-02T03:04:05.678000Z"
    assert (told["event"], told["process"], told["level"]) == ("request", "worker-0", "info")


def test_what_never_came_is_not_there_and_what_engines_tell_is() -> None:
    told = written(
        log(), Outcome.CUT, fleet="llama", engine="http://e",
        choice=Choice(0, "least loaded", 0, 7, 3, 99, 0.25), usage=Usage(5, None, 0), retries=1, key="team-a",
        bytes_in=9, bytes_out=10,
        model="llama", status=0,
    )  # fmt: skip
    assert "head_ms" not in told and "cached_tokens" not in told
    assert (told["prompt_tokens"], told["completion_tokens"]) == (5, 0)
    assert told["level"] == "warning" and told["outcome"] == "cut"
    assert (told["cached_bytes"], told["uncached_bytes"], told["why"]) == (0, 7, "least loaded")
    assert (told["inflight"], told["pending_bytes"], told["cost_s"]) == (3, 99, 0.25)


@given(st.text(), st.binary(max_size=20))
def test_a_line_is_one_line_and_json_whatever_is_asked(path: str, method: bytes) -> None:
    access = log()
    try:
        path.encode()
    except UnicodeEncodeError:
        return  # no path that was read from bytes
    told = written(access, path=path, method=method)
    assert told["path"] == path[:200]


def test_a_share_of_the_good_ones_is_drawn_and_those_that_failed_always_are() -> None:
    assert log(0.5, chance=0.49).wants(Outcome.COMPLETE, 0)
    assert not log(0.5, chance=0.5).wants(Outcome.COMPLETE, 0)
    assert not log(0.0, chance=0.0).wants(Outcome.COMPLETE, 0)
    for what in Outcome:
        assert all(log(0.01).wants(what, 0) for _ in range(1000)) is (what in FAILURES)


def test_with_the_log_off_failures_are_written_but_no_flood_of_them() -> None:
    access = log(0.0)
    wanted = sum(access.wants(Outcome.CUT, 100.0) for _ in range(1000))
    assert wanted == 50 and access.dropped["rate"] == 950
    assert sum(access.wants(Outcome.CUT, 102.0) for _ in range(1000)) == 20
    assert not log(0.0, failures=False).wants(Outcome.CUT, 0)


def test_what_waits_to_be_written_is_bounded_and_what_is_dropped_counted() -> None:
    access = log()
    for _ in range(20_000):
        access.finished(
            Outcome.COMPLETE, request_id="r", method=b"GET", path="/" + "x" * 150, status=200,
            received_ns=1, end_ns=2,
        )  # fmt: skip
    lines = access.take()
    assert sum(map(len, lines)) <= 4 << 20
    assert len(lines) + access.dropped["full"] == 20_000
    assert access.dropped["full"]
    assert written(access)


@pytest.mark.parametrize(
    "given_id",
    [b"r-1", b"00-4bf92f3577b34da6-01", b"A.b_c:d/e+f=g@h~i", b"x" * 128],
)
def test_a_clients_own_id_is_kept(given_id: bytes) -> None:
    assert request_id(given_id, lambda: b"made") == given_id


@pytest.mark.parametrize(
    "given_id",
    [
        b"",
        b"x" * 129,
        b"a b",
        b"a\tb",
        b"\xff",
        b'"}',
        b"a,b",
        b"<b>",
        b"a\n",
        b"%0d%0a",
        b"${x}",
        b"a;b",
        b"a\x00",
    ],
)
def test_a_hostile_or_overlong_id_is_replaced(given_id: bytes) -> None:
    assert request_id(given_id, lambda: b"made") == b"made"


def test_lines_of_two_writers_do_not_mix() -> None:
    read, write = os.pipe()
    lines = [bytes([letter]) * 997 for letter in b"ab" for _ in range(200)]
    writers = [
        threading.Thread(target=write_lines, args=(write, part)) for part in (lines[:200], lines[200:])
    ]
    for one in writers:
        one.start()
    data = b""
    while data.count(b"\n") < 400:
        data += os.read(read, 1 << 16)
    for one in writers:
        one.join()
    os.close(read)
    os.close(write)
    assert sorted(data.splitlines()) == sorted(lines)


def test_a_reader_that_does_not_read_keeps_nobody_waiting_and_nothing_is_lost_when_it_does() -> None:
    async def test() -> None:
        read, write = os.pipe()
        loop = asyncio.get_running_loop()
        writer = LineWriter(loop, write)
        lines = [b"x" * 999] * 1000
        writer.write(lines)
        await writer.finish(0.05)
        assert writer.is_busy
        got = 0
        while got < 1_000_000:
            got += len(await loop.run_in_executor(None, os.read, read, 1 << 20))
        await writer.finish(10)
        assert not writer.is_busy and got == 1_000_000
        os.close(read)
        writer.write([b"nobody reads this"])
        await writer.finish(10)
        assert not writer.is_busy
        os.close(write)

    uvloop.run(test())
