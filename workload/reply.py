"""What came back for one request, and how fast?  Read out of a stream's bytes once it has ended.

TTFT: the first content, reasoning or tool call after the request was sent.  ITL: the gaps between reads that
brought tokens.  TPOT: (last - first token) / (tokens - 1).  E2E: to the last token, or to the last byte of an
answer in one piece.  A missing measure is None.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from analysis.readers._choose import reader_of
from workload.asks import CHAT
from workload.kinds import kind_of
from workload.refusal import words_of

Reads = Sequence[tuple[float, bytes]]  # seconds, bytes


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw()


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw = msgspec.Raw()


_event = msgspec.json.Decoder(_Event)


@dataclass(frozen=True, slots=True)
class Reply:
    """One request's end.  Instants are seconds on the sender's clock; `failure`: None when it ended well.

    `in_tokens`: tokens are what was asked for, not an embedding, a score or the like.  `words` are the
    server's own where its status is an error.
    """

    scheduled_s: float
    sent_s: float
    ended_s: float
    status: int | None
    failure: str | None
    text: str = ""
    token_s: tuple[float, ...] = ()
    last_s: float | None = None
    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    in_tokens: bool = True
    words: str | None = None

    @property
    def lag_s(self) -> float:
        """How much later than scheduled it was sent."""
        return max(0.0, self.sent_s - self.scheduled_s)

    @property
    def ttft_s(self) -> float | None:
        return self.token_s[0] - self.sent_s if self.token_s else None

    @property
    def e2e_s(self) -> float | None:
        return self.last_s - self.sent_s if self.last_s is not None else None

    @property
    def gaps_s(self) -> list[float]:
        return [later - sooner for sooner, later in zip(self.token_s, self.token_s[1:], strict=False)]

    @property
    def tpot_s(self) -> float | None:
        if len(self.token_s) < 2 or self.tokens is None or self.tokens < 2:
            return None
        return (self.token_s[-1] - self.token_s[0]) / (self.tokens - 1)


@dataclass(frozen=True, slots=True)
class _Read:
    """What the bytes of an answer say; `done`: they come to an end that the engine meant."""

    text: str = ""
    token_s: tuple[float, ...] = ()
    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    done: bool = True
    failure: str | None = None


def reply(
    reads: Reads,
    *,
    path: str = CHAT,
    scheduled_s: float,
    sent_s: float,
    ended_s: float,
    status: int | None,
    failure: str | None,
    streamed: bool,
) -> Reply:
    """What the bytes of an answer from `path` say.  Nothing in them raises: it is a failure."""
    kind = kind_of(path)
    is_ours = kind is not None and (kind.usage or kind.most is None)
    read = _read(reads, streamed, ended_s) if is_ours else _read_by(path, reads, ended_s)
    failure = failure or (read.failure if status == 200 else None)
    if failure is None and status != 200:
        failure = f"status {status}"
    if failure is None and not read.done:
        failure = "cut"
    last_s = read.token_s[-1] if read.token_s else None
    is_refused = status is not None and status >= 400
    return Reply(
        scheduled_s=scheduled_s,
        sent_s=sent_s,
        ended_s=ended_s,
        status=status,
        failure=failure,
        text=read.text,
        token_s=read.token_s if streamed else (),
        last_s=last_s if streamed or failure is not None else ended_s,
        tokens=read.tokens,
        prompt_tokens=read.prompt_tokens,
        cached_tokens=read.cached_tokens,
        in_tokens=kind is not None and kind.most is not None,
        words=words_of(b"".join(piece for _, piece in reads)) if is_refused else None,
    )


def _read(reads: Reads, streamed: bool, ended_s: float) -> _Read:
    """OpenAI's chunks, or its answers in one piece; read here, for there are many of them in a replay."""
    text: list[str] = []
    arrivals: list[float] = []
    usage: _Usage | None = None
    failure: str | None = None
    done = not streamed
    try:
        for at_s, line in _events(reads) if streamed else [(ended_s, b"".join(piece for _, piece in reads))]:
            if line == b"[DONE]":
                done = True
                continue
            event = _event.decode(line)
            usage = event.usage or usage
            if bytes(event.error) not in (b"", b"null"):
                failure = failure or "error event"
            said = [_said(choice) for choice in event.choices]
            if any(one is not None for one in said):
                text += [one for one in said if one]
                if not arrivals or at_s > arrivals[-1]:
                    arrivals.append(at_s)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        failure = failure or "unreadable"
    details = usage.prompt_tokens_details if usage is not None else None
    return _Read(
        text="".join(text),
        token_s=tuple(arrivals),
        tokens=usage.completion_tokens if usage is not None else None,
        prompt_tokens=usage.prompt_tokens if usage is not None else None,
        cached_tokens=details.cached_tokens if details is not None else None,
        done=done,
        failure=failure,
    )


def _read_by(path: str, reads: Reads, ended_s: float) -> _Read:
    """Anthropic's messages, responses, and what has a shape of its own, as arms' answers are read."""
    reader = reader_of(path)
    for at_s, piece in reads:
        reader.feed(piece, round(at_s * 1e9))
    found = reader.end(round(ended_s * 1e9))
    return _Read(
        text="".join(choice.reasoning + choice.text for choice in found.choices),
        token_s=tuple(sorted({event.at_ns / 1e9 for event in found.token_events})),
        tokens=found.completion_tokens if found.token_source == "usage" else None,
        prompt_tokens=found.prompt_tokens,
        cached_tokens=found.cached_tokens,
        done=found.finished,
        failure=None if found.error is None else "error event",
    )


def _said(choice: _Choice) -> str | None:
    """The text of one choice of an event; "" for a tool call, None where it says nothing."""
    said = choice.delta or choice.message
    if said is None:
        return choice.text or None
    whole = (said.reasoning_content or said.reasoning or "") + (said.content or "")
    if whole:
        return whole
    return "" if said.tool_calls and bytes(said.tool_calls) not in (b"null", b"[]") else None


def _events(reads: Reads) -> list[tuple[float, bytes]]:
    """The data of a stream's events, each with the instant of the read that completed it."""
    found: list[tuple[float, bytes]] = []
    rest = b""
    for at_s, piece in reads:
        *lines, rest = (rest + piece).split(b"\n")
        found += [(at_s, line[5:].strip()) for line in lines if line.startswith(b"data:")]
    if rest.startswith(b"data:") and reads:
        found.append((reads[-1][0], rest[5:].strip()))
    return found
