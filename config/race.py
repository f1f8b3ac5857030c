"""What the operator may write of when candidates leave an experiment before its end."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from config.strict import Count, Strict, expected


def _no_rung_too_early(value: int) -> int:
    if 0 < value < 15:
        raise expected("0, or at least 15, the windows below which nothing is said of a candidate")
    return value


class Race(Strict):
    """When candidates get no more copies, so that hardware and slots go to the others; the control stays."""

    beaten: bool = Field(
        default=True,
        description="A candidate leaves once another is better than it by more than the margin for sure.",
    )
    first_rung: Annotated[Count, Field(ge=0, le=100_000), AfterValidator(_no_rung_too_early)] = Field(
        default=0,
        description="After so many windows (blocks, where arms take turns) only the better half of the"
        " candidates stays, after 3 times as many the better quarter, after 7 times an eighth, until one is"
        " left; 0: never. A choice by what was seen so far, no proof.",
    )
    metric: Literal["ttft", "visible", "itl", "tpot", "e2e"] | None = Field(
        default=None, description="The latency that counts; left out, tpot, or e2e where nothing streams."
    )
    accept_outputs: bool = Field(
        default=False,
        description="Whether one that answers otherwise may take out one that answers as the control does,"
        " and is placed by its speed alone.",
    )
