"""What one GPU is doing at one moment, whoever says so; and how a clock that is held back is called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gateway.launch.gpus import Gpu

# NVML's nvmlClocksEventReason* bits, which DCGM passes on.  An idle GPU's low clock, clocks that somebody has
# set, and a display's are no throttling: they are left out.
THROTTLING: Mapping[int, str] = {
    0x4: "power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x200: "board_limit",
    0x400: "reliability",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU's readings.  None: it does not say.

    `energy_mj` counts since its driver was loaded.  `throttling` are reasons for which its clock is lower
    than it could be; `xid` the errors since the last reading.
    """

    uuid: str
    index: int | None = None
    name: str | None = None
    utilisation: float | None = None  # the share of the last sample period in which a kernel ran
    memory_busy: float | None = None  # the share in which its memory was read or written
    tensor_busy: float | None = None  # how much of what its tensor cores could do (DCGM's profiling)
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    energy_mj: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttling: tuple[str, ...] | None = None
    xid: tuple[int, ...] = ()

    def without_xid(self) -> "Reading":
        """The same without errors."""
        return replace(self, xid=())

    def to_map(self) -> dict[str, Any]:
        """As it is sent and logged: what is not known is left out."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        known = {name: value for name, value in fields.items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}


def throttling(reasons: int) -> tuple[str, ...]:
    """The names of the bits that are set."""
    return tuple(name for bit, name in THROTTLING.items() if reasons & bit)


class Hardware(Protocol):
    """The GPUs of this machine.  Its methods may wait for a driver: they are called on a thread."""

    def look(self) -> Sequence[Gpu]:
        """All of them, and who uses them."""

    def read(self, uuids: Sequence[str]) -> Sequence[Reading]:
        """What these, by UUID or number, are doing; one that is not there is left out."""


class NoHardware(Exception):
    """There are no GPUs to be asked; the text says why."""
