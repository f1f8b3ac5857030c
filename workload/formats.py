"""Which file of traffic is this?  Recordings, Mooncake, Azure and ShareGPT-like files, all read as rows.

What a file does not say is not made up: Azure's traces tell instants and lengths only, ShareGPT's texts only,
and their arrivals are then the caller's to choose.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from workload.packed import TornError, read_lines
from workload.row import Row, from_line
from workload.traces import MOONCAKE_BLOCK_TOKENS, MOONCAKE_BUCKET_S, TraceError

_LINES = re.compile(r".*\.jsonl(\.zst|\.gz)?")
_REMEDY = "`shadowlane record` writes one, once requests were served"
NO_FILE = f"no file of traffic here (*.jsonl, *.jsonl.zst, *.jsonl.gz); {_REMEDY}"
NO_ROW = f"there is no request in it; {_REMEDY}"
_BYTES_A_TOKEN = 4.0
_BUCKETS = 0.5  # a trace whose instants are mostly others' too is written in buckets


@dataclass(frozen=True, slots=True)
class Recording:
    """Rows in the order of their instants, and what they are: `recording`, `mooncake`, `azure` or `sharegpt`.

    `timed` is False where instants are all 0 because the file has none.  `torn` are files that just stop.
    """

    kind: str
    rows: list[Row]
    block_tokens: int
    timed: bool = True
    bucketed: bool = False


def read(
    paths: Sequence[Path], *, block_tokens: int | None = None, most_bytes: int | None = None
) -> Recording:
    """Read files or folders of recordings.  Raises TraceError, naming file and line; also where no row is.

    `most_bytes` bounds the lines that are read, once unpacked.
    """
    files = [file for path in paths for file in files_of(path)]
    if not files:
        raise TraceError(f"{', '.join(map(str, paths))}: {NO_FILE}")
    try:
        found = _read(files, block_tokens, most_bytes)
    except TornError as error:
        raise TraceError(str(error)) from None
    except OSError as error:
        raise TraceError(f"{error.filename}: {error.strerror}") from None
    if not found.rows:
        raise TraceError(f"{', '.join(map(str, paths))}: {NO_ROW}")
    return found


def is_empty(path: Path) -> str | None:
    """Why a file of rows, or a folder of them, has nothing in it, read no further than its first row; None
    where it has, or is of another kind.  Raises TraceError."""
    if not (files := files_of(path)):
        return NO_FILE
    try:
        if all(map(is_lines, files)) and not any(map(_has_line, files)):
            return NO_ROW
    except TornError as error:
        raise TraceError(str(error)) from None
    except OSError as error:
        raise TraceError(f"{error.filename}: {error.strerror}") from None
    return None


def _has_line(file: Path) -> bool:
    return any(line.strip() for line in read_lines(file))


def _read(files: Sequence[Path], block_tokens: int | None, most_bytes: int | None) -> Recording:
    if files[0].suffix == ".csv":
        return Recording("azure", _azure(files), 512)
    if files[0].suffix == ".json":
        return Recording("sharegpt", list(_sharegpt(files)), 512, timed=False)
    return _lines(files, block_tokens, most_bytes)


def spread(rows: Iterable[Row]) -> list[Row]:
    """Rows that share an instant, spread over the 3 s that the Mooncake traces round to."""
    made: list[Row] = []
    for at_ms, bucket in groupby(sorted(rows, key=lambda row: row.timestamp), key=lambda row: row.timestamp):
        members = list(bucket)
        step_ms = MOONCAKE_BUCKET_S * 1e3 / len(members)
        made += [
            msgspec.structs.replace(row, timestamp=at_ms + at * step_ms) for at, row in enumerate(members)
        ]
    return made


def is_lines(file: Path) -> bool:
    """Whether a file of this name is read for rows where its folder is named."""
    return _LINES.fullmatch(file.name) is not None


def files_of(path: Path) -> list[Path]:
    """A file, or all files of rows in a folder.  Raises TraceError."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if is_lines(file))
    if not path.exists():
        raise TraceError(f"{path}: there is no such file")
    return [path]


def _lines(files: Sequence[Path], block_tokens: int | None, most_bytes: int | None) -> Recording:
    rows: list[Row] = []
    size = 0
    for file, began in zip(files, _beginnings(files), strict=True):
        for number, line in enumerate(read_lines(file), start=1):
            if not line.strip():
                continue
            size += len(line)
            if most_bytes is not None and size > most_bytes:
                raise TraceError(f"{file}:{number}: more than {most_bytes} bytes; take fewer files")
            try:
                row = from_line(line)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise TraceError(f"{file}:{number}: not a row of the Mooncake schema: {error}") from None
            rows.append(msgspec.structs.replace(row, timestamp=row.timestamp + began) if began else row)
    told = _told(files[0])
    rows.sort(key=lambda row: row.timestamp)
    instants = {row.timestamp for row in rows}
    is_ours = told is not None or any(row.session is not None for row in rows)
    return Recording(
        "recording" if is_ours else "mooncake",
        rows,
        block_tokens or (told or {}).get("block_tokens") or _block_tokens(rows),
        bucketed=not is_ours and len(rows) > 10 and len(instants) < _BUCKETS * len(rows),
    )


def _told(file: Path) -> dict[str, Any] | None:
    """What lies beside a recording: 20261130T040501Z.json for 20261130T040501Z-0001.jsonl.zst."""
    beside = file.with_name(file.name.partition("-")[0].partition(".")[0] + ".json")
    try:
        told = json.loads(beside.read_text())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def _beginnings(files: Sequence[Path]) -> list[float]:
    """How many ms after the first recording each file's began: a folder may hold several."""
    stamps = [re.match(r"(\d{8}T\d{6})Z-", file.name) for file in files]
    if len(files) == 1 or not all(stamps):
        return [0.0] * len(files)
    began = [datetime.strptime(stamp[1], "%Y%m%dT%H%M%S") for stamp in stamps if stamp]  # noqa: DTZ007
    return [(one - min(began)).total_seconds() * 1e3 for one in began]


def _block_tokens(rows: Sequence[Row]) -> int:
    """The size of blocks that fits the rows' lengths; Mooncake's where nothing tells."""
    low, high = 1, 1 << 20
    for row in rows:
        if (count := len(row.hash_ids)) > 0 and row.input_length > 0:
            low = max(low, -(-row.input_length // count))
            if count > 1:
                high = min(high, (row.input_length - 1) // (count - 1))
    if low <= MOONCAKE_BLOCK_TOKENS <= high or low > high:
        return MOONCAKE_BLOCK_TOKENS
    return next((size for size in (16, 32, 64, 128, 256, 1024) if low <= size <= high), low)


def _azure(files: Sequence[Path]) -> list[Row]:
    rows: list[Row] = []
    for file in files:
        with file.open(newline="", encoding="utf-8") as text:
            for number, line in enumerate(csv.DictReader(text), start=2):
                try:
                    at = datetime.fromisoformat(line["TIMESTAMP"][:26])
                    tokens, output = int(line["ContextTokens"]), int(line["GeneratedTokens"])
                except (KeyError, TypeError, ValueError):
                    expected = "TIMESTAMP, ContextTokens, GeneratedTokens"
                    raise TraceError(f"{file}:{number}: expected {expected}") from None
                rows.append(Row(timestamp=at.timestamp() * 1e3, input_length=tokens, output_length=output))
    rows.sort(key=lambda row: row.timestamp)
    first_ms = rows[0].timestamp if rows else 0.0
    return [msgspec.structs.replace(row, timestamp=row.timestamp - first_ms) for row in rows]


def _sharegpt(files: Sequence[Path]) -> Iterator[Row]:
    """Each answer of a conversation is a request, with all before it as its history."""
    for file in files:
        try:
            talks = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TraceError(f"{file}: not JSON: {error}") from None
        if isinstance(talks, dict) and "openings" in talks:
            raise TraceError(
                f"{file}: is a model, not traffic; `shadowlane workload generate` makes traffic of it"
            )
        if not isinstance(talks, list):
            raise TraceError(f"{file}: expected a list of conversations")
        for number, talk in enumerate(talks):
            yield from _talk(file, number, talk)


def _talk(file: Path, number: int, talk: Any) -> Iterator[Row]:
    said = (talk.get("conversations") or talk.get("messages")) if isinstance(talk, dict) else None
    if not isinstance(said, list):
        raise TraceError(f"{file}: conversation {number}: expected a list `conversations`")
    name = str(talk.get("id") or f"talk-{number}")
    history: list[dict[str, str]] = []
    parent, turn = None, 0
    for one in said:
        role, text = one.get("from") or one.get("role"), one.get("value") or one.get("content")
        if not isinstance(role, str) or not isinstance(text, str):
            continue
        spoken = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant"}.get(
            role, role
        )
        if spoken == "assistant" and history and history[-1]["role"] == "user":
            yield Row(
                timestamp=0.0,
                input_length=max(1, round(sum(len(m["content"].encode()) for m in history) / _BYTES_A_TOKEN)),
                output_length=max(1, round(len(text.encode()) / _BYTES_A_TOKEN)),
                id=f"{name}-{turn}",
                session=name,
                parent=parent,
                turn=turn,
                input_tokens_from="estimate",
                output_tokens_from="estimate",
                request={"messages": [*history]},
                answer=text,
            )
            parent, turn = f"{name}-{turn}", turn + 1
        history.append({"role": spoken, "content": text})
