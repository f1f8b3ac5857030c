"""How is recorded traffic read?  GSM8K and HumanEval questions and Mooncake traces, out of files.

Mooncake rows ({timestamp, input_length, output_length, hash_ids}) carry no text, only which 512-token blocks
a prompt is made of.  A block's text is made from its id, so rows that share leading ids share a prefix, byte
for byte.  The public traces give instants in buckets of 3 s; replayed as they stand they are a burst every 3
s, so arrivals are spread evenly inside each bucket unless the caller asks for the instants as recorded.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from workload import phrases
from workload.prompts import Conversation, Turn

MOONCAKE_BLOCK_TOKENS = 512
MOONCAKE_BUCKET_S = 3.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A conversation and the instant at which it begins, in seconds from the start of the trace."""

    at_s: float
    conversation: Conversation


class TraceError(ValueError):
    """A file is not the trace it was taken for; the text names the file, the line and what was expected."""


def gsm8k(path: Path, max_tokens: int = 256) -> Iterator[Conversation]:
    """The questions of a GSM8K file (jsonl, maybe .gz), one conversation of one turn each."""
    for line, row in _rows(path):
        yield _single(_text(path, line, row, "question"), max_tokens)


def humaneval(path: Path, max_tokens: int = 384) -> Iterator[Conversation]:
    """The function heads of a HumanEval file (jsonl, maybe .gz), each asked to be completed."""
    for line, row in _rows(path):
        yield _single("Complete this function.\n\n" + _text(path, line, row, "prompt"), max_tokens)


def mooncake(
    path: Path, *, block_words: int = 380, spread: bool = True, speed: float = 1.0
) -> Iterator[Arrival]:
    """The rows of a Mooncake trace, in their order.

    `block_words` is how many words stand for a full block of 512 tokens (380 English words are about 512
    tokens; fewer make the same prefix structure cheaper).  `speed` divides the instants: 2 replays in half
    the time.
    """
    rows = [(line, _mooncake_row(path, line, row)) for line, row in _rows(path)]
    for at_ms, bucket in groupby(rows, key=lambda numbered: numbered[1].timestamp):
        members = list(bucket)
        step_s = MOONCAKE_BUCKET_S / len(members) if spread else 0.0
        for place, (_, row) in enumerate(members):
            turn = Turn(_mooncake_text(row, block_words), max(1, row.output_length))
            yield Arrival((at_ms / 1e3 + place * step_s) / speed, Conversation("", (turn,)))


class _MooncakeRow(msgspec.Struct, frozen=True):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


def _mooncake_row(path: Path, line: int, row: dict[str, Any]) -> _MooncakeRow:
    try:
        return msgspec.convert(row, _MooncakeRow)
    except msgspec.ValidationError as error:
        raise TraceError(f"{path}:{line}: not a Mooncake row: {error}") from None


def _mooncake_text(row: _MooncakeRow, block_words: int) -> str:
    blocks = [_block_text(block, block_words) for block in row.hash_ids]
    missing_tokens = len(blocks) * MOONCAKE_BLOCK_TOKENS - row.input_length
    if blocks and 0 < missing_tokens < MOONCAKE_BLOCK_TOKENS:  # the last block is not full
        share = 1.0 - missing_tokens / MOONCAKE_BLOCK_TOKENS
        blocks[-1] = " ".join(blocks[-1].split(" ")[: max(1, round(share * block_words))])
    return "\n".join(blocks)


def _block_text(block: int, words: int) -> str:
    rng = Random(block)  # the id is the seed: the same block is the same text in every row and every run
    stock = [word for _, fillers in phrases.SLOTS for filler in fillers for word in filler.split()]
    return " ".join([f"[{block}]", *rng.choices(stock, k=max(1, words - 1))])


def _single(text: str, max_tokens: int) -> Conversation:
    return Conversation("", (Turn(text, max_tokens),))


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The numbered non-empty lines of a jsonl file, decoded."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield number, msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise TraceError(f"{path}:{number}: expected a JSON object: {error}") from None


def _text(path: Path, line: int, row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str):
        raise TraceError(
            f"{path}:{line}: expected a text field {field!r}; the fields are {', '.join(row) or 'none'}"
        )
    return value
