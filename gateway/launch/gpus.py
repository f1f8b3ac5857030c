"""Which GPUs does an engine get?  Only those that nothing uses: decided from what NVML shows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

# A driver and its persistence daemon hold some hundred MiB; an engine holds gigabytes.
SPARE_BYTES = 1 << 30
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the hardware shows it.  `processes` are pids, as far as they can be seen from here;
    `unusable` says why no engine could run on it."""

    index: int
    uuid: str
    name: str
    memory_used_bytes: int
    memory_total_bytes: int
    processes: tuple[int, ...] = ()
    unusable: str | None = None

    def is_called(self, names: Collection[str]) -> bool:
        """Whether one of these names, numbers or UUIDs, is its."""
        return self.uuid in names or str(self.index) in names


@dataclass(frozen=True, slots=True)
class Wanted:
    """So many GPUs, or all of `named`.  `liked` are models (by their `name`) that are better than others."""

    gpus: int
    named: tuple[str, ...] = ()
    liked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoRoom:
    """There are not enough; `why` says what is in the way, for a person."""

    why: str


def choose(
    gpus: Sequence[Gpu], wanted: Wanted, *, production: Collection[str], held: Mapping[str, str]
) -> tuple[Gpu, ...] | NoRoom:
    """The GPUs an engine gets, all of one model.

    Never one of `production`, one that `held` says another engine of ours has (UUID to whose), one with a
    process on it, or one with more than `SPARE_BYTES` in use: where pids cannot be seen, as in a container,
    memory still can.  Of several choices those of a `liked` model come first (an arm should have what its
    control has), then the model with the most free ones, then the lowest numbers.
    """
    if wanted.gpus == 0:
        return ()
    reasons = {gpu.uuid: in_the_way(gpu, production, held) for gpu in gpus}
    if wanted.named:
        return _named(gpus, wanted.named, reasons)
    free: dict[str, list[Gpu]] = {}
    for gpu in sorted(gpus, key=lambda gpu: gpu.index):
        if reasons[gpu.uuid] is None:
            free.setdefault(gpu.name, []).append(gpu)
    enough = [(name, some) for name, some in free.items() if len(some) >= wanted.gpus]
    if not enough:
        return NoRoom(_lack(gpus, wanted.gpus, free, reasons))
    enough.sort(key=lambda one: (one[0] not in wanted.liked, -len(one[1]), one[1][0].index))
    return tuple(enough[0][1][: wanted.gpus])


def in_the_way(gpu: Gpu, production: Collection[str], held: Mapping[str, str]) -> str | None:
    """Why this GPU is not to be had, None when it is free."""
    if gpu.is_called(production):
        return "production's"
    if gpu.uuid in held:
        return f"{held[gpu.uuid]}'s"
    if gpu.unusable is not None:
        return gpu.unusable
    if gpu.processes:
        shown = ", ".join(map(str, gpu.processes[:3])) + (", …" if len(gpu.processes) > 3 else "")
        return f"process {shown} is on it"
    if gpu.memory_used_bytes > SPARE_BYTES:
        return f"{gpu.memory_used_bytes / (1 << 30):.1f} GiB in use"
    return None


def _named(
    gpus: Sequence[Gpu], named: Sequence[str], reasons: Mapping[str, str | None]
) -> tuple[Gpu, ...] | NoRoom:
    found: list[Gpu] = []
    for name in named:
        gpu = next((gpu for gpu in gpus if gpu.is_called((name,))), None)
        if gpu is None:
            return NoRoom(f"there is no GPU {name} here")
        if (reason := reasons[gpu.uuid]) is not None:
            return NoRoom(f"GPU {gpu.index}: {reason}")
        found.append(gpu)
    return tuple(found)


def _lack(
    gpus: Sequence[Gpu],
    wanted: int,
    free: Mapping[str, Sequence[Gpu]],
    reasons: Mapping[str, str | None],
) -> str:
    said = [f"GPU {gpu.index}: {reason}" for gpu in gpus if (reason := reasons[gpu.uuid]) is not None]
    more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    there = sum(map(len, free.values()))
    unlike = " of one model" if there >= wanted else ""
    detail = f" ({'; '.join(said[:_SHOWN])}{more})" if said else ""
    return f"{wanted} free GPU{'s' if wanted > 1 else ''}{unlike} wanted, {there} of {len(gpus)} free{detail}"
