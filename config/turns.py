"""What the operator may write of arms that take turns on one spare engine."""

import shlex
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from config.strict import Seconds, Strict, expected


def _words(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError:
        raise expected("a command whose quotes are closed") from None


def _command(value: tuple[str, ...]) -> tuple[str, ...]:
    if any("\0" in word for word in value):
        raise expected("a command without a NUL character")
    return value


class Turns(Strict):
    """How arms take turns: one slot each, the control's and then a candidate's with the same requests."""

    slot_s: Seconds = Field(
        default=600.0, description="Seconds of traffic in a slot; a block is two of them."
    )
    switch: Annotated[tuple[str, ...], BeforeValidator(_words), AfterValidator(_command)] = Field(
        default=(),
        description="A command that makes an arm's engine the one that runs, with {arm} and {url} filled in;"
        " no shell reads it. Left out, each arm's engine is there when its slot begins.",
    )
    ready_s: Seconds = Field(
        default=1800.0, description="It must serve this soon, or the slot is given up and the next one tried."
    )
