"""Which tokens did the control say, and how is an engine made to decode the same?

vLLM does where it runs with --enable-trace-replay and --enable-scale-out: token ids in, and those to decode
among the sampling parameters.  Whether an engine can is asked (`probe`), and whether it did is looked at,
answer by answer (`is_forced`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

PATH = "/inference/v1/generate"
_PROBED = [11, 12, 11, 13]  # nobody says this by chance

_Id = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]  # a larger one is no token's, and may not fit a frame


class _Choice(msgspec.Struct):
    index: int = 0
    token_ids: list[_Id] | None = None
    prompt_token_ids: list[_Id] | None = None
    response_token_ids: list[_Id] | None = None  # SGLang's word in chat answers


class _Said(msgspec.Struct):
    choices: list[_Choice] = []
    prompt_token_ids: list[_Id] | None = None


_said = msgspec.json.Decoder(_Said)


def tokens_of(answer: Mapping[str, Any]) -> tuple[list[int], list[int]] | None:
    """The ids of a prompt and of its one answer; None where the engine does not say both."""
    prompt: list[int] | None = None
    tokens: list[int] = []
    try:
        for said in _objects(answer["reads"], str(answer["content_type"])):
            prompt = prompt or said.prompt_token_ids
            for choice in said.choices:
                if choice.index:
                    return None
                prompt = prompt or choice.prompt_token_ids
                tokens += choice.token_ids or choice.response_token_ids or ()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return (prompt, tokens) if prompt and tokens else None


def is_forced(answer: Mapping[str, Any], tokens: Sequence[int]) -> bool:
    """Whether an engine decoded exactly these."""
    said: list[int] = []
    try:
        for part in _objects(answer["reads"], str(answer["content_type"])):
            for choice in part.choices:
                said += choice.token_ids or ()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return said == list(tokens)


def body(
    model: str | None, prompt: Sequence[int], tokens: Sequence[int], salt: str | None, logprobs: int = 0
) -> bytes:
    """The request that makes an engine decode `tokens` after `prompt`, with `logprobs` alternatives told."""
    asked: dict[str, Any] = {
        "token_ids": prompt,
        "sampling_params": {
            "max_tokens": len(tokens),
            "temperature": 0.0,
            "trace_decode_token_ids": tokens,
        },
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if model is not None:
        asked["model"] = model
    if salt is not None:
        asked["cache_salt"] = salt
    if logprobs:
        asked["sampling_params"]["logprobs"] = logprobs
    return msgspec.json.encode(asked)


def probe(model: str | None) -> bytes:
    """A small request that tells whether an engine can."""
    asked: dict[str, Any] = msgspec.json.decode(body(model, [1, 2, 3], _PROBED, None))
    del asked["stream"], asked["stream_options"]
    return msgspec.json.encode(asked)


def can(status: int, answer: bytes) -> bool:
    """What the probe's answer says."""
    if status != 200:
        return False
    return is_forced({"reads": [(0, answer)], "content_type": "application/json"}, _PROBED)


def _objects(reads: Iterable[tuple[int, bytes]], content_type: str) -> Iterable[_Said]:
    whole = b"".join(piece for _at_ns, piece in reads)
    if not content_type.startswith("text/event-stream"):
        yield _said.decode(whole)
        return
    for line in whole.splitlines():
        if line.startswith(b"data:") and (data := line[5:].strip()) and data != b"[DONE]":
            yield _said.decode(data)
