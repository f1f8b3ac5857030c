"""What is a checker?  The protocol that every way to check an answer keeps to."""

from typing import Protocol


class Checker(Protocol):
    """Tells whether a text is the right answer. It may take its time, but not for ever."""

    def passes(self, text: str) -> bool | None:
        """Whether it is; None where that cannot be told here, which counts for neither arm."""
        ...
