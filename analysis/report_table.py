"""How does the report write a number and a table?"""

from collections.abc import Iterable, Sequence
from html import escape


def number(value: float | None, digits: int = 3) -> str:
    """With so many digits; – when unknown."""
    return "–" if value is None else f"{value:.{digits}f}"


def table(heads: Iterable[str], rows: Iterable[Sequence[str]], label: str, right_from: int = 99) -> str:
    """Cells are HTML already; the first of each row is its header."""

    def kind(at: int) -> str:
        return " class=r" if at >= right_from else ""

    head = "".join(f"<th scope=col{kind(at)}>{cell}</th>" for at, cell in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind(at)}>{cell}</td>" if at else f"<th scope=row>{cell}</th>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class=scroll><table aria-label="{escape(label)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
