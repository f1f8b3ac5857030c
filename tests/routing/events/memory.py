"""A book and readers of it in one process, on plain memory; and messages as engines publish them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgpack

from routing.events.board import WORDS, Board
from routing.events.book import Book
from routing.events.reader import Reader

CAPTURED = Path(__file__).parent / "captured"
FACTOR = 0x9E37_79B9_7F4A_7C15


class Memory:
    """The board's memory, and the table's of each generation."""

    def __init__(self) -> None:
        self._board = bytearray(WORDS * 8)
        self._tables: dict[int, bytearray] = {}

    def board(self) -> Board:
        return Board(memoryview(self._board).cast("Q"))

    def new_table(self, generation: int, words: int) -> memoryview:
        self._tables = {generation: bytearray(words * 8)}
        return memoryview(self._tables[generation]).cast("Q")

    def open_table(self, generation: int) -> memoryview | None:
        table = self._tables.get(generation)
        return None if table is None else memoryview(table).cast("Q")

    def book(self, factor: Callable[[], int] = lambda: FACTOR) -> Book:
        book = Book(self.board(), self.new_table, factor)
        book.beat(1)
        return book

    def reader(self) -> Reader:
        reader = Reader(self.board(), self.open_table)
        reader.look(1)
        return reader


def captured(name: str) -> list[tuple[bytes, int, bytes]]:
    """Topic, number and payload of each message that was captured from a real engine."""
    messages = msgpack.unpackb((CAPTURED / f"{name}.msgpack").read_bytes())
    return [(topic, int.from_bytes(number, "big"), payload) for topic, number, payload in messages]


def stored(
    hashes: Sequence[int], parent: Any, tokens: Sequence[Any], block_size: int = 4, **more: Any
) -> dict[str, Any]:
    """A BlockStored event as vLLM writes it."""
    return {
        "type": "BlockStored", "block_hashes": list(hashes), "parent_block_hash": parent,
        "token_ids": list(tokens), "block_size": block_size, **more,
    }  # fmt: skip


def removed(*hashes: int, **more: Any) -> dict[str, Any]:
    """A BlockRemoved event."""
    return {"type": "BlockRemoved", "block_hashes": list(hashes), **more}


CLEARED = {"type": "AllBlocksCleared"}


def payload(*events: Any, rank: int | None = 0) -> bytes:
    """A message's last frame."""
    packed: bytes = msgpack.packb([1.5, list(events), rank])
    return packed
