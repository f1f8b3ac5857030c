"""One recorded request as a line of JSON: the Mooncake schema, and beside it what Mooncake leaves out.

`timestamp` (ms since the recording began), `input_length`, `output_length` (tokens) and `hash_ids` are what
AIPerf, GuideLLM, Dynamo and vLLM read.  `session` and `parent` are not called `session_id`, for to those
tools a row with that name is only what a turn adds; here each row is the whole prompt.
"""

from typing import Any, Literal

import msgspec

Tokens = Literal["usage", "estimate"]


class Sampling(msgspec.Struct, frozen=True):
    """What a request asks of the sampler; None where it does not say."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class Row(msgspec.Struct, kw_only=True, frozen=True):
    """One request and how it was answered.  All fields are always written: columns keep their types.

    `hash_ids[i]` names the prompt's first `i + 1` blocks; the last may be partial.  `parent` is the `id` of
    the request whose conversation this one continues.  `input_tokens_from` says whether the engine counted
    (`usage`) or the recorder estimated.  Latencies are production's, from the request's dispatch, in ms; of
    made traffic there is `e2e_ms` alone, which is what was left for the answer before the next turn.
    `request` and `answer` are there only where text was asked for.
    """

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int] = []
    id: str | None = None
    session: str | None = None
    parent: str | None = None
    turn: int = 0
    model: str | None = None
    path: str | None = None
    task: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    sampling: Sampling | None = None
    input_tokens_from: Tokens | None = None
    output_tokens_from: Tokens | None = None
    cached_tokens: int | None = None
    status: int | None = None
    ending: str | None = None
    finish: str | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    request: dict[str, Any] | None = None
    answer: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Row)


def to_line(row: Row) -> bytes:
    """The row as one line, its end included."""
    return _encoder.encode(row) + b"\n"


def from_line(line: bytes) -> Row:
    """The inverse; fields of others are ignored.  msgspec.MsgspecError where it is no row."""
    return _decoder.decode(line)
