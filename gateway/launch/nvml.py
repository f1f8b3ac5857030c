"""The GPUs of this machine as NVML shows them, by NVIDIA's own binding (pynvml)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pynvml

from gateway.launch.gpus import Gpu
from gateway.launch.reading import NoHardware, Reading, throttling

T = TypeVar("T")


class Nvml:
    """NVML, from its initialisation to `close`.  Raises NoHardware where there is none.

    A question that a GPU does not support, or a driver is too old for, is answered None; a GPU that is lost
    is shown as unusable.
    """

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NoHardware(f"NVML: {error}") from None
        self._handles: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                uuid = str(pynvml.nvmlDeviceGetUUID(handle))
                self._handles[uuid], self._numbers[uuid] = handle, index
        except pynvml.NVMLError as error:
            self.close()
            raise NoHardware(f"NVML: {error}") from None
        if not self._handles:
            self.close()
            raise NoHardware("NVML: this machine has no GPU")
        self.driver = _asked(lambda: str(pynvml.nvmlSystemGetDriverVersion())) or "unknown"
        self._errors = self._watched()
        self._xids: dict[str, list[int]] = {}  # errors of GPUs that were not read since, by UUID

    @property
    def source(self) -> str:
        """What this is, for a person."""
        return f"NVML, driver {self.driver}"

    def look(self) -> Sequence[Gpu]:
        """See `reading.Hardware`."""
        return [self._gpu(uuid, handle) for uuid, handle in self._handles.items()]

    def read(self, uuids: Sequence[str]) -> Sequence[Reading]:
        """See `reading.Hardware`."""
        self._hear()
        by_number = {str(index): uuid for uuid, index in self._numbers.items()}
        wanted = [by_number.get(one, one) for one in uuids]
        return [self._reading(uuid, self._xids.pop(uuid, ())) for uuid in wanted if uuid in self._handles]

    def close(self) -> None:
        """Let go of NVML."""
        _asked(pynvml.nvmlShutdown)

    def _gpu(self, uuid: str, handle: Any) -> Gpu:
        memory = _memory(handle)
        processes = _asked(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
        unusable = None
        if memory is None:
            unusable = "it does not answer"
        elif (mig := _asked(lambda: pynvml.nvmlDeviceGetMigMode(handle))) and mig[0]:
            unusable = "it is cut into instances (MIG)"
        elif _asked(lambda: pynvml.nvmlDeviceGetComputeMode(handle)) == pynvml.NVML_COMPUTEMODE_PROHIBITED:
            unusable = "its compute mode is prohibited"
        return Gpu(
            index=self._numbers[uuid],
            uuid=uuid,
            name=_asked(lambda: str(pynvml.nvmlDeviceGetName(handle))) or "unknown",
            memory_used_bytes=0 if memory is None else memory[0],
            memory_total_bytes=0 if memory is None else memory[1],
            processes=tuple(one.pid for one in processes or ()),  # a display's count by their memory alone
            unusable=unusable,
        )

    def _reading(self, uuid: str, xids: Sequence[int]) -> Reading:
        handle = self._handles[uuid]
        memory = _memory(handle)
        utilisation = _asked(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
        power_mw = _asked(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
        reasons = _asked(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if reasons is None:  # drivers before 535 know it by its old name
            reasons = _asked(lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        clock = pynvml.nvmlDeviceGetClockInfo
        return Reading(
            uuid=uuid,
            index=self._numbers[uuid],
            name=_asked(lambda: str(pynvml.nvmlDeviceGetName(handle))),
            utilisation=None if utilisation is None else utilisation.gpu / 100,
            memory_busy=None if utilisation is None else utilisation.memory / 100,
            memory_used_bytes=None if memory is None else memory[0],
            memory_total_bytes=None if memory is None else memory[1],
            power_w=None if power_mw is None else power_mw / 1000,
            energy_mj=_asked(lambda: int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))),
            sm_clock_mhz=_asked(lambda: int(clock(handle, pynvml.NVML_CLOCK_SM))),
            memory_clock_mhz=_asked(lambda: int(clock(handle, pynvml.NVML_CLOCK_MEM))),
            temperature_c=_asked(
                lambda: int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
            ),
            throttling=None if reasons is None else throttling(reasons),
            xid=tuple(xids),
        )

    def _watched(self) -> Any:
        """The set in which NVML puts the GPUs' errors; None where it cannot."""
        errors = _asked(pynvml.nvmlEventSetCreate)
        if errors is not None:
            for handle in self._handles.values():
                _asked(
                    lambda handle=handle: pynvml.nvmlDeviceRegisterEvents(  # type: ignore[misc]
                        handle, pynvml.nvmlEventTypeXidCriticalError, errors
                    )
                )
        return errors

    def _hear(self) -> None:
        """Take in the errors of all GPUs: each is told once, whichever GPU is asked for."""
        for _ in range(64):  # a GPU that fails may say so without end
            event = (
                None if self._errors is None else _asked(lambda: pynvml.nvmlEventSetWait_v2(self._errors, 0))
            )
            if event is None:
                break
            uuid = _asked(lambda event=event: str(pynvml.nvmlDeviceGetUUID(event.device)))  # type: ignore[misc]
            if uuid is not None:
                self._xids.setdefault(uuid, []).append(int(event.eventData))


def _memory(handle: Any) -> tuple[int, int] | None:
    """Bytes in use and in all.  The second version does not count what the driver reserves for itself."""
    for version in (pynvml.nvmlMemory_v2, None):
        memory = _asked(lambda version=version: pynvml.nvmlDeviceGetMemoryInfo(handle, version))  # type: ignore[misc]
        if memory is not None:
            return int(memory.used), int(memory.total)
    return None


def _asked(question: Callable[[], T]) -> T | None:
    try:
        return question()
    except pynvml.NVMLError:
        return None
