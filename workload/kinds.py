"""What does a request look like on its path?  Where its prompt stands, and what bounds its answer.

A request whose text nobody knows is made up in the form of its own path.  Where a path takes more than a
prompt (documents to rank, audio, token ids), none can be made up.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from workload.asks import Ask
from workload.row import Row, Sampling

Messages = list[dict[str, Any]]

_OPENAI: Final = frozenset(Sampling.__struct_fields__)


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests of some paths.

    `prompt` is the field of the prompt, a list of messages where `talks`, else a text.  `most` is the field
    that bounds the answer, None where it is no tokens and no stream.  `sampling` are the settings it takes.
    `usage`: counts of tokens come in a stream if asked for.  `eos`: engines can be told to ignore an end.
    """

    prompt: str
    talks: bool
    most: str | None
    sampling: frozenset[str] = frozenset()
    usage: bool = False
    eos: bool = False


_CHATS: Final = Kind("messages", True, "max_tokens", _OPENAI, usage=True, eos=True)
_COMPLETIONS: Final = Kind("prompt", False, "max_tokens", _OPENAI, usage=True, eos=True)
_MESSAGES: Final = Kind("messages", True, "max_tokens", frozenset({"temperature", "top_p", "top_k"}))
_RESPONSES: Final = Kind("input", True, "max_output_tokens", frozenset({"temperature", "top_p"}))
_EMBEDDINGS: Final = Kind("input", False, None)
_KINDS: Final = {
    "/v1/chat/completions": _CHATS,
    "/chat/completions": _CHATS,
    "/v1/completions": _COMPLETIONS,
    "/completions": _COMPLETIONS,
    "/v1/messages": _MESSAGES,
    "/v1/responses": _RESPONSES,
    "/responses": _RESPONSES,
    "/v1/embeddings": _EMBEDDINGS,
    "/embeddings": _EMBEDDINGS,
}
_BOUNDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def kind_of(path: str) -> Kind | None:
    """The kind of requests to a path; None where nothing can be made up for it."""
    return _KINDS.get(path.rstrip("/"))


def sendable(rows: Iterable[Row]) -> tuple[list[Row], Counter[str]]:
    """The rows that can be sent, and by path how many cannot: no text, and none can be made up."""
    kept: list[Row] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        if row.request is None and row.path is not None and kind_of(row.path) is None:
            left_out[row.path] += 1
        else:
            kept.append(row)
    return kept, left_out


def made_up(ask: Ask, prompt: str | Messages) -> dict[str, Any]:
    """The body of a request whose text is not known, around a prompt in the form of its kind."""
    kind = _KINDS[ask.path.rstrip("/")]
    asked = {} if ask.sampling is None else msgspec.to_builtins(ask.sampling)
    body: dict[str, Any] = {
        name: value for name, value in asked.items() if name in kind.sampling and value is not None
    }
    if kind is _RESPONSES:
        body["store"] = False  # or the server keeps what nobody will ask for
    if kind.talks and isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    return {**body, kind.prompt: prompt}


def bounded(kind: Kind, body: dict[str, Any], tokens: int, *, ignore_eos: bool = False) -> dict[str, Any]:
    """The body, asking for a stream of at most so many tokens, where its answer is tokens."""
    if kind.most is None:
        return body
    bound = {name: value for name, value in body.items() if name not in _BOUNDS}
    bound |= {kind.most: tokens, "stream": True}
    if kind.usage:
        bound["stream_options"] = {"include_usage": True}
    if kind.eos and ignore_eos:
        bound |= {"ignore_eos": True, "min_tokens": tokens}
    return bound
