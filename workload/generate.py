"""How does a model become traffic again?  Rows of made-up conversations, by a generator that is handed in.

Ids of blocks are new: they are the text's seeds when the rows are sent.  A scenario says when conversations
begin; all else is the model's.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import count
from random import Random

from workload.blocks import blocks_of
from workload.model import Model, Opening
from workload.row import Row
from workload.scenario import Plan, begins
from workload.shape import FEW

_TRIES = 8


def generate(model: Model, plan: Plan, rng: Random) -> list[Row]:
    """Rows in the order of their instants."""
    ids = count(1)
    blocks = count(1_000_000)
    fronts: list[list[int]] = []
    for front in model.fronts:
        begin = [] if front.under is None else fronts[front.under]
        lacking = blocks_of(front.tokens, model.block_tokens) - len(begin)
        fronts.append([*begin, *(next(blocks) for _ in range(lacking))])
    rows: list[Row] = []
    earlier = [_Earlier(len(front)) for front in fronts]
    for number, at_s in enumerate(begins(plan, rng)):
        rows += _talk(model, rng, at_s, f"talk-{number}", ids, blocks, fronts, earlier)
    rows.sort(key=lambda row: row.timestamp)
    return rows


class _Earlier:
    """The first prompts of conversations with one front.  What is reused of them fewer than `FEW` then share,
    for what so many share is a front."""

    def __init__(self, front: int) -> None:
        self._front = front
        self._prompts: list[list[int]] = []
        self._shared: Counter[int] = Counter()  # by the first block beyond the front

    def add(self, prompt: list[int]) -> None:
        """One more, if it has anything beyond the front."""
        if len(prompt) > self._front:
            self._prompts.append(prompt)
            self._shared[prompt[self._front]] += 1

    def longest(self, rng: Random, blocks: int) -> list[int]:
        """One of a few that has so many blocks, or the longest of them; nothing where none may be reused."""
        tried = [rng.choice(self._prompts) for _ in range(_TRIES)] if self._prompts else []
        found = [one for one in tried if self._shared[one[self._front]] < FEW - 1]
        return next((one for one in found if len(one) >= blocks), max(found, key=len, default=[]))


def _talk(
    model: Model,
    rng: Random,
    at_s: float,
    name: str,
    ids: "count[int]",
    blocks: "count[int]",
    fronts: list[list[int]],
    earlier: "list[_Earlier]",
) -> Iterator[Row]:
    size = model.block_tokens
    task = rng.choices(model.tasks, [one.share for one in model.tasks])[0]
    sampling = rng.choices(task.sampling, [share for share, _ in task.sampling])[0][1]
    opening = rng.choices(model.openings, [one.share for one in model.openings])[0]
    which = _front(model, opening, rng)
    front = fronts[which]
    fresh = max(1, round(opening.tokens.at(rng.random())))
    tokens = model.fronts[which].tokens + fresh
    named = [*front]
    if opening.reused is not None:
        again = len(front) + round(fresh * opening.reused.at(rng.random()) / size)
        named = earlier[which].longest(rng, again)[:again] or named
    parent: str | None = None
    turns = max(1, round(opening.turns.at(rng.random())))
    for turn in range(turns):
        while len(named) < blocks_of(tokens, size):
            named.append(next(blocks))
        if not turn:
            earlier[which].add(named[: tokens // size])
        id = f"made-{next(ids)}"
        output = max(1, round(model.output_tokens.at(rng.random())))
        yield Row(
            timestamp=round(at_s * 1e3, 3),
            input_length=max(1, tokens),
            output_length=output,
            hash_ids=named[: blocks_of(max(1, tokens), size)],
            id=id,
            session=name,
            parent=parent,
            turn=turn,
            task=task.task,
            sampling=sampling,
            e2e_ms=round(model.token_s * output * 1e3, 3) or None,
        )
        parent = id
        at_s += model.token_s * output + model.think_s.at(rng.random())
        whole = tokens // size
        if rng.random() < model.kept:
            tokens += output + max(1, round(model.added_tokens.at(rng.random())))
            named = named[:whole]
        else:  # another topic: only what all share stays
            tokens = model.fronts[which].tokens + max(1, round(opening.tokens.at(rng.random())))
            named = [*front]


def _front(model: Model, opening: Opening, rng: Random) -> int:
    """The place of a front: one of the shortest, or of those that are longer."""
    least = model.fronts[0].tokens
    places = [at for at, front in enumerate(model.fronts) if (front.tokens > least) is opening.deep]
    places = places or list(range(len(model.fronts)))
    return rng.choices(places, [model.fronts[at].share for at in places])[0]
