"""Which file does a line go to?  The files of one recording, begun anew by size and age, the oldest removed.

All files of one recording have its beginning in their names: 20261130T040501Z-0001.jsonl.zst, and beside them
20261130T040501Z.json, which says what the lines mean.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from gateway.recording.spec import RecordSpec
from workload.forget import RECORDED
from workload.packed import ENDINGS, Lines

SCHEMA: Final = 1
DISK: Final = "disk"
_AGAIN_NS: Final = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed to make room, or because it was old."""

    files: int = 0
    bytes: int = 0


class _Told(msgspec.Struct):
    bytes_per_token: dict[str, Annotated[float, msgspec.Meta(ge=1, le=16)]]

    @classmethod
    def of(cls, content: bytes) -> "_Told | None":
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None


class Files:
    """The files of a recording that began at `began` (UTC, as in their names).

    Nothing here raises for want of room: `add` gives the reason, and a new file is tried 5 s later.
    """

    def __init__(self, spec: RecordSpec, began: str) -> None:
        self._spec = spec
        self._folder = Path(spec.to)
        self._began = began
        self._file_ns = round(min(spec.file_s, spec.text_keep_s if spec.text else spec.file_s) * 1e9)
        self._number = 0
        self._lines: Lines | None = None
        self._opened_ns = 0
        self._again_ns = 0
        self.written_bytes = 0
        self.error: str | None = None

    def add(self, line: bytes, now_ns: int) -> str | None:
        """Write a line: None, or why it is lost."""
        try:
            if (lines := self._lines_now(now_ns)) is None:
                return DISK
            before = lines.size
            lines.add(line)
            self.written_bytes += lines.size - before
        except OSError as error:
            self.error = f"{self._folder}: {error.strerror}"
            self._again_ns = now_ns + _AGAIN_NS
            if self._lines is not None:
                self._lines.close(ended=False)
                self._lines = None
            return DISK
        self.error = None
        return None

    def describe(self, ratios: Mapping[str, float]) -> None:
        """Say beside the files what their lines mean.  OSError is kept in `error`."""
        told: dict[str, Any] = {
            "schema": SCHEMA,
            "began": self._began,
            "block_tokens": self._spec.block_tokens,
            "bytes_per_token": dict(ratios),
            "text": self._spec.text,
        }
        fresh = self._folder / f".{self._began}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_text(json.dumps(told, indent=1) + "\n")
            os.chmod(fresh, 0o600)
            fresh.replace(self._folder / f"{self._began}.json")
        except OSError as error:
            self.error = f"{self._folder}: {error.strerror}"

    def learned(self) -> dict[str, float]:
        """The bytes a token of each model that the folder's last recording found: with them a prompt is cut
        as it was there, and has the same ids."""
        try:
            for path in sorted(self._folder.glob("*Z.json"), reverse=True):
                told = _Told.of(path.read_bytes())
                if told is not None and told.bytes_per_token:
                    return told.bytes_per_token
        except OSError:
            pass  # it is learned anew
        return {}

    def tidy(self, now_s: float) -> Removed:
        """Remove the oldest files beyond `keep_bytes`, and those last written more than `keep_s` ago."""
        found: list[tuple[float, int, Path]] = []
        try:
            for path in self._folder.iterdir():
                if RECORDED.fullmatch(path.name) and (self._lines is None or path != self._lines.path):
                    stat = path.stat()
                    found.append((stat.st_mtime, stat.st_size, path))
        except OSError:
            return Removed()
        total, keep_s = sum(size for _, size, _ in found), self._spec.keep_s
        files = freed = 0
        for written_s, size, path in sorted(found):
            too_old = keep_s is not None and now_s - written_s > keep_s
            if total <= self._spec.keep_bytes and not too_old:
                break
            path.unlink(missing_ok=True)
            files, freed, total = files + 1, freed + size, total - size
        return Removed(files, freed)

    def rotate(self, now_ns: int) -> None:
        """End a file that is old enough, though no line comes: what is in it is to grow old."""
        if self._lines is not None and now_ns - self._opened_ns >= self._file_ns:
            self.close()

    def close(self) -> None:
        """End the file that is being written; the next line begins another."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def _lines_now(self, now_ns: int) -> Lines | None:
        lines, spec = self._lines, self._spec
        if lines is not None and (lines.size >= spec.file_bytes or now_ns - self._opened_ns >= self._file_ns):
            self.close()
            lines = None
        if lines is None:
            if now_ns < self._again_ns:
                return None
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lines = self._lines = self._new()
            self._opened_ns = now_ns
        return lines

    def _new(self) -> Lines:
        while True:
            self._number += 1
            path = self._folder / f"{self._began}-{self._number:04d}{ENDINGS[self._spec.packing]}"
            try:
                return Lines(path, self._spec.packing)
            except FileExistsError:
                pass  # of a process that died within the second in which this one began
