"""Which label was said first of each candidate and latency?  Once said it stays, so it must be known when."""

from collections.abc import Sequence

from analysis.measure import LATENCIES, Latency
from analysis.stats.windows import Windows
from analysis.verdict import Label, interval, judge

_LOOKS = 256  # once so many windows are there, the next look is when as large a share of them is there anew


class Labels:
    """The first decisions of one trial."""

    def __init__(self, candidates: Sequence[str], alpha: float, margin: float) -> None:
        self._candidates = candidates
        self._alpha = alpha
        self._margin = margin
        self._decided: dict[tuple[str, Latency], Label] = {}
        self._next_look = 0

    def of(self, candidate: str, latency: Latency) -> Label | None:
        """The first label that was no UNDECIDED; None while there is none."""
        return self._decided.get((candidate, latency))

    def closed(self, windows: Windows) -> None:
        """Looks after each window, and where there are many once a few in a thousand more are there: a look
        costs the more the more there are."""
        if windows.closed >= self._next_look:
            self.look(windows)

    def look(self, windows: Windows) -> None:
        """Notes the first decision on each latency, at the windows closed now."""
        self._next_look = windows.closed + max(1, windows.closed // _LOOKS)
        for name in self._candidates:
            for latency in LATENCIES:
                if (name, latency) not in self._decided:
                    found = interval(windows.means(f"{latency} {name}"), self._alpha)
                    label = judge(found, self._margin)
                    if label != "UNDECIDED":
                        self._decided[name, latency] = label
