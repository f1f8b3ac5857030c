"""How many tokens did an answer take, as its engine says at the answer's end?

Looked for once, in the last few reads; nothing is done per read.  What no engine said is None, never 0.  The
member is decoded where it stands in the document, so that text a model wrote, or a schema a client sent that
is echoed, is never taken for it.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from gateway.told import Answer, Count, Told, decode, decode_batch, decode_told, decode_top

# Beyond this a document is not decoded as a whole: vectors and logprobs are long, and the counts stand apart.
_WHOLE_BYTES: Final = 32 << 10
_OBJECT: Final = re.compile(rb'"(?:usage|timings)"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')
_USAGE: Final = b'"usage":{'
_FLAT: Final = re.compile(rb'"(prompt_tokens|completion_tokens|cached_tokens|generated_tokens)"\s*:\s*(\d+)')


class Usage:
    """Tokens of one answer.  `prompt_tokens` includes those that were cached."""

    __slots__ = ("cached_tokens", "completion_tokens", "prompt_tokens")

    def __init__(
        self,
        prompt_tokens: int | None = None,
        cached_tokens: int | None = None,
        completion_tokens: int | None = None,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.cached_tokens = cached_tokens
        self.completion_tokens = completion_tokens

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Usage) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def _all(self) -> tuple[int | None, int | None, int | None]:
        return self.prompt_tokens, self.cached_tokens, self.completion_tokens

    def __repr__(self) -> str:
        return f"Usage({self.prompt_tokens}, {self.cached_tokens}, {self.completion_tokens})"


def usage(last_reads: Iterable[bytes], is_events: bool, first_read: bytes = b"") -> Usage | None:
    """What an answer says of its tokens; None when it says nothing.

    `last_reads` are its last few pieces, oldest first.  `first_read` is its beginning where they do not reach
    back to it: some engines tell the prompt's tokens in the first of Anthropic's events and nowhere else, and
    some documents tell all before their data.
    """
    tail = b"".join(last_reads)
    told = _in_events(tail) if is_events else _in_document(tail) or _anywhere(first_read)
    if told is not None and told.prompt_tokens is None and is_events:
        begun = _in_events(tail, b'"message_start"') or _in_events(first_read, b'"message_start"')
        if begun is not None:
            return Usage(begun.prompt_tokens, begun.cached_tokens, told.completion_tokens)
    return told


_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _in_events(tail: bytes, marker: bytes = b"") -> Usage | None:
    """The counts of the last event that has any; those of one that holds `marker`, if given."""
    at = len(tail)
    while (at := max(tail.rfind(b'_tokens"', 0, at), tail.rfind(b'"predicted_n"', 0, at))) >= 0:
        start = tail.rfind(b"\n", 0, at) + 1
        end = tail.find(b"\n", at)
        line = tail[start:] if end < 0 else tail[start:end]
        if marker in line and (told := _in_line(line)) is not None:
            return told
        at = start
    return None


def _in_line(line: bytes) -> Usage | None:
    at = line.find(b"{")
    if not line.startswith(b"data:") or at < 0 or len(line) > _WHOLE_BYTES:
        return _anywhere(line)  # the event began before the reads that are left
    try:
        return _counts(decode(line[at:].rstrip()))
    except _ERRORS:
        return None


def _at_end(tail: bytes) -> Usage | None:
    """The counts, where they stand at the top of a document and near its end: as nearly always.

    What follows them up to the document's end is then the rest of one object; anywhere else it is not.
    """
    at = tail.rfind(_USAGE)
    if at < 0:
        return None
    try:
        told = decode_top(b"{" + tail[at:]).usage
    except _ERRORS:
        return None
    return None if told is None else _said(told)


def _in_document(tail: bytes) -> Usage | None:
    told = _at_end(tail)
    if told is not None:
        return told
    if len(tail) <= _WHOLE_BYTES:
        try:
            if tail[:1] == b"[":
                return _sum([_counts(one) for one in decode_batch(tail)])
            return _counts(decode(tail))
        except _ERRORS:
            pass
    return _anywhere(tail[:1024]) or _anywhere(tail[-_WHOLE_BYTES:])


def _anywhere(part: bytes) -> Usage | None:
    """The last counts in a part of a document."""
    found = _OBJECT.findall(part)
    if found:
        try:
            return _said(decode_told(found[-1]))
        except _ERRORS:
            return None
    at = part.rfind(b'"meta_info"')
    if at < 0:
        return None
    flat = {name: int(number) for name, number in _FLAT.findall(part, at)}
    if not flat:
        return None
    return Usage(flat.get(b"prompt_tokens"), flat.get(b"cached_tokens"), flat.get(b"completion_tokens"))


def _counts(answer: Answer) -> Usage | None:
    told = answer.usage
    if told is None and answer.response is not None:
        told = answer.response.usage
    if told is None and answer.message is not None:
        told = answer.message.usage
    for one in (told, answer.meta_info, answer.timings, answer.details):
        if one is not None and (said := _said(one)) is not None:
            return said
    return None


def _said(told: Told) -> Usage | None:
    prompt, cached, completion = told.prompt_tokens, told.cached_tokens, told.completion_tokens
    if (
        prompt is not None
        and completion is not None
        and told.prompt_tokens_details is None
        and cached is None
    ):
        details = told.input_tokens_details
        return Usage(
            _whole(prompt), None if details is None else _whole(details.cached_tokens), _whole(completion)
        )
    details = told.prompt_tokens_details or told.input_tokens_details
    if cached is None and details is not None:
        cached = details.cached_tokens
    if prompt is None and told.input_tokens is not None:
        prompt = told.input_tokens
        if told.cache_read_input_tokens is not None:  # Anthropic's input_tokens are those not cached
            cached = told.cache_read_input_tokens
            prompt += cached + (told.cache_creation_input_tokens or 0)
    if prompt is None and told.prompt_n is not None:
        cached = told.cache_n
        prompt = told.prompt_n + (cached or 0)
    if completion is None:
        completion = _first(told.output_tokens, told.predicted_n, told.generated_tokens)
    if prompt is None and completion is None:
        return None
    return Usage(_whole(prompt), _whole(cached), _whole(completion))


def _first(*counts: Count) -> Count:
    return next((one for one in counts if one is not None), None)


def _whole(tokens: Count) -> int | None:
    if isinstance(tokens, int):  # as all engines write it
        return tokens if 0 <= tokens < 1 << 40 else None
    return int(tokens) if tokens is not None and 0 <= tokens < 1 << 40 else None


def _sum(parts: list[Usage | None]) -> Usage | None:
    told = [one for one in parts if one is not None]
    if not told:
        return None
    return Usage(
        _total(one.prompt_tokens for one in told),
        _total(one.cached_tokens for one in told),
        _total(one.completion_tokens for one in told),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if known else None
