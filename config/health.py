"""What the operator may write about health: how engines are probed, and when one is left out."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from config.strict import Count, Seconds, Strict, number

Part = Annotated[float, BeforeValidator(number), Field(ge=0, le=1, allow_inf_nan=False)]


class Health(Strict):
    """How engines are probed, and when one is left out for a while. A fleet is never left out as a whole."""

    probe_every_s: Seconds = Field(default=2.0, description="Each engine is probed so often, by each worker.")
    probe_timeout_s: Seconds = Field(default=5.0, description="A probe is waited for so long.")
    quiet_s: Seconds = Field(
        default=10.0,
        description="A probe without an answer counts only when the engine has no request and was not heard"
        " for this long: slow is not dead.",
    )
    failures: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=3,
        description="After so many refused connections or failed probes in a row an engine is down; its first"
        " good probe brings it back.",
    )
    error_share: Annotated[float, BeforeValidator(number), Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=0.5,
        description="An engine is left out when so large a share of its answers is 5xx, and twice that of the"
        " fleet's other engines.",
    )
    error_answers: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        default=5, description="Fewer answers than this say nothing about their share of 5xx."
    )
    error_window_s: Seconds = Field(
        default=10.0, description="Answers are judged over about this long, longer where there are few."
    )
    timeouts: Annotated[Count, Field(ge=1, le=1000)] = Field(
        default=2,
        description="An engine is left out when so many requests in a row get no first token in their time"
        " and none of its other answers goes on.",
    )
    ejection_s: Seconds = Field(
        default=5.0,
        description="It is left out for about this long, then one request tries it; each time that fails it"
        " is left out twice as long.",
    )
    ejection_max_s: Seconds = Field(default=120.0, description="And at most for this long.")
    ejected_share: Part = Field(
        default=0.5,
        description="At most this share of a fleet is left out for how it answers; one engine may always be,"
        " the last good one never. 0 leaves none out.",
    )
