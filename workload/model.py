"""What kind of traffic is this?  A recording as a small model without a prompt, an id or an instant of it.

What is kept: percentiles of lengths, how many turns conversations take and how long users think, how often
conversations arrive and how bursty, how much of a first prompt is shared by how many, the mix of tasks and of
sampling parameters.  Each only where enough requests stand behind it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, pstdev

import msgspec

from workload.row import Row, Sampling
from workload.shape import FEW, Fronts, fronts_of, later_of
from workload.talks import Talk, talks

SCHEMA = 1
SHARES = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100)
_MOST_FRONTS = 256


class Quantiles(msgspec.Struct, frozen=True):
    """A distribution by its values at `SHARES`, between which it is taken to be straight.

    Each is the mean of `FEW` neighbours, and what lies farthest out is in none: no single request's is kept.
    """

    values: list[float]

    @classmethod
    def of(cls, values: Iterable[float], otherwise: float = 1.0) -> "Quantiles":
        """Of these; where they are fewer than `FEW`, of nothing but `otherwise`."""
        known = sorted(values)
        if len(known) < FEW:
            return cls([otherwise] * len(SHARES))
        last, aside = len(known) - 1, FEW // 2
        spare = min(FEW, last // 2)
        middles = (min(last - spare, max(spare, round(share / 100 * last))) for share in SHARES)
        around = (known[at - aside : at + aside + 1] for at in middles)
        return cls(sorted(min(max(fmean(some), some[0]), some[-1]) for some in around))  # rounding aside

    def at(self, share: float) -> float:
        """The value below which `share` (0 to 1) of them lie."""
        percent = min(100.0, max(0.0, share * 100))
        for (low, high), (a, b) in zip(pairwise(SHARES), pairwise(self.values), strict=True):
            if percent <= high:
                return a + (b - a) * (percent - low) / (high - low)
        return self.values[-1]


class Front(msgspec.Struct, frozen=True):
    """A beginning that conversations share: so many tokens, and the share of those with just this one.

    `under` is the place of a shorter front that it begins with itself: together they are the prefix tree.
    """

    tokens: int
    share: float
    under: int | None = None


class Opening(msgspec.Struct, frozen=True):
    """One kind of beginning, with its share of conversations.

    `deep`: its front is longer than the shortest, of those that ask on about something long.  `turns` are how
    many follow from it, itself included; `tokens` what the first prompt has beyond its front; `reused` which
    part of those an earlier conversation had, None where nothing was.
    """

    share: float
    deep: bool
    turns: Quantiles
    tokens: Quantiles
    reused: Quantiles | None = None


class Task(msgspec.Struct, frozen=True):
    """One kind of work, its share of requests, and what it asks of the sampler, each with its share."""

    task: str
    share: float
    sampling: list[tuple[float, Sampling]]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Traffic as numbers.  `rate`: conversations a second; `burstiness`: the squared variation of their gaps.

    `added_tokens` is what a later turn adds to the prompt and answer before it, `kept` the share of later
    turns that do go on from them.  `think_s` is from an answer's end to the next turn, `token_s` how long an
    answer takes for each of its tokens, 0 where nobody said when answers ended: then `think_s` is from the
    turn before.  `hours` are the shares of the day's 24 hours, where a day was seen.  Nothing is made of
    `figures`: traffic that is made is held against them.
    """

    schema: int = SCHEMA
    block_tokens: int
    requests: int
    seconds: float
    rate: float
    burstiness: float
    openings: list[Opening]
    think_s: Quantiles
    token_s: float
    added_tokens: Quantiles
    output_tokens: Quantiles
    kept: float
    fronts: list[Front]
    tasks: list[Task]
    hours: list[float] | None = None
    figures: dict[str, float] = {}


def fit(rows: Sequence[Row], block_tokens: int) -> Model:
    """The model of these rows.  ValueError where there are too few to hide anybody among them."""
    found = talks(rows, block_tokens)
    if len(found) < 2 * FEW:
        raise ValueError(f"{len(found)} conversations are too few for a model: {2 * FEW} are needed")
    begins_s = sorted(talk.rows[0].timestamp / 1e3 for talk in found)
    seconds = max(1e-3, begins_s[-1] - begins_s[0])
    shared, later = fronts_of(found, block_tokens), later_of(found, block_tokens)
    fronts = _fronts(shared, len(found), block_tokens)
    return Model(
        block_tokens=block_tokens,
        requests=len(rows),
        seconds=round(seconds, 3),
        rate=(len(found) - 1) / seconds,
        burstiness=_burstiness(begins_s),
        openings=_openings(found, shared.blocks, fronts[0].tokens, block_tokens),
        think_s=Quantiles.of(later.think_s, otherwise=0.0),
        token_s=_token_s(rows),
        added_tokens=Quantiles.of(later.added),
        output_tokens=Quantiles.of(row.output_length for row in rows),
        kept=later.kept,
        fronts=fronts,
        tasks=_tasks(rows),
        hours=_hours(begins_s),
    )


def _burstiness(begins_s: Sequence[float]) -> float:
    gaps = [later - sooner for sooner, later in pairwise(begins_s)]
    mean = fmean(gaps)
    return (pstdev(gaps) / mean) ** 2 if mean > 0 else 1.0


def _fronts(shared: Fronts, conversations: int, block_tokens: int) -> list[Front]:
    """The commonest of them, shortest first."""
    common = [front for front, n in shared.named.most_common(_MOST_FRONTS) if n >= FEW or not front]
    common.sort(key=len)
    places = {front: at for at, front in enumerate(common)}
    fronts = [
        Front(
            len(front) * block_tokens,
            shared.named[front] / conversations,
            next((places[front[:n]] for n in range(len(front) - 1, 0, -1) if front[:n] in places), None),
        )
        for front in common
    ]
    return fronts or [Front(0, 1.0)]


def _openings(found: Sequence[Talk], fronted: Sequence[int], least: int, block_tokens: int) -> list[Opening]:
    """The kinds of beginnings: of one turn or several, anything of another
    conversation's or not, and a front of `least` tokens or a longer one."""
    seen: set[int] = set()
    groups: Mapping[tuple[bool, bool, bool], list[tuple[int, int, float]]] = defaultdict(list)
    for talk, blocks in zip(found, fronted, strict=True):
        first, front = talk.rows[0], blocks * block_tokens
        held = 0
        while held < len(first.hash_ids) and first.hash_ids[held] in seen:
            held += 1
        fresh = max(1, first.input_length - front)
        again = min(fresh - 1, held * block_tokens - front)
        reused = again >= block_tokens
        kind = (len(talk.rows) > 1, reused, front > least)
        groups[kind].append((len(talk.rows), fresh, again / fresh if reused else 0.0))
        for row in talk.rows:
            seen.update(row.hash_ids)
    large = {kind: listed for kind, listed in groups.items() if len(listed) >= FEW}
    total = sum(map(len, large.values()))
    return [
        Opening(
            len(listed) / total,
            deep,
            Quantiles.of(turns for turns, _, _ in listed),
            Quantiles.of(fresh for _, fresh, _ in listed),
            Quantiles.of(part for _, _, part in listed) if reused else None,
        )
        for (_, reused, deep), listed in sorted(large.items())
    ]


def _token_s(rows: Sequence[Row]) -> float:
    ended = [row for row in rows if row.e2e_ms is not None]
    if len(ended) < FEW:
        return 0.0
    return sum(row.e2e_ms or 0.0 for row in ended) / 1e3 / max(1, sum(row.output_length for row in ended))


def _tasks(rows: Sequence[Row]) -> list[Task]:
    """The kinds of work; one that fewer than `FEW` requests are of is taken for the most common."""
    named = Counter(row.task or "chat" for row in rows)
    most = named.most_common(1)[0][0]
    groups: Mapping[str, list[Row]] = defaultdict(list)
    for row in rows:
        task = row.task or "chat"
        groups[task if named[task] >= FEW else most].append(row)
    found: list[Task] = []
    for task, listed in sorted(groups.items()):
        settings = Counter(row.sampling or Sampling() for row in listed)
        common = [(n, setting) for setting, n in settings.most_common(16) if n >= FEW]
        total = sum(n for n, _ in common)
        mix = [(n / total, setting) for n, setting in common] or [(1.0, Sampling())]
        found.append(Task(task, len(listed) / len(rows), mix))
    return found


def _hours(begins_s: Sequence[float]) -> list[float] | None:
    """The shares of a day's hours since the recording began; None where no whole day was seen.

    Hours in which fewer than `FEW` conversations began have the same share, together what they had.
    """
    if begins_s[-1] - begins_s[0] < 86_400 - 3_600:
        return None
    counted = Counter(math.floor(at_s / 3_600) % 24 for at_s in begins_s)
    quiet = [hour for hour in range(24) if counted[hour] < FEW]
    in_quiet = sum(counted[hour] for hour in quiet)
    for hour in quiet:
        counted[hour] = 0
    all_of = sum(counted.values()) + (in_quiet if in_quiet >= FEW else 0)
    each = in_quiet / len(quiet) / all_of if in_quiet >= FEW else 0.0
    return [each if hour in quiet else counted[hour] / all_of for hour in range(24)]
