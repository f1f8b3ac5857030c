"""Which settings of engines that are launched contradict each other: ports, GPUs, one of two origins."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from config.complaint import Complaint, Path, shown, spelled
from config.launch import gpu_names

if TYPE_CHECKING:
    from config.schema import Arm, Config

LOCAL = frozenset({"127.0.0.1", "0.0.0.0", "localhost", "::", "::1"})


def complaints(config: "Config") -> Iterator[Complaint]:
    """Every contradiction, with the place of what is to be changed."""
    ports: dict[int, Path] = {}
    for name in ("listen", "admin"):
        address = getattr(config, f"{name}_address")
        if address.host in LOCAL and address.port:
            ports[address.port] = (name,)
    owners: dict[str, Path] = {
        gpu: ("fleets", i, "gpus") for i, fleet in enumerate(config.fleets) for gpu in fleet.gpus
    }
    for i, experiment in enumerate(config.experiments):
        before = dict(owners)  # arms that take turns may have the same GPUs, one after another
        for _name, place, arm in experiment.arms:
            at: Path = ("experiments", i, *place)
            yield from _origin(arm, at)
            yield from _port(arm, at, ports)
            yield from _gpus(arm, at, owners, owners if experiment.mode == "live" else before)
            if arm.launch is not None and experiment.mode != "live" and experiment.turns.switch:
                expected = "nothing, as Shadowlane itself starts and ends engines that are launched"
                yield Complaint("", ("experiments", i, "turns", "switch"), expected, "a command")


def _origin(arm: "Arm", at: Path) -> Iterator[Complaint]:
    if not arm.engine and arm.launch is None:
        yield Complaint(
            "", at, "engine, a spare engine's URL, or launch, a command that starts one", "neither"
        )
    elif arm.engine and arm.launch is not None:
        yield Complaint("", (*at, "launch"), "one of engine and launch", "both")
    if arm.launch is not None and arm.tls is not None:
        yield Complaint("", (*at, "tls"), "none: a launched engine is spoken to on 127.0.0.1", "tls")


def _port(arm: "Arm", at: Path, ports: dict[int, Path]) -> Iterator[Complaint]:
    launch = arm.launch
    if launch is None:
        return
    if launch.port is None:
        if not launch.names_port:
            expected = "{port} in it where the engine is told its port, or port beside it"
            yield Complaint("", (*at, "launch", "command"), expected, shown(" ".join(launch.command)))
        return
    if launch.port in ports:
        expected = "a port of its own"
        yield Complaint("", (*at, "launch", "port"), expected, f"that of {spelled(ports[launch.port])}")
    ports.setdefault(launch.port, (*at, "launch", "port"))


def _gpus(arm: "Arm", at: Path, owners: dict[str, Path], others: Mapping[str, Path]) -> Iterator[Complaint]:
    """`owners` are all who have a GPU so far, `others` those with whom this arm cannot share one."""
    path = (*at, "gpus")
    if arm.launch is None and isinstance(arm.gpus, int):
        yield Complaint("", path, "a list of those it runs on: only launch takes a number", shown(arm.gpus))
    elif arm.dcgm is not None and arm.launch is None and not gpu_names(arm.gpus):
        yield Complaint("", path, "a list of those it runs on, beside dcgm", "nothing")
    if arm.launch is None and arm.dcgm is not None:
        return  # they may be another machine's, where the same numbers mean other GPUs
    for gpu in gpu_names(arm.gpus):
        if gpu in others:
            expected, found = "GPUs that nobody else has", f"{shown(gpu)}, as at {spelled(others[gpu])}"
            yield Complaint("", path, expected, found)
        owners.setdefault(gpu, path)
