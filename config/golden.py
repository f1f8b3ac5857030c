"""What the operator may write of golden requests: those whose right answers are known."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from config.strict import Count, Strict
from config.words import command as startable
from config.words import words


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, (str, Path)) else value


class Golden(Strict):
    """Requests put among the copies, to all arms alike; their answers are marked right or wrong."""

    every: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        default=50, description="One after so many copies, once the trial has begun; each only once."
    )
    shipped: bool = Field(
        default=True, description="Whether the 200 that come with Shadowlane are asked; 28 ask for programs."
    )
    files: Annotated[tuple[Path, ...], BeforeValidator(_listed)] = Field(
        default=(), description="Files of more: our own format, GSM8K's or HumanEval's, plain or gzipped."
    )
    requests: Annotated[Count, Field(ge=1, le=100_000)] = Field(
        default=500, description="At most so many of them, from the first on."
    )
    max_tokens: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        default=512, description="How long an answer may be where a request does not say."
    )
    run_code: bool = Field(
        default=False,
        description="Whether programs in answers are run against their tests, in a process that may only"
        " compute (Linux's seccomp). Without it requests for programs are left out.",
    )
    command: Annotated[tuple[str, ...], BeforeValidator(words), AfterValidator(startable)] = Field(
        default=(),
        description="A command that marks the answers of the files' requests in place of what they say: the"
        " answer on its standard input, the request's line as last argument; exit status 0 right, 1 wrong.",
    )
