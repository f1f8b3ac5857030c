"""What may the operator write about recording traffic?"""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from config.strict import Bytes, Count, Strict, expected, number
from config.words import command, words

_YEAR_S = 366 * 86_400


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise expected(f"a regular expression ({error})") from None
    return value


Pattern = Annotated[str, AfterValidator(_pattern)]
RedactCommand = Annotated[tuple[str, ...], BeforeValidator(words), AfterValidator(command)]
Long = Annotated[float, BeforeValidator(number), Field(gt=0, le=_YEAR_S, allow_inf_nan=False)]


class Record(Strict):
    """Traffic written to files, by a process that production never waits for: docs/recording.md."""

    to: Path | None = Field(default=None, description="The folder; left out, nothing is recorded.")
    rate: Annotated[float, BeforeValidator(number), Field(gt=0, le=1)] = Field(
        default=1.0, description="The share of conversations, each from its first turn to its last."
    )
    text: bool = Field(
        default=False,
        description="Also write requests and answers; else there are hashes, lengths and instants only.",
    )
    text_keep_s: Long = Field(
        default=30 * 86_400.0,
        description="How long after a file's last line its text is kept; the figures stay.",
    )
    redact: tuple[Pattern, ...] = Field(
        default=(), description="Regular expressions; what they match in text is replaced by [redacted]."
    )
    redact_command: RedactCommand = Field(
        default=(),
        description="A command that gets each text after that, as a line of JSON, and answers with a line of"
        " what may be written; no shell reads it.",
    )
    block_tokens: Annotated[Count, Field(ge=1, le=65_536)] = Field(
        default=64, description="Tokens that one of hash_ids stands for; other tools expect 512 unless told."
    )
    compress: Literal["zstd", "gzip", "none"] = Field(default="zstd", description="How files are packed.")
    file_bytes: Bytes = Field(default=64 << 20, description="A new file is begun at this size.")
    file_s: Long = Field(default=3600.0, description="Or at this age.")
    keep_bytes: Bytes = Field(default=10 << 30, description="What older files may take; the oldest go first.")
    keep_s: Long | None = Field(
        default=None, description="How long a file is kept after its last line; left out: for ever."
    )
