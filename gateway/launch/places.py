"""Which GPU is whose: asked of the hardware, decided by `gpus`, held against other Shadowlanes here."""

import asyncio
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gateway.launch.gpus import Gpu, NoRoom, Wanted, choose
from gateway.launch.reading import Hardware, NoHardware, Reading

T = TypeVar("T")
_BETWEEN = "the arm whose turn is next"
Key = tuple[str, str]


class Places:
    """The GPUs of this machine and which of ours has them.

    `open_hardware()` is called when GPUs are first asked for, and again while it raises NoHardware.  What
    it gives is asked on one thread, in turn: drivers may take their time.
    """

    def __init__(self, open_hardware: Callable[[], Hardware]) -> None:
        self._open = open_hardware
        self._hardware: Hardware | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gpus")
        self._held: dict[Key, tuple[Gpu, ...]] = {}
        self._claims: dict[str, socket.socket] = {}
        self.production: Collection[str] = ()

    async def hardware(self) -> Hardware:
        """What shows the GPUs.  Raises NoHardware."""
        if self._hardware is None:
            self._hardware = await self._run(self._open)
        return self._hardware

    async def take(self, key: Key, wanted: Wanted) -> tuple[Gpu, ...] | NoRoom:
        """GPUs for an engine, its own until they are given back; or why there are none now."""
        if wanted.gpus == 0:
            return ()
        try:
            hardware = await self.hardware()
        except NoHardware as error:
            return NoRoom(f"no GPU can be had: {error}; gpus: 0 starts it without")
        gpus = await self._run(hardware.look)
        # Nothing awaits from here on: what is free is still free when it is held.
        kept = self._held.pop((key[0], _BETWEEN), ())
        self._let_go(gpu.uuid for gpu in kept)
        named = wanted.named or self._same(kept, gpus, wanted.gpus)
        foreign: dict[str, str] = {}
        while True:
            held = {gpu.uuid: f"{whose[0]}/{whose[1]}" for whose, some in self._held.items() for gpu in some}
            chosen = choose(
                gpus,
                Wanted(wanted.gpus, named, self._models_beside(key)),
                production=self.production,
                held={**held, **foreign},
            )
            if isinstance(chosen, NoRoom):
                self._keep(key, kept)
                return chosen
            refused = [gpu.uuid for gpu in chosen if not self._claim(gpu.uuid)]
            if not refused:
                self._held[key] = chosen
                return chosen
            self._let_go(gpu.uuid for gpu in chosen)
            foreign.update(dict.fromkeys(refused, "another Shadowlane"))

    def of(self, key: Key) -> tuple[Gpu, ...]:
        """The GPUs that this engine has."""
        return self._held.get(key, ())

    def give_back(self, key: Key, *, keep: bool = False) -> None:
        """The engine has ended, or was never started.

        `keep`: its experiment's next engine gets the same GPUs, and until then nobody does.
        """
        gpus = self._held.pop(key, ())
        if keep and gpus:
            self._held[key[0], _BETWEEN] = gpus
        else:
            self._let_go(gpu.uuid for gpu in gpus)

    def give_up(self, experiment: str) -> None:
        """No engine of this experiment follows."""
        self.give_back((experiment, _BETWEEN))

    async def read(self, uuids: Sequence[str]) -> Sequence[Reading]:
        """What these GPUs are doing.  Raises NoHardware."""
        hardware = await self.hardware()
        return await self._run(lambda: hardware.read(uuids))

    def close(self) -> None:
        """Hold nothing any more.  A driver that does not answer is left behind."""
        for key in list(self._held):
            self.give_back(key)
        self._thread.shutdown(wait=False)

    def _keep(self, key: Key, gpus: Sequence[Gpu]) -> None:
        if gpus and all(self._claim(gpu.uuid) for gpu in gpus):
            self._held[key[0], _BETWEEN] = tuple(gpus)

    def _same(self, kept: Sequence[Gpu], gpus: Sequence[Gpu], wanted: int) -> tuple[str, ...]:
        """The GPUs of the arm before, which no arm should differ in; none where they cannot be had at all."""
        there = {gpu.uuid for gpu in gpus if gpu.unusable is None and not gpu.is_called(self.production)}
        same = tuple(gpu.uuid for gpu in kept)
        return same if len(same) == wanted and there.issuperset(same) else ()

    def _models_beside(self, key: Key) -> tuple[str, ...]:
        """The models of the GPUs that the experiment's other arms have."""
        return tuple(
            gpu.name
            for (experiment, arm), some in self._held.items()
            for gpu in some
            if experiment == key[0] and arm != key[1]
        )

    def _claim(self, uuid: str) -> bool:
        """Hold a GPU against other Shadowlanes: NVML shows an engine's memory only seconds after its start.

        A name in the kernel's own space of sockets, freed when this process dies, for all users.
        """
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0shadowlane-gpu-{uuid}")
        except OSError:
            claim.close()
            return False
        self._claims[uuid] = claim
        return True

    def _let_go(self, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            claim = self._claims.pop(uuid, None)
            if claim is not None:
                claim.close()

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
