"""What does a DCGM exporter's page say of the GPUs it watches?  Its text taken apart, without asking for it.

The metrics are those of its default counters (etc/default-counters.csv), and, where they were switched on,
the reasons for which clocks are held back: DCGM_FI_DEV_CLOCKS_EVENT_REASONS, before DCGM 3.3
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS.
"""

from collections.abc import Collection

from prometheus_client.parser import text_string_to_metric_families

from gateway.launch.reading import Reading, throttling

_MIB = 1 << 20
_MOST = float(1 << 43)  # of no unit that is read can there be so much, but of mJ
_MOST_MJ = float(1 << 53)
_REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
_PREFIX = "DCGM_FI_DEV_"
_ENERGY = f"{_PREFIX}TOTAL_ENERGY_CONSUMPTION"
_PREFIXES = (_PREFIX, "DCGM_FI_PROF_")


def readings(text: str, gpus: Collection[str]) -> list[Reading]:
    """The readings of these GPUs (by UUID or number; none named: all).  Raises ValueError when it is no
    such page.

    Instances of a GPU that is cut up (MIG) are left out: what they say of power and clocks is the whole
    GPU's. So is a number that can be none: negative, not finite, or beyond all bounds. The last XID error
    stands on the page for good: whoever reads twice knows which is new.
    """
    found: dict[str, dict[str, float]] = {}
    labels: dict[str, dict[str, str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            uuid = sample.labels.get("UUID") or sample.labels.get("uuid")
            if not sample.name.startswith(_PREFIXES) or not uuid or sample.labels.get("GPU_I_ID"):
                continue
            if gpus and uuid not in gpus and sample.labels.get("gpu") not in gpus:
                continue
            # the parser adds to counters the ending that the exporter leaves out
            name, values = sample.name.removesuffix("_total"), found.setdefault(uuid, {})
            if 0.0 <= sample.value < (_MOST_MJ if name == _ENERGY else _MOST):
                values[name] = sample.value
            labels.setdefault(uuid, sample.labels)
    return [_reading(uuid, values, labels[uuid]) for uuid, values in found.items()]


def _reading(uuid: str, values: dict[str, float], labels: dict[str, str]) -> Reading:
    def whole(name: str) -> int | None:
        value = values.get(_PREFIX + name)
        return None if value is None else round(value)

    used, free = whole("FB_USED"), whole("FB_FREE")
    reasons = next((round(values[name]) for name in _REASONS if name in values), None)
    utilisation, xid = values.get(_PREFIX + "GPU_UTIL"), whole("XID_ERRORS")
    dram, copies = values.get("DCGM_FI_PROF_DRAM_ACTIVE"), values.get(_PREFIX + "MEM_COPY_UTIL")
    number = labels.get("gpu", "")
    return Reading(
        uuid=uuid,
        index=int(number) if number.isdigit() else None,
        name=labels.get("modelName"),
        utilisation=None if utilisation is None else utilisation / 100,
        memory_busy=dram if dram is not None else None if copies is None else copies / 100,
        tensor_busy=values.get("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
        memory_used_bytes=None if used is None else used * _MIB,
        memory_total_bytes=None if used is None or free is None else (used + free) * _MIB,
        power_w=values.get(_PREFIX + "POWER_USAGE"),
        energy_mj=whole("TOTAL_ENERGY_CONSUMPTION"),
        sm_clock_mhz=whole("SM_CLOCK"),
        memory_clock_mhz=whole("MEM_CLOCK"),
        temperature_c=whole("GPU_TEMP"),
        throttling=None if reasons is None else throttling(reasons),
        xid=(xid,) if xid else (),
    )
