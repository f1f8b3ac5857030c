"""How does the report tell what arms cost and what limits them?  As text and as HTML."""

from collections.abc import Mapping
from typing import Any

from analysis.cost.page import cost_html
from analysis.cost.rows import text as cost_text
from analysis.why.page import why_html
from analysis.why.rows import text as why_text

Json = Mapping[str, Any]


def running_lines(ranking: Json) -> list[str]:
    """Nothing before the first judged windows: until then no figure is known of any arm."""
    if not _is_judged(ranking):
        return []
    return ["", *cost_text(ranking["cost"]), "", *why_text(ranking["why"]), ""]


def running(ranking: Json) -> str:
    """The same for the report's page."""
    return f"{cost_html(ranking['cost'])}{why_html(ranking['why'])}" if _is_judged(ranking) else ""


def _is_judged(ranking: Json) -> bool:
    cost: Json = ranking.get("cost") or {"arms": {}}
    return any(arm["curve"] for arm in cost["arms"].values())
