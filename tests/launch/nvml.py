"""A stand-in for NVIDIA's library, which the real pynvml loads; built where there is a C compiler."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")


@dataclass(frozen=True)
class Card:
    """One GPU as the library shows it."""

    uuid: str
    name: str = "H100"
    used_mib: int = 0
    pid: int = 0
    energy_mj: int = 1000
    reasons: int = 0
    xid: int = 0
    mig: int = 0

    @property
    def line(self) -> str:
        told = (self.uuid, self.name, self.used_mib, 81559, self.pid, 87, 412_000, self.energy_mj)
        return " ".join(map(str, (*told, 1980, self.reasons, self.xid, self.mig)))


@dataclass(frozen=True)
class Machine:
    """A machine with GPUs; `env` is for the processes that are to see them."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.folder / "gpus")}

    def shows(self, *cards: Card) -> None:
        half = self.folder / "gpus.half"
        half.write_text("".join(card.line + "\n" for card in cards))
        half.rename(self.folder / "gpus")


def machine(folder: Path, *cards: Card) -> Machine:
    """Build the library; the test is skipped where nothing can."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in for NVML with")
    made = Machine(folder / "nvml")
    made.folder.mkdir()
    library = str(made.folder / "libnvidia-ml.so.1")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, str(SOURCE)], check=True)
    made.shows(*cards)
    return made
