"""How is a command written?  As a text that is split as a shell splits it, or as a list of words."""

import shlex

from config.strict import expected


def words(value: object) -> object:
    """A text's words; a list stays as it is.  Quotes must be closed."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError:
        raise expected("a command whose quotes are closed") from None


def command(value: tuple[str, ...]) -> tuple[str, ...]:
    """Words that a process can be started with, or none."""
    if any("\0" in word for word in value):
        raise expected("a command without a NUL character")
    return value
