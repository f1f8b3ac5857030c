"""How alike are two traffics?  The same figures of both, side by side, with how far they are apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, pstdev

from workload.asks import asks, block_hits
from workload.row import Row
from workload.talks import talks

Figure = Callable[[Sequence[Row], int], float | None]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both.  `apart`: their difference relative to the first, None where it has none."""

    name: str
    one: float | None
    other: float | None

    @property
    def apart(self) -> float | None:
        if self.one is None or self.other is None or self.one == 0:
            return None
        return self.other / self.one - 1


def compare(one: Sequence[Row], other: Sequence[Row], block_tokens: int) -> list[Compared]:
    """Every figure of two lists of rows, both with blocks of so many tokens."""
    return [
        Compared(name, figure(one, block_tokens), figure(other, block_tokens)) for name, figure in _FIGURES
    ]


def table(found: Sequence[Compared], names: tuple[str, str] = ("recorded", "made")) -> str:
    """The figures for reading."""
    lines = [f"{'':<28}{names[0]:>14}{names[1]:>14}{'apart':>9}"]
    for one in found:
        apart = "" if one.apart is None else f"{one.apart:+.1%}"
        lines.append(f"{one.name:<28}{_shown(one.one):>14}{_shown(one.other):>14}{apart:>9}")
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _percentile(of: Callable[[Row], float], share: float) -> Figure:
    def figure(rows: Sequence[Row], _size: int) -> float | None:
        known = sorted(map(of, rows))
        return known[min(len(known) - 1, int(share * len(known)))] if known else None

    return figure


def _rate(rows: Sequence[Row], size: int) -> float | None:
    begins = sorted(talk.rows[0].timestamp for talk in talks(rows, size))
    span_s = (begins[-1] - begins[0]) / 1e3 if begins else 0.0
    return (len(begins) - 1) / span_s if span_s > 0 else None


def _variation(rows: Sequence[Row], size: int) -> float | None:
    begins = sorted(talk.rows[0].timestamp for talk in talks(rows, size))
    gaps = [later - sooner for sooner, later in pairwise(begins)]
    mean = fmean(gaps) if gaps else 0.0
    return pstdev(gaps) / mean if mean > 0 else None


def _turns(rows: Sequence[Row], size: int) -> float | None:
    found = talks(rows, size)
    return len(rows) / len(found) if found else None


def _hits(rows: Sequence[Row], size: int) -> float | None:
    return block_hits(asks(rows, size))


def _distinct(rows: Sequence[Row], _size: int) -> float | None:
    blocks = sum(len(row.hash_ids) for row in rows)
    return len({block for row in rows for block in row.hash_ids}) / blocks if blocks else None


def _share(task: str) -> Figure:
    def figure(rows: Sequence[Row], _size: int) -> float | None:
        return sum((row.task or "chat") == task for row in rows) / len(rows) if rows else None

    return figure


_FIGURES: tuple[tuple[str, Figure], ...] = (
    ("conversations a second", _rate),
    ("their gaps' variation", _variation),
    ("turns of a conversation", _turns),
    ("prompt tokens p50", _percentile(lambda row: row.input_length, 0.5)),
    ("prompt tokens p90", _percentile(lambda row: row.input_length, 0.9)),
    ("prompt tokens p99", _percentile(lambda row: row.input_length, 0.99)),
    ("output tokens p50", _percentile(lambda row: row.output_length, 0.5)),
    ("output tokens p90", _percentile(lambda row: row.output_length, 0.9)),
    ("hit rate of endless cache", _hits),
    ("distinct share of blocks", _distinct),
    ("share of chats", _share("chat")),
    ("share with tools", _share("tools")),
)
