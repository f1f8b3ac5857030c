"""On which port does each launched engine listen?  Chosen once for an arm, and kept over reloads."""

import hashlib
from typing import TypeVar

from config.arm import TWIN
from config.schema import Arm, Config
from gateway.launch.free import HOST, Claims, is_free

A = TypeVar("A", bound=Arm)
_FIRST, _MANY = 20_000, 10_000  # below those that systems give to outgoing connections


class NoPortLeft(Exception):
    """No port is free for an engine that is to be launched."""


class Ports:
    """Gives launched arms the ports and URLs that the config leaves out.

    An arm's port is looked for from a place that its name gives, so that it mostly has the same one after a
    restart, too.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], int] = {}
        self._claims = Claims()

    def __call__(self, config: Config) -> Config:
        """The config with a port and an engine URL for every launched arm.  Raises NoPortLeft."""
        if not any(arm.launch for one in config.experiments for _, _, arm in one.arms):
            return config
        taken = {
            arm.launch.port
            for one in config.experiments
            for _name, _place, arm in one.arms
            if arm.launch is not None and arm.launch.port is not None
        }
        experiments = []
        for one in config.experiments:
            control = self._placed(one.control, (one.name, ""), taken)
            if control.twin is not None:
                twin = self._placed(control.twin, (one.name, TWIN), taken)
                control = control.model_copy(update={"twin": twin})
            candidates = tuple(self._placed(arm, (one.name, arm.name), taken) for arm in one.candidates)
            experiments.append(one.model_copy(update={"control": control, "candidates": candidates}))
        return config.model_copy(update={"experiments": tuple(experiments)})

    def _placed(self, arm: A, key: tuple[str, str], taken: set[int]) -> A:
        launch = arm.launch
        if launch is None:
            return arm
        port = launch.port
        if port is None:
            port = self._held.get(key)
            if port is None or port in taken:
                port = self._held[key] = self._free(key, taken)
            taken.add(port)
        placed = launch.model_copy(update={"port": port})
        return arm.model_copy(update={"launch": placed, "engine": f"http://{HOST}:{port}"})

    def _free(self, key: tuple[str, str], taken: set[int]) -> int:
        start = int.from_bytes(hashlib.blake2b("\0".join(key).encode(), digest_size=4).digest())
        for n in range(_MANY):
            port = _FIRST + (start + n) % _MANY
            if port not in taken and is_free(port) and self._claims.claim(port):
                return port
        raise NoPortLeft(f"no port from {_FIRST} to {_FIRST + _MANY - 1} is free; give launch a port")
