"""How likely does an engine find tokens that it is given?  Read from vLLM's answers and from SGLang's.

vLLM: `choices[0].prompt_logprobs`, a map for each token of the prompt, by id.  SGLang: under `meta_info`
`input_token_logprobs`, [logprob, id, text] each, and `input_top_logprobs`, a list of such in each place.
"""

from collections.abc import Sequence

import msgspec

from analysis.transcript import TokenLogprob

_LEAST, _MOST = -1e6, 1e-3  # beyond these it is no logprob: engines round, and write -9999 for never

_Told = tuple[float | None, int, str | None]


class _Row(msgspec.Struct):
    logprob: float


class _Choice(msgspec.Struct):
    prompt_logprobs: list[dict[str, _Row] | None] | None = None


class _Meta(msgspec.Struct):
    input_token_logprobs: list[_Told] | None = None
    input_top_logprobs: list[list[_Told] | None] | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []
    meta_info: _Meta | None = None


_answer = msgspec.json.Decoder(_Answer)


def scores_of(answer: bytes, tokens: Sequence[int]) -> tuple[TokenLogprob, ...] | None:
    """The logprobs of `tokens`, the last of what the engine was given, and the likeliest in their places.

    A token's name is its id.  None where the answer does not say all of them: a score that is left out
    would be of the unlikeliest, or of other tokens.  None, too, where one is no logarithm of a probability.
    """
    try:
        said = _answer.decode(answer)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if len(said.choices) == 1 and said.choices[0].prompt_logprobs is not None:
        found = _by_id(said.choices[0].prompt_logprobs, tokens)
    elif said.meta_info is not None and said.meta_info.input_token_logprobs is not None:
        found = _by_place(said.meta_info, tokens)
    else:
        return None
    if len(found) != len(tokens) or not all(map(_are_logprobs, found)):
        return None
    return tuple(found)


def _are_logprobs(told: TokenLogprob) -> bool:
    return all(_LEAST <= value <= _MOST for value in (told.logprob, *(value for _, value in told.top)))


def _by_id(rows: Sequence[dict[str, _Row] | None], tokens: Sequence[int]) -> list[TokenLogprob]:
    found = []
    for token, row in zip(tokens, rows[len(rows) - len(tokens) :], strict=False):
        if row is None or (own := row.get(str(token))) is None:
            return []
        top = tuple((name, one.logprob) for name, one in row.items())
        found.append(TokenLogprob(str(token), own.logprob, top))
    return found


def _by_place(meta: _Meta, tokens: Sequence[int]) -> list[TokenLogprob]:
    told = meta.input_token_logprobs or []
    tops = meta.input_top_logprobs or [None] * len(told)
    if len(tops) != len(told):
        return []
    found = []
    places = list(zip(told, tops, strict=True))
    for token, ((logprob, id, _), top) in zip(tokens, places[len(places) - len(tokens) :], strict=False):
        if id != token or logprob is None:
            return []
        named = {str(other): value for value, other, _ in top or () if value is not None}
        found.append(TokenLogprob(str(token), logprob, tuple((named | {str(token): logprob}).items())))
    return found
