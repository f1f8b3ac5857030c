"""How does a page say each reason once?  Numbers in a table's cells, and under it what they stand for."""

from html import escape


class Notes:
    """The notes of one table, numbered as they are first asked for; `name` is the table's on its page."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: dict[str, int] = {}

    def mark(self, why: str | None) -> str:
        """The number of a reason, as HTML; nothing where there is none."""
        if not why:
            return ""
        number = self._numbers.setdefault(why, len(self._numbers) + 1)
        return f"<sup><a href='#{self._name}-{number}'>{number}</a></sup>"

    def html(self) -> str:
        """All reasons that were asked for, in order of their numbers."""
        if not self._numbers:
            return ""
        said = "".join(
            f"<li id='{self._name}-{number}'>{escape(why)}</li>" for why, number in self._numbers.items()
        )
        return f"<ol class=notes>{said}</ol>"
