"""What the operator may write of arms that take turns on one spare engine, and of what is replayed there."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.strict import Count, Seconds, Strict, number
from config.words import command, words


class Turns(Strict):
    """How arms take turns: one slot each, the control's and then a candidate's with the same requests."""

    slot_s: Seconds = Field(
        default=600.0, description="Seconds of traffic in a slot; a block is two of them."
    )
    switch: Annotated[tuple[str, ...], BeforeValidator(words), AfterValidator(command)] = Field(
        default=(),
        description="A command that makes an arm's engine the one that runs, with {arm} and {url} filled in;"
        " no shell reads it. Left out, each arm's engine is there when its slot begins.",
    )
    ready_s: Seconds = Field(
        default=1800.0, description="It must serve this soon, or the slot is given up and the next one tried."
    )


def _listed(value: object) -> object:
    return (value,) if isinstance(value, (str, Path)) else value


class Replay(Strict):
    """Recorded traffic in place of live. A text stands for its file alone."""

    files: Annotated[tuple[Path, ...], BeforeValidator(_listed), Field(min_length=1)] = Field(
        description="A recording's folder, or files of traffic, as `shadowlane replay` reads them."
    )
    rounds: Annotated[Count, Field(ge=1, le=10_000)] = Field(
        default=1, description="How often each candidate gets all of it."
    )
    speed: Annotated[float, BeforeValidator(number), Field(gt=0, le=1000, allow_inf_nan=False)] = Field(
        default=1.0, description="How many times as fast as recorded."
    )
    requests: Annotated[Count, Field(ge=1)] | None = Field(
        default=None, description="Only the first so many of its requests."
    )
    seconds: Annotated[float, BeforeValidator(number), Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Only what was asked in its first so many seconds."
    )

    @model_validator(mode="before")
    @classmethod
    def _files_alone(cls, value: Any) -> Any:
        return {"files": value} if isinstance(value, (str, list, tuple, Path)) else value
