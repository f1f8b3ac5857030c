"""What is told of a traffic?  Every figure that a model of it should keep, and what models leave out."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Final, Literal

from workload.asks import asks, block_hits
from workload.row import Row, Sampling
from workload.shape import FEW, Fronts, Later, fronts_of, later_of
from workload.talks import Talk, talks

Group = Literal["when", "turns", "first", "prompt", "output", "later", "pause", "shared", "fronts", "tasks"]

# Of each group: what a model leaves out, by which its figures may be off.
LEFT_OUT: Final[dict[Group, str]] = {
    "when": "gaps are drawn one by one at one rate, without waves or trends (--scenario daily has the hours)",
    "turns": "how many turns follow is drawn by the kind of beginning, and the few longest are left out",
    "first": "a first prompt's length is drawn by the kind of its beginning, not by each beginning",
    "prompt": "what a turn adds is drawn apart from how long the prompt is by then",
    "output": "an answer's length is drawn apart from its prompt and task",
    "later": "what a turn adds is drawn apart from its place in the conversation",
    "pause": "pauses are drawn apart from all that was said",
    "shared": "only how first prompts begin is kept of what conversations share, not which are asked when",
    "fronts": "beginnings are drawn by their shares: one of about five conversations may come fewer times",
    "tasks": "tasks and settings are drawn once for a conversation; what few requests have is left out",
}


class Seen:
    """Rows with blocks of so many tokens, and what is found out of them, once."""

    def __init__(self, rows: Sequence[Row], block_tokens: int) -> None:
        self.rows = rows
        self.block_tokens = block_tokens

    @cached_property
    def talks(self) -> list[Talk]:
        """The conversations, by their beginnings."""
        return talks(self.rows, self.block_tokens)

    @cached_property
    def begins_s(self) -> list[float]:
        return [talk.rows[0].timestamp / 1e3 for talk in self.talks]

    @cached_property
    def gaps_s(self) -> list[float]:
        return [later - sooner for sooner, later in pairwise(self.begins_s)]

    @cached_property
    def fronts(self) -> Fronts:
        return fronts_of(self.talks, self.block_tokens)

    @cached_property
    def later(self) -> Later:
        return later_of(self.talks, self.block_tokens)

    @cached_property
    def settings(self) -> dict[tuple[str, Sampling], float]:
        """The share of requests of each task that ask the same of the sampler."""
        counted = Counter((row.task or "chat", row.sampling or Sampling()) for row in self.rows)
        return {key: n / len(self.rows) for key, n in counted.most_common()}


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, None of what does not have it.  `tail` is the share of `values` that lies beyond it.

    `of_two`: it says how far another traffic agrees with one; that one agrees with itself tells nothing.
    """

    name: str
    group: Group
    of: Callable[[Seen], float | None]
    is_share: bool = False
    tail: float = 0.0
    of_two: bool = False
    values: Callable[[Seen], Sequence[float]] | None = None

    def few(self, seen: Seen) -> int | None:
        """How many values there are, where a model keeps none so far out: fewer than `FEW` lie beyond it."""
        if self.values is None:
            return None
        n = len(self.values(seen))
        return n if n * self.tail < FEW else None


def _percentiles(
    name: str, group: Group, values: Callable[[Seen], Sequence[float]], shares: Iterable[int] = (50, 90, 99)
) -> list[Figure]:
    def at(share: int) -> Figure:
        def figure(seen: Seen) -> float | None:
            known = sorted(values(seen))
            return known[min(len(known) - 1, int(share / 100 * len(known)))] if known else None

        return Figure(f"{name} p{share}", group, figure, tail=1 - share / 100, values=values)

    return [at(share) for share in shares]


def _rate(seen: Seen) -> float | None:
    span_s = seen.begins_s[-1] - seen.begins_s[0] if seen.begins_s else 0.0
    return (len(seen.begins_s) - 1) / span_s if span_s > 0 else None


def _variation(seen: Seen) -> float | None:
    mean = fmean(seen.gaps_s) if seen.gaps_s else 0.0
    return pstdev(seen.gaps_s) / mean if mean > 0 else None


def _busiest(seen: Seen) -> float | None:
    if not seen.begins_s or seen.begins_s[-1] - seen.begins_s[0] < 23 * 3_600:
        return None
    hours = Counter(int(at_s // 3_600) % 24 for at_s in seen.begins_s)
    return max(hours.values()) / len(seen.begins_s)


def _mean_turns(seen: Seen) -> float | None:
    return len(seen.rows) / len(seen.talks) if seen.talks else None


def _several(seen: Seen) -> float | None:
    return fmean(len(talk.rows) > 1 for talk in seen.talks) if seen.talks else None


def _goes_on(seen: Seen) -> float | None:
    return seen.later.kept if seen.later.turns else None


def _common(seen: Seen) -> list[int]:
    """How many conversations have each beginning that so many share."""
    return [n for front, n in seen.fronts.named.items() if front and n >= FEW]


def _fronted(seen: Seen) -> list[int]:
    return [blocks * seen.block_tokens for blocks in seen.fronts.blocks if blocks]


def _share_fronted(seen: Seen) -> float | None:
    return (
        len(_fronted(seen)) / len(seen.talks) if seen.talks and any(r.hash_ids for r in seen.rows) else None
    )


def _most_common(seen: Seen) -> float | None:
    common = _common(seen)
    return max(common) / len(seen.talks) if common else None


def _nested(seen: Seen) -> float | None:
    """Of the common beginnings, those that begin with another one."""
    named = {front for front, n in seen.fronts.named.items() if front and n >= FEW}
    if not named:
        return None
    return fmean(any(front[:n] in named for n in range(1, len(front))) for front in named)


def _hits(seen: Seen) -> float | None:
    return block_hits(asks(seen.rows, seen.block_tokens))


def _distinct(seen: Seen) -> float | None:
    blocks = sum(len(row.hash_ids) for row in seen.rows)
    return len({block for row in seen.rows for block in row.hash_ids}) / blocks if blocks else None


def _task(task: str) -> Figure:
    def figure(seen: Seen) -> float | None:
        return fmean((row.task or "chat") == task for row in seen.rows) if seen.rows else None

    return Figure(f"share of {task}", "tasks", figure, is_share=True)


FIGURES: Final[tuple[Figure, ...]] = (
    Figure("conversations a second", "when", _rate),
    Figure("their gaps' variation", "when", _variation),
    Figure("share in the busiest hour", "when", _busiest, is_share=True),
    Figure("turns of a conversation", "turns", _mean_turns),
    Figure("share of several turns", "turns", _several, is_share=True),
    *_percentiles("turns", "turns", lambda seen: [len(talk.rows) for talk in seen.talks], (90, 99)),
    *_percentiles("pause before a turn, s,", "pause", lambda seen: seen.later.think_s),
    *_percentiles(
        "first prompt's tokens", "first", lambda seen: [t.rows[0].input_length for t in seen.talks]
    ),
    *_percentiles("tokens a turn adds", "later", lambda seen: seen.later.added),
    Figure("later turns that go on", "later", _goes_on, is_share=True),
    *_percentiles("prompt tokens", "prompt", lambda seen: [row.input_length for row in seen.rows]),
    *_percentiles("output tokens", "output", lambda seen: [row.output_length for row in seen.rows]),
    Figure("hit rate of endless cache", "shared", _hits, is_share=True),
    Figure("distinct share of blocks", "shared", _distinct, is_share=True),
    Figure("beginnings that are shared", "fronts", lambda seen: float(len(_common(seen)))),
    Figure("share that have one", "fronts", _share_fronted, is_share=True),
    Figure("share of the commonest", "fronts", _most_common, is_share=True),
    Figure("of them begin with another", "fronts", _nested, is_share=True),
    *_percentiles("their tokens", "fronts", _fronted),
    *map(_task, ("chat", "plain", "tools", "json", "vision")),
)

_SETTINGS = 4


def settings_of(seen: Seen) -> list[Figure]:
    """The shares of what is asked of the sampler: the commonest of `seen` by name, and how far all agree."""
    counted = Counter(row.sampling or Sampling() for row in seen.rows)
    named = [setting for setting, _ in counted.most_common(_SETTINGS)]

    def share_of(wanted: Callable[[Sampling], bool]) -> Callable[[Seen], float | None]:
        return lambda some: sum(share for (_, one), share in some.settings.items() if wanted(one))

    def agreed(some: Seen) -> float | None:
        return sum(min(share, some.settings.get(key, 0.0)) for key, share in seen.settings.items())

    made = [
        Figure(f"share asking {_said(one)}", "tasks", share_of(one.__eq__), is_share=True) for one in named
    ]
    if len(counted) > len(named):
        others = share_of(lambda one: one not in named)
        made.append(Figure("share asking something else", "tasks", others, is_share=True))
    return [*made, Figure("same task and settings", "tasks", agreed, is_share=True, of_two=True)]


def _said(setting: Sampling) -> str:
    given = {name: getattr(setting, name) for name in Sampling.__struct_fields__}
    return " ".join(f"{name} {value:g}" for name, value in given.items() if value is not None) or "nothing"
