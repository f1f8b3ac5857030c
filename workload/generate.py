"""How does a model become traffic again?  Rows of made-up conversations, by a generator that is handed in.

Ids of blocks are new: they are the text's seeds when the rows are sent.  A scenario says when conversations
begin; all else is the model's.
"""

from collections.abc import Iterator
from itertools import count
from random import Random

from workload.blocks import blocks_of
from workload.model import Model
from workload.row import Row
from workload.scenario import Plan, begins

_TRIES = 8
_TOKENS_S = 0.02  # an answer's token, for when the next turn is due; sent later, it waits for the answer


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
    earlier: list[list[list[int]]] = [[] for _ in fronts]
    for number, at_s in enumerate(begins(plan, rng)):
        rows += _talk(model, rng, at_s, f"talk-{number}", ids, blocks, fronts, earlier)
    rows.sort(key=lambda row: row.timestamp)
    return rows


def _talk(
    model: Model,
    rng: Random,
    at_s: float,
    name: str,
    ids: "count[int]",
    blocks: "count[int]",
    fronts: list[list[int]],
    earlier: list[list[list[int]]],
) -> Iterator[Row]:
    size = model.block_tokens
    which = rng.choices(range(len(fronts)), [front.share for front in model.fronts])[0]
    task = rng.choices(model.tasks, [one.share for one in model.tasks])[0]
    sampling = rng.choices(task.sampling, [share for share, _ in task.sampling])[0][1]
    opening = rng.choices(model.openings, [one.share for one in model.openings])[0]
    front = fronts[which]
    fresh = max(1, round(opening.tokens.at(rng.random())))
    tokens = model.fronts[which].tokens + fresh
    named = [*front]
    if opening.reused is not None and earlier[which]:
        again = len(front) + round(fresh * opening.reused.at(rng.random()) / size)
        named = _longest(rng, earlier[which], again)[:again]
    parent: str | None = None
    turns = max(1, round(opening.turns.at(rng.random())))
    for turn in range(turns):
        while len(named) < blocks_of(tokens, size):
            named.append(next(blocks))
        if not turn:
            earlier[which].append(named[: tokens // size])
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
        )
        parent = id
        at_s += _TOKENS_S * output + model.think_s.at(rng.random())
        whole = tokens // size
        if rng.random() < model.kept:
            tokens += output + max(1, round(model.added_tokens.at(rng.random())))
            named = named[:whole]
        else:  # another topic: only what all share stays
            tokens = model.fronts[which].tokens + max(1, round(opening.tokens.at(rng.random())))
            named = [*front]


def _longest(rng: Random, earlier: list[list[int]], blocks: int) -> list[int]:
    """One of a few earlier prompts that has so many blocks, or the longest of them."""
    found = [rng.choice(earlier) for _ in range(_TRIES)]
    return next((one for one in found if len(one) >= blocks), max(found, key=len))
