"""What an SGLang engine says of its load is taken by its place, as its scheduler writes it."""

from typing import Any

import msgpack
import pytest

from routing.events.board import Load
from routing.events.load import load

# LoadStat's fields (SGLang 0.5.23), each of another number: running, waiting, tokens held, most tokens, rank,
# waiting uncached tokens, all tokens, most running, uncached tokens computed, microseconds computing.
STAT: list[Any] = ["LoadStat", 3, 5, 700, 4096, 1, 650, 900, 64, 12345, 678]


def said(stat: Any) -> Load | None:
    return load(msgpack.packb(stat), 9)


def test_each_field_is_where_the_scheduler_writes_it() -> None:
    assert said(STAT) == Load(
        at_ns=9, running=3, queued=5, used_tokens=700, most_tokens=4096, prefill_tokens=650
    )


def test_what_newer_engines_add_is_left_out_and_what_older_ones_lack_is_none() -> None:
    assert said([*STAT, 1, "more"]) == said(STAT)
    assert said(STAT[:5]) == Load(9, 3, 5, 700, 4096, 0)


@pytest.mark.parametrize(
    "stat",
    [{}, [], 5, "LoadStat", STAT[:4], ["Load", *STAT[1:]], ["LoadStat", -1, *STAT[2:]]]
    + [
        [*STAT[:at], wrong, *STAT[at + 1 :]]
        for at in range(1, 5)
        for wrong in (None, 1.5, "1", True, 1 << 63)
    ],
)
def test_what_is_no_load_is_none(stat: Any) -> None:
    assert said(stat) is None


def test_what_is_no_message_is_none() -> None:
    assert load(b"", 9) is load(b"\xc1", 9) is load(b"\x91" * 5000, 9) is None
