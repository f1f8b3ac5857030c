"""What the operator may write about an experiment's brakes: when it pauses itself, and for how long."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from config.strict import Bytes, Count, Milliseconds, Seconds, Strict, number

Share = Annotated[float, BeforeValidator(number), Field(gt=0, le=1, allow_inf_nan=False)]


class Brakes(Strict):
    """When an experiment pauses itself. It goes on by itself once the cause was not seen for hold_s."""

    window_s: Seconds = Field(default=30.0, description="Shares are of the last so many seconds.")
    least: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        default=20, description="Fewer requests in a worker, or answers of an arm, say nothing."
    )
    error_share: Share = Field(
        default=0.1, description="It pauses when more of production's requests fail; 1: never."
    )
    slowdown: Annotated[float, BeforeValidator(number), Field(gt=1, le=1000, allow_inf_nan=False)] | None = (
        Field(
            default=3.0,
            description="It pauses when the 90th percentile of production's TTFT is so many times what it was"
            " over the last ten minutes or so; null: never.",
        )
    )
    ttft_ms: Milliseconds | None = Field(
        default=None, description="It pauses when that percentile is above this; left out: never."
    )
    lane_share: Share = Field(
        default=0.8,
        description="It pauses when a worker's lane is filled more than this, or had no room for a copy, in"
        " three seconds in a row; 1: never.",
    )
    memory_bytes: Bytes | None = Field(
        default=None, description="It pauses when a worker or the shadow process holds more; left out: never."
    )
    memory_free: Annotated[float, BeforeValidator(number), Field(ge=0, lt=1, allow_inf_nan=False)] = Field(
        default=0.05,
        description="It pauses when less of the machine's or container's memory is available; 0: never.",
    )
    arm_error_share: Share = Field(
        default=0.5,
        description="It pauses when more of one arm's answers are errors, cut or missing; 1: never.",
    )
    hold_s: Seconds = Field(
        default=60.0,
        description="It goes on when the cause was not seen for so long, twice as long after each pause that"
        " follows soon.",
    )
    most_hold_s: Seconds = Field(default=3600.0, description="But no longer than this.")
