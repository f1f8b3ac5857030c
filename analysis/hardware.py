"""What did the arms' GPUs do while they were compared?  Readings in, figures for each arm out.

No clock, no I/O: the same readings give the same figures.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

_MJ_PER_WH = 3_600_000.0
_MOST_GPUS = 64
_MOST_XIDS = 100


class _Sum:
    """The mean, the least and the most of what was known."""

    def __init__(self) -> None:
        self.n = 0
        self.total = 0.0
        self.least: float | None = None
        self.most: float | None = None

    def add(self, value: float | None) -> None:
        if value is None:
            return
        self.n += 1
        self.total += value
        self.least = value if self.least is None else min(self.least, value)
        self.most = value if self.most is None else max(self.most, value)

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None


class _Gpu:
    def __init__(self) -> None:
        self.name: str | None = None
        self.utilisation, self.memory, self.power, self.clock = _Sum(), _Sum(), _Sum(), _Sum()
        self.energy_mj: float = 0.0
        self.has_energy = False
        self.counter_mj: int | None = None
        self.said = 0  # readings that tell whether the clock is held back
        self.throttled = 0
        self.reasons: Counter[str] = Counter()
        self.xid: list[int] = []

    def add(self, told: Mapping[str, Any]) -> None:
        self.name = told.get("name", self.name)
        self.utilisation.add(told.get("utilisation"))
        self.memory.add(told.get("memory_used_bytes"))
        self.power.add(told.get("power_w"))
        self.clock.add(told.get("sm_clock_mhz"))
        if (counter := told.get("energy_mj")) is not None:
            if self.counter_mj is not None and counter >= self.counter_mj:  # else its driver was loaded anew
                self.energy_mj += counter - self.counter_mj
                self.has_energy = True
            self.counter_mj = counter
        if (reasons := told.get("throttling")) is not None:
            self.said += 1
            self.throttled += bool(reasons)
            self.reasons.update(str(reason) for reason in reasons)
        self.xid = (self.xid + [int(code) for code in told.get("xid", ())])[:_MOST_XIDS]

    def show(self, uuid: str) -> dict[str, Any]:
        return {
            "uuid": uuid,
            "name": self.name,
            "utilisation": self.utilisation.mean,
            "memory_used_bytes": self.memory.most,
            "power_w": self.power.mean,
            "energy_wh": self.energy_mj / _MJ_PER_WH if self.has_energy else None,
            "sm_clock_mhz": self.clock.mean,
            "sm_clock_least_mhz": self.clock.least,
            "throttled": self.throttled / self.said if self.said else None,
            "throttling": {reason: n / self.said for reason, n in sorted(self.reasons.items())},
            "xid": self.xid,
        }


class Hardware:
    """The readings of one experiment's arms: means over time, the most memory, the energy used, the share of
    readings in which a clock was held back and why, the XID errors.  What no reading tells is None."""

    def __init__(self) -> None:
        self._arms: dict[str, dict[str, _Gpu]] = {}
        self._readings: Counter[str] = Counter()

    def add(self, frame: Mapping[str, Any]) -> None:
        """Takes one reading of one arm.  ValueError, KeyError, TypeError, AttributeError: it is none."""
        arm = frame["arm"]
        if not isinstance(arm, str):
            raise ValueError("a reading names its arm")
        gpus = self._arms.setdefault(arm, {})
        for told in frame["gpus"]:
            uuid = str(told["uuid"])
            if uuid in gpus or len(gpus) < _MOST_GPUS:
                gpus.setdefault(uuid, _Gpu()).add(told)
        self._readings[arm] += 1

    def show(self) -> dict[str, Any]:
        """Arm to its readings' number and each GPU's figures, JSON-able."""
        return {
            arm: {
                "readings": self._readings[arm],
                "gpus": [gpu.show(uuid) for uuid, gpu in sorted(gpus.items())],
            }
            for arm, gpus in sorted(self._arms.items())
        }
