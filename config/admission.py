"""What the operator may write about who may ask how much: keys, their limits, the queue, degradation."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from config.strict import Bytes, Count, Seconds, Strict, expected, number, words

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
RESERVED = frozenset({"anonymous", "none", "other"})  # what metrics call those who have no name here


def _key_name(value: str) -> str:
    if not NAME.match(value):
        raise expected("a name of at most 64 letters, digits, dots, dashes and underscores")
    if value.lower() in RESERVED:
        raise expected("a name other than anonymous, none and other")
    return value


def _hash(value: str) -> str:
    if not re.match(r"sha256:[0-9a-f]{64}\Z", value):
        raise expected(
            "sha256: and 64 hexadecimal digits, as `shadowlane key` prints it; never the key itself"
        )
    return value


Rate = Annotated[float, BeforeValidator(number), Field(ge=0.001, le=1e9, allow_inf_nan=False)]
Burst = Annotated[Count, Field(ge=1, le=1_000_000_000)]
AtATime = Annotated[Count, Field(ge=1, le=1_000_000)]
Class = Literal["high", "normal", "low"]


class Rates(Strict):
    """What may be asked at a time; what is left out is not limited.  It holds over all workers together."""

    requests_per_s: Rate | None = Field(default=None, description="Requests a second, in the long run.")
    requests_burst: Burst | None = Field(
        default=None, description="Requests at once after a pause; left out, those of one second."
    )
    prompt_tokens_per_s: Rate | None = Field(
        default=None, description="Prompt tokens a second, in the long run."
    )
    prompt_tokens_burst: Burst | None = Field(
        default=None,
        description="Prompt tokens at once after a pause, and so of one prompt at most; left out, those of a"
        " minute.",
    )
    concurrency: AtATime | None = Field(
        default=None, description="Requests at a time, those that wait for their turn included."
    )


class ClientKey(Strict):
    """One client's API key, and what it may ask."""

    name: Annotated[str, AfterValidator(_key_name)] = Field(
        description="Its name in metrics, logs and messages."
    )
    hash: Annotated[str, AfterValidator(_hash)] = Field(
        description="The key's SHA-256, as `shadowlane key` prints it."
    )
    weight: Annotated[float, BeforeValidator(number), Field(ge=0.01, le=100, allow_inf_nan=False)] = Field(
        default=1.0, description="Its share of the turns, beside those of other keys that wait."
    )
    priority: Class = Field(
        default="normal",
        description="Its class; a request may lower it, not raise it, with x-shadowlane-priority.",
    )
    limits: Rates = Field(default=Rates(), description="What it may ask at a time.")


class Admission(Strict):
    """Who may ask how much at a time, and what becomes of the rest."""

    limits: Rates = Field(default=Rates(), description="What all keys together may ask at a time.")
    anonymous: bool | None = Field(
        default=None,
        description="Whether one may ask without a key; left out, only where there are no keys.",
    )
    bytes_per_token: Annotated[float, BeforeValidator(number), Field(ge=1, le=16, allow_inf_nan=False)] = (
        Field(
            default=4.0,
            description="What a prompt is estimated by on entry; corrected when the engine tells its tokens.",
        )
    )
    queue_entries: Annotated[Count, Field(ge=0, le=1_000_000)] = Field(
        default=1024, description="Requests that may wait for a fleet's room; more are refused with 503."
    )
    queue_bytes: Bytes = Field(default=256 << 20, description="What the bodies of these may take together.")
    queue_wait_s: Seconds = Field(
        default=30.0, description="A request that waited this long is refused with 503."
    )
    trickle: Annotated[Count, Field(ge=2, le=1000)] = Field(
        default=8,
        description="Of so many turns one goes to the class that had its last turn longest ago.",
    )


ModelName = Annotated[str, AfterValidator(lambda value: words(value, "a model's name"))]


class WhenFull(Strict):
    """What becomes of requests that find no room in a fleet."""

    fallback: ModelName | None = Field(
        default=None, description="The model of a fleet that takes them while it has room."
    )
    max_tokens: Annotated[Count, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, description="Those that had to wait get at most so many output tokens."
    )
    wait: bool = Field(default=True, description="Whether they may wait; else they are refused with 503.")
