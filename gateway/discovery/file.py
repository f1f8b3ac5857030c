"""Engines by a file, JSON or YAML, that lists their URLs; somebody else keeps it up to date."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import yaml

from config.address import BadAddress, engine_url
from gateway.discovery.source import NoAnswer
from gateway.discovery.spec import FileSpec

_LOOK_S = 1.0
_MOST_BYTES = 4 << 20


class FileSource:
    """Source of one file.  It is looked at each second, and taken when two looks found the same: who is still
    writing it gets another second.  Contents are compared, so it may be renamed into place or be a link.

    A file that cannot be used is looked at as often as another, and read again when it has changed."""

    def __init__(self, spec: FileSpec, look_s: float = _LOOK_S) -> None:
        self._path = Path(spec.path)
        self._look_s = look_s
        self._seen: bytes | None = None  # what was taken or complained of last
        self.most_delay_s = look_s

    async def watch(self, again: asyncio.Event) -> AsyncIterator[frozenset[str]]:
        """See `source.Source`."""
        changing = self._content()
        while True:
            content = self._content()
            if content != self._seen and content == changing:
                self._seen = content
                yield self._urls(content)
            changing = content
            await asyncio.sleep(self._look_s)

    def _content(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except OSError as error:
            self._seen = None
            raise NoAnswer(f"{self._path} cannot be read: {error.strerror}") from None
        if len(content) > _MOST_BYTES:
            self._seen = None
            raise NoAnswer(f"{self._path} holds more than {_MOST_BYTES} bytes")
        return content

    def _urls(self, content: bytes) -> frozenset[str]:
        try:
            listed = yaml.safe_load(content)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
            at = getattr(error, "problem_mark", None)
            place = f":{at.line + 1}" if at is not None else ""
            raise NoAnswer(f"{self._path}{place} is neither JSON nor YAML") from None
        if not isinstance(listed, list):
            raise NoAnswer(f"{self._path}: expected a list of URLs such as [http://10.0.0.5:8000]")
        urls = set[str]()
        for at, one in enumerate(listed):
            try:
                urls.add(engine_url(one if isinstance(one, str) else ""))
            except BadAddress as error:
                raise NoAnswer(f"{self._path}: item {at + 1}: expected {error}") from None
        return frozenset(urls)
