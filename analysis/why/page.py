"""How does a diagnosis look on a page?"""

from html import escape

from analysis.report_table import table
from analysis.why.rows import HEADS, Json, lines, rows, silent, tested


def why_html(why: Json) -> str:
    """What limits each arm with its evidence, what is not ruled out, and what to try."""
    if nothing := silent(why):
        return "<h2>Why</h2>" + "".join(
            f"<p class=text>What limits arms is {escape(one)}.</p>" for one in nothing
        )
    cells = [[escape(one) for one in row] for row in rows(why)]
    said = "".join(f"<li>{escape(line)}</li>" for line in lines(why))
    more = f"<ul>{said}</ul>" if said else ""
    return (
        f"<h2>Why</h2><p class=note>What limits each arm, {escape(tested(why))}.</p>"
        f"{table(HEADS, cells, 'Why')}{more}"
    )
