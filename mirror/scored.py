"""How is an engine asked how likely it finds tokens that another one said, and which way does it know?

vLLM tells it of prompts: `prompt_logprobs` on /v1/completions, of all rows from the prompt's second on.
SGLang: `return_logprob` on /generate, from `logprob_start_len` on.  Neither is assumed: each is tried.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec

from analysis.scores import scores_of

Way = Literal["completions", "generate"]
WAYS: tuple[Way, ...] = get_args(Way)
PATHS: dict[Way, str] = {"completions": "/v1/completions", "generate": "/generate"}
TOPS = (20, 5)  # alternatives that are asked for: engines may allow fewer

MOST_TOKENS = 512  # of one answer; 2,000 tokens in all tell a divergence to a tenth
_PROMPT, _PROBED = [1, 2, 3], [11, 12, 13, 14]


def body(
    way: Way, model: str | None, prompt: Sequence[int], tokens: Sequence[int], top: int, salt: str | None
) -> bytes:
    """The request that makes an engine score `tokens` after `prompt`, with `top` alternatives to each."""
    if way == "completions":
        asked: dict[str, Any] = {
            "prompt": [*prompt, *tokens],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": top,
        }
        if model is not None:
            asked["model"] = model
        if salt is not None:
            asked["cache_salt"] = salt
        return msgspec.json.encode(asked)
    asked = {
        "input_ids": [*prompt, *tokens],
        "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        "return_logprob": True,
        "logprob_start_len": len(prompt) - 1,
        "top_logprobs_num": top,
    }
    return msgspec.json.encode(asked)


def probe(way: Way, model: str | None, top: int) -> bytes:
    """A small request that tells whether an engine knows a way."""
    return body(way, model, _PROMPT, _PROBED, top, None)


def can(status: int, answer: bytes) -> bool:
    """What the probe's answer says: every token has a score, and alternatives."""
    found = scores_of(answer, _PROBED) if status == 200 else None
    return found is not None and all(len(one.top) > 1 for one in found)


def fitting(ways: Sequence[Way], prompt: Sequence[int], tokens: Sequence[int], rows: int) -> list[int]:
    """The first of the tokens, as many as need no more than `rows` rows of logits of any engine; or none."""
    room = rows - (len(prompt) if "completions" in ways else 0)
    return list(tokens[: max(0, min(room, MOST_TOKENS))])
