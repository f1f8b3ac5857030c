"""What is asked: conversations of several turns made of Python's own documentation and sources.

A few system prompts and documents are shared, as applications share them; some turns are asked twice.  With
tools a turn takes up to three steps; with thinking each reply carries its thoughts, as a client that keeps
them would send them back, and with reasoning each step of tools does, too; salted conversations are of two
tenants, which share no cache; adapted ones are answered by LoRA adapters or by the model itself, which share
none either.
"""

import json
import math
import pydoc_data.topics
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

KINDS = ("chat", "tools", "thinking", "reasoning", "salted", "adapted")
TURNS = 4
_SYSTEMS, _DOCUMENTS = 4, 3
_SHARED_DOCUMENT, _AGAIN, _NO_SYSTEM = 1 / 3, 0.05, 0.15
_SOURCES = (
    "argparse.py",
    "asyncio/base_events.py",
    "difflib.py",
    "ipaddress.py",
    "statistics.py",
    "typing.py",
)
Message = dict[str, Any]


def _tool(name: str, what: str, **arguments: str) -> dict[str, Any]:
    properties = {one: {"type": "string", "description": told} for one, told in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": what, "parameters": parameters}}


TOOLS = [
    _tool("search", "Find documents that mention a phrase.", query="what to look for", site="where to look"),
    _tool("read_file", "Give the text of a file.", path="from the root of the project"),
    _tool("run", "Run a command and give what it prints.", command="as typed", timeout_s="seconds at most"),
]


@dataclass(frozen=True)
class Ask:
    """One request."""

    kind: str
    turn: int
    messages: list[Message]
    tools: list[dict[str, Any]] | None
    salt: str | None = None
    adapter: str | None = None

    def body(self, model: str, max_tokens: int) -> bytes:
        fields: dict[str, Any] = {
            "model": self.adapter or model,
            "messages": self.messages,
            "max_tokens": max_tokens,
        }
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.tools is not None:
            fields["tools"] = self.tools
        if self.salt is not None:
            fields["cache_salt"] = self.salt
        return json.dumps({**fields, "temperature": 0}).encode()


@cache
def _texts() -> tuple[str, str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    code = "\n".join((library / name).read_text(errors="replace") for name in _SOURCES)
    return "\n".join(pydoc_data.topics.topics.values()), code


def text(rng: Random, size: int, *, prose: bool = False) -> str:
    """So many characters out of somewhere."""
    words, code = _texts()
    source = words if prose or rng.random() < 0.7 else code
    start = rng.randrange(len(source) - size - 1)
    return source[start : start + size]


def _size(rng: Random, median: float, sigma: float = 0.8, most: int = 4000) -> int:
    return int(min(most, max(8, rng.lognormvariate(math.log(median), sigma))))


class Talks:
    """Where conversations come from."""

    def __init__(self, rng: Random, scale: float = 1.0, mark: str = "", adapters: Sequence[str] = ()) -> None:
        """`mark` begins every conversation: what engines hold of an earlier run is not met again."""
        self._adapters = adapters
        self._rng = rng
        self._mark = mark
        self._scale = scale
        self._systems = [mark + text(rng, self._size(1200, 0.5), prose=True) for _ in range(_SYSTEMS)]
        self._documents = [text(rng, self._size(2500, 0.4)) for _ in range(_DOCUMENTS)]

    def _size(self, median: float, sigma: float = 0.8) -> int:
        return _size(self._rng, median * self._scale, sigma)

    def one(self, kind: str) -> Iterator[Ask]:
        """A conversation, request by request, with words of our own for the engine's replies."""
        rng, tools = self._rng, TOOLS if kind in ("tools", "reasoning") else None
        salt = rng.choice(("tenant-a", "tenant-b")) if kind == "salted" else None
        adapter = rng.choice((*self._adapters, None)) if kind == "adapted" else None
        said: list[Message] = []
        if rng.random() >= _NO_SYSTEM:
            said = [{"role": "system", "content": rng.choice(self._systems)}]
        for turn in range(TURNS):
            asked = text(rng, self._size(250))
            if turn == 0 and rng.random() < _SHARED_DOCUMENT:
                asked = f"{rng.choice(self._documents)}\n{asked}"
            if not said:
                asked = self._mark + asked
            said = [*said, {"role": "user", "content": asked}]
            yield Ask(kind, turn, said, tools, salt, adapter)
            for step in range(rng.randrange(4) if tools else 0):
                said = [*said, *self._step(f"call{turn}{step:04}", thinks=kind == "reasoning")]
                yield Ask(kind, turn, said, tools, salt, adapter)
            if rng.random() < _AGAIN:
                yield Ask(kind, turn, said, tools, salt, adapter)
            reply = text(rng, self._size(400))
            if kind in ("thinking", "reasoning"):
                reply = self._thought() + reply
            said = [*said, {"role": "assistant", "content": reply}]

    def _thought(self) -> str:
        return f"<think>\n{text(self._rng, self._size(300))}\n</think>\n\n"

    def _step(self, id: str, *, thinks: bool) -> list[Message]:
        rng = self._rng
        arguments = json.dumps({"query": text(rng, 30), "site": "docs"})
        call = {"id": id, "type": "function", "function": {"name": "search", "arguments": arguments}}
        content = text(rng, 60) if rng.random() < 0.4 else None
        if thinks:
            content = self._thought() + (content or "")
        return [
            {"role": "assistant", "content": content, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": text(rng, self._size(500))},
        ]
