"""How many tokens do two answers share before they part?"""

from rapidfuzz.distance import Prefix

from analysis.metrics._metric import average, matched, spoken
from analysis.transcript import Choice, Content


def compared_tokens(control: Content, candidate: Content) -> float | None:
    """How many tokens could have been the first to differ, a choice: up to that one, or all of them.

    By token ids where both tell them; else by characters, at the control's characters a token. None where
    tokens were not counted.
    """
    return average([n for pair in matched(control, candidate) if (n := _compared(*pair)) is not None])


def _compared(ours: Choice, theirs: Choice) -> float | None:
    said, other = spoken(ours), spoken(theirs)
    if said == other:
        return float(ours.tokens) if ours.tokens else None
    if ours.token_ids and theirs.token_ids:
        return min(
            float(Prefix.similarity(ours.token_ids, theirs.token_ids)) + 1.0, float(len(ours.token_ids) + 1)
        )
    if not ours.tokens or not said:
        return None
    return ours.tokens * Prefix.similarity(said, other) / len(said) + 1.0
