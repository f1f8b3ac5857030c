"""In which word is a verdict said, and why is there none, or no figure?  One place for all who show it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.hidden import told
from analysis.modes import units_of

Json = Mapping[str, Any]
WITHHELD = "WITHHELD"
CALIBRATING = "the calibration is not over"
LATENCIES = (("ttft", "TTFT"), ("visible", "VISIBLE"), ("itl", "ITL"), ("tpot", "TPOT"), ("e2e", "E2E"))
_FEWEST = 2  # units that an interval takes


def word(label: str, withheld: str | None) -> str:
    """What is said of a latency: no label stands where a check withholds it."""
    return label if withheld is None else WITHHELD


def no_interval(units: int | None, mode: str) -> str | None:
    """Why a latency has no interval after so many units; None: it has one.  `units` None: in the calibration.

    A unit is one in which both arms have a value of it.
    """
    if units is None:
        return CALIBRATING
    if units >= _FEWEST:
        return None
    streamed = "" if units else "; what is not streamed has E2E alone"
    return f"{units} {units_of(mode)} in which both arms have one, {_FEWEST} needed{streamed}"


def no_score(units: int | None, mode: str) -> str | None:
    """Why there is no mean of a score of answers; None: there is one.  `units` as for `no_interval`."""
    if units is None:
        return CALIBRATING
    if units >= _FEWEST:
        return None
    return f"{units} {units_of(mode)} in which answers have anything of the kind to compare, {_FEWEST} needed"


def unsaid_lines(ranking: Json) -> list[str]:
    """Each reason for which something is not said, once, with all that it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for candidate in ranking.get("candidates", ()):
        for what, why, of in _unsaid(candidate):
            found.setdefault((what, why), []).append(of)
    return [f"{what}: {', '.join(who)}: {why}" for (what, why), who in found.items()]


def _unsaid(candidate: Json) -> Iterator[tuple[str, str, str]]:
    """What is not said of a candidate, why, and of which of its figures."""
    name, outputs = candidate["name"], candidate.get("outputs") or {}
    verdicts: Json = candidate.get("verdicts") or {}
    shown = [(key, spelt) for key, spelt in told([candidate], LATENCIES) if verdicts.get(key)]
    for what, field in (("withheld", "withheld"), ("no interval", "why")):
        by_why: dict[str, list[str]] = {}
        for key, spelt in shown:
            if why := verdicts[key].get(field):
                by_why.setdefault(why, []).append(spelt)
        for why, spelt_all in by_why.items():
            yield what, why, _of(name, spelt_all, len(shown))
    if outputs.get("lacking"):
        yield "outputs undecided", outputs["lacking"], name


def _of(name: str, latencies: Sequence[str], shown: int) -> str:
    return f"all of {name}" if len(latencies) == shown else f"{name} {', '.join(latencies)}"
