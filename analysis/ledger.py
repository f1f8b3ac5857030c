"""Do an experiment's books still close when the shadow process, or this one, was restarted in between?"""

from collections.abc import Mapping
from typing import Any


class Ledger:
    """Cumulative books over the restarts of who sends them, plus what was lost on this side.

    The shadow counts from its own start. When its counts fall it has been restarted: what it had admitted and
    not yet booked died with it and is dropped as `shadow_restarted`. A pair the shadow booked as paired and
    that was then lost here moves from paired to dropped, so that admitted = paired + dropped(reason) + in
    flight always holds.
    """

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        self._sender: dict[str, int] = {}
        self._here: dict[str, int] = {}

    def lost_here(self, reason: str) -> None:
        """Count a pair that arrived (or should have) and could not be used."""
        self._here[reason] = self._here.get(reason, 0) + 1

    def take(self, admitted: int, paired: int, dropped: Mapping[str, int]) -> None:
        """Take the sender's cumulative counts."""
        now = {"admitted": admitted, "paired": paired, **{f"dropped:{k}": n for k, n in dropped.items()}}
        if any(now.get(name, 0) < n for name, n in self._sender.items()):
            past = self._sender
            open_copies = 2 * past["admitted"] - sum(past.values())
            for name, n in past.items():
                self._before[name] = self._before.get(name, 0) + n
            if open_copies > 0:
                lost = "dropped:shadow_restarted"
                self._before[lost] = self._before.get(lost, 0) + open_copies
        self._sender = now

    def books(self) -> dict[str, Any]:
        """`admitted`, `paired` and `dropped` over everything so far."""
        total = dict(self._before)
        for name, n in self._sender.items():
            total[name] = total.get(name, 0) + n
        dropped = {
            name.removeprefix("dropped:"): n for name, n in total.items() if name.startswith("dropped:")
        }
        paired = total.get("paired", 0)
        for reason, n in sorted(self._here.items()):
            moved = min(n, paired)  # the shadow's books may come after the pair they are about
            dropped[reason] = dropped.get(reason, 0) + moved
            paired -= moved
        return {
            "admitted": total.get("admitted", 0),
            "paired": paired,
            "dropped": {reason: dropped[reason] for reason in sorted(dropped) if dropped[reason]},
        }

    def to_map(self) -> dict[str, Any]:
        """Everything needed to go on after a restart of this process."""
        return {"before": self._before, "sender": self._sender, "here": self._here}

    @classmethod
    def from_map(cls, values: Mapping[str, Any]) -> "Ledger":
        """The inverse of `to_map`."""
        ledger = cls()
        ledger._before = {str(name): int(n) for name, n in values["before"].items()}
        ledger._sender = {str(name): int(n) for name, n in values["sender"].items()}
        ledger._here = {str(name): int(n) for name, n in values["here"].items()}
        return ledger
