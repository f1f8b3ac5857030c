"""What every part of the schema is made of: numbers with units, words, and models without unread keys."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


def expected(text: str) -> PydanticCustomError:
    """The error of a validator of ours: it says what was expected; the loader adds what was found."""
    return PydanticCustomError("expected", "{expected}", {"expected": text})


def number(value: object) -> object:
    if isinstance(value, bool):
        raise expected("a number")
    return value


def words(value: str, what: str) -> str:
    if not value or value != value.strip() or not value.isprintable():
        raise expected(f"{what}, printable and without blanks around it")
    return value


Count = Annotated[int, BeforeValidator(number)]
Seconds = Annotated[float, BeforeValidator(number), Field(gt=0, le=86_400, allow_inf_nan=False)]
Milliseconds = Annotated[float, BeforeValidator(number), Field(gt=0, le=3_600_000, allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(number), Field(ge=1024, le=1 << 40)]
Fraction = Annotated[float, BeforeValidator(number), Field(gt=0, lt=1, allow_inf_nan=False)]


class Strict(BaseModel):
    """Frozen, and no key that nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)
