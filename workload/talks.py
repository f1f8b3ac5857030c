"""Which requests are one conversation?  Those that continue one another, by their links or their blocks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from workload.row import Row


@dataclass(frozen=True, slots=True)
class Talk:
    """The requests of one conversation, by their instants."""

    rows: tuple[Row, ...]


def talks(rows: Iterable[Row], block_tokens: int) -> list[Talk]:
    """Rows by conversation, in the order of their beginnings.

    Where no row says what it continues, `linked` finds it out.
    """
    ordered = sorted(rows, key=lambda row: row.timestamp)
    if not any(row.parent is not None or row.session is not None for row in ordered):
        ordered = linked(ordered, block_tokens)
    root: dict[str, int] = {}
    found: dict[int, list[Row]] = {}
    for number, row in enumerate(ordered):
        at = root.get(row.parent, number) if row.parent is not None else number
        if row.id is not None:
            root.setdefault(row.id, at)
        found.setdefault(at, []).append(row)
    return [Talk(tuple(listed)) for listed in found.values()]


def linked(rows: Sequence[Row], block_tokens: int) -> list[Row]:
    """Rows in the order of their instants with ids, and a parent where one's prompt goes on from another's.

    It does where it begins with all the other's whole blocks and has room for its prompt and answer.  The
    longest such prompt is the parent, and each is one's only: many that share a beginning and nothing else
    would else be one conversation.
    """
    ends: dict[tuple[int, int], int] = {}
    made: list[Row] = []
    for number, row in enumerate(rows):
        parent = None
        for depth in range(len(row.hash_ids), 0, -1):
            place = (depth, row.hash_ids[depth - 1])
            before = ends.get(place)
            if before is not None and _has_room(rows[before], row):
                parent = str(before)
                del ends[place]
                break
        whole = min(row.input_length // block_tokens, len(row.hash_ids))
        if whole:
            ends[whole, row.hash_ids[whole - 1]] = number
        made.append(msgspec.structs.replace(row, id=str(number), parent=parent))
    return made


def _has_room(before: Row, row: Row) -> bool:
    return row.input_length > before.input_length + before.output_length
