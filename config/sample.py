"""Which traffic does an experiment copy?"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from config.health import Part
from config.strict import Strict, expected


def _share(value: object) -> object:
    if value == "auto":
        return value
    try:
        share = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else 0.0
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 8.0:
        raise expected("auto, a share above 0, or how many times each conversation is sent, at most 8")
    return share


Share = Annotated[float | Literal["auto"], BeforeValidator(_share)]


class Sample(Strict):
    """Which part of a fleet's traffic an experiment copies."""

    rate: Share = Field(
        default="auto",
        description="The share of conversations; auto loads an arm as one production engine is. Above 1"
        " each is sent more than once (2.5: half of them twice, half three times), to all arms alike.",
    )
    by: Literal["conversation", "session"] = Field(
        default="conversation",
        description="Conversations are copied whole or not at all; with session, all of a session whose name"
        " clients send (session_headers, prompt_cache_key, session_id).",
    )
    production_answers: Part = Field(
        default=0.25,
        description="The share of the copied conversations of which production's own answers are kept, too,"
        " to be shown beside the arms'. No verdict needs them, and each token of one costs production CPU.",
    )
