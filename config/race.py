"""What the operator may write of when candidates leave an experiment before its end."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.strict import Count, Strict, expected, number


def _no_rung_too_early(value: int) -> int:
    if 0 < value < 15:
        raise expected("0, or at least 15, the windows below which nothing is said of a candidate")
    return value


Weight = Annotated[float, BeforeValidator(number), Field(ge=0, le=1000, allow_inf_nan=False)]


class RaceWeights(Strict):
    """How much each latency counts where candidates are held against each other; `rank` goes by it, too."""

    ttft: Weight = Field(default=0.0, description="The time to the first token.")
    visible: Weight = Field(default=0.0, description="The time to the first token that is no reasoning.")
    itl: Weight = Field(default=0.0, description="The time between events.")
    tpot: Weight = Field(default=0.0, description="The time per token after the first.")
    e2e: Weight = Field(default=0.0, description="The time to the last byte.")

    @model_validator(mode="after")
    def _something_counts(self) -> "RaceWeights":
        if not any(self.model_dump().values()):
            raise expected("a weight above 0, as in {ttft: 1, tpot: 2}")
        return self


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
    weights: RaceWeights | None = Field(
        default=None,
        description="How much each latency counts; left out, ttft and tpot alike, or e2e where nothing"
        " streams.",
    )
    accept_outputs: bool = Field(
        default=False,
        description="Whether one that answers otherwise may take out one that answers as the control does,"
        " and is placed by its speed alone.",
    )
