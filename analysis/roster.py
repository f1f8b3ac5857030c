"""Which processes report, how fresh is each report, and is there anyone to serve traffic?"""

from collections.abc import Mapping
from typing import Any

FRESH_NS = 5_000_000_000
_FORGET_NS = 300_000_000_000
_MAX_PROCESSES = 256


class Roster:
    """The latest status of each process, with the instant it came. Instants are monotonic ns."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, Mapping[str, Any]]] = {}

    def take(self, status: Mapping[str, Any], at_ns: int) -> None:
        """Keep one status. ValueError, KeyError or TypeError when it is not one."""
        process = status["process"]
        if not isinstance(process, str) or not 0 < len(process) <= 64:
            raise ValueError("a status names its process")
        for engine in status.get("engines", ()):
            if not isinstance(engine["url"], str) or not isinstance(engine["fleet"], str | None):
                raise ValueError("an engine has a url and a fleet")
            inflight = engine.get("inflight", 0)
            if not isinstance(inflight, int) or not isinstance(engine["up"], bool):
                raise ValueError("an engine is up or not, and counts what is in flight")
        if process not in self._latest and len(self._latest) >= _MAX_PROCESSES:
            raise ValueError("too many processes report")
        self._latest[process] = (at_ns, status)

    def processes(self, now_ns: int) -> list[dict[str, Any]]:
        """All that reported in the last five minutes, with `fresh` and `age_s`, sorted by name."""
        for process in [name for name, (at_ns, _) in self._latest.items() if now_ns - at_ns > _FORGET_NS]:
            del self._latest[process]
        return [
            {**status, "fresh": now_ns - at_ns < FRESH_NS, "age_s": max(0, now_ns - at_ns) // 1_000_000_000}
            for _, (at_ns, status) in sorted(self._latest.items())
        ]

    def turns(self, now_ns: int) -> dict[str, Any]:
        """By experiment, where arms take turns: what was last told of that."""
        return {
            one["experiment"]: one["slots"]
            for process in self.processes(now_ns)
            for one in process.get("experiments", ())
            if one.get("slots")
        }

    def not_ready(self, now_ns: int) -> list[str]:
        """Why traffic should not be sent here now; empty when it may be."""
        workers = [p for p in self.processes(now_ns) if p["process"].startswith("worker")]
        fresh = [p for p in workers if p["fresh"]]
        if not fresh:
            return [f"no gateway worker has reported in the last {FRESH_NS // 1_000_000_000} s"]
        serving = [p for p in fresh if p.get("listening", True) and not p.get("draining", False)]
        if not serving:
            return ["every gateway worker is draining or not listening"]
        up: dict[str, list[bool]] = {}
        for process in serving:
            for engine in process.get("engines", ()):
                up.setdefault(engine["fleet"] or "default", []).append(engine["up"])
        if not up:
            return ["no gateway worker knows an engine"]
        return [
            f"fleet {fleet}: none of its engines is up" for fleet, ups in sorted(up.items()) if not any(ups)
        ]
