"""Who plays in the demo?  Six emulated engines, their truths and their names, all from one seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from workload.prompts import Lognormal, Shape

MODEL = "aurora-8b"
EXPERIMENT = "demo"
NAMES = (
    "ember", "basil", "quartz", "willow", "cobalt", "juniper", "saffron", "harbor", "lichen", "topaz",
)  # fmt: skip

SPEED = 1.4  # the faster candidate: steps take 1 / 1.4 of the time, 29 % less
DIVERGE_RATE = 0.8  # the diverging candidate: this share of prompts is answered otherwise
ENGINE = {  # what all six have in common; ms are milliseconds of a step
    "base-ms": 8.0, "ms-per-seq": 0.04, "ms-per-prefill-token": 0.01, "jitter": 0.08,
    "output-tokens": 22.0, "output-sigma": 0.35,
}  # fmt: skip

CONVERSATIONS_A_SECOND = 19.0
TRAFFIC = Shape(
    systems=4,
    turns=2.6,
    most_turns=6,
    user_words=Lognormal(20, 0.7, 4, 120),
    max_tokens=Lognormal(24, 0.4, 10, 64),
    think_s=Lognormal(0.6, 0.5, 0.2, 3.0),
    sampled=0.05,  # equal engines differ on these, so that agreement has a floor below 1
)


@dataclass(frozen=True, slots=True)
class Part:
    """One emulated engine: its name, the truth about it, and the settings that make it true."""

    name: str
    truth: str
    settings: Mapping[str, float | str]

    @property
    def flags(self) -> list[str]:
        """The settings as the emulator's command line takes them."""
        return [text for name, value in self.settings.items() for text in (f"--{name}", str(value))]


@dataclass(frozen=True, slots=True)
class Cast:
    """All engines of one demo.  `faster`, `diverging`, `identical` name candidates; no ranking sees them."""

    production: tuple[Part, ...]
    control: Part
    candidates: tuple[Part, ...]
    faster: str
    diverging: str
    identical: str

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.production, self.control, *self.candidates)


def cast(seed: int) -> Cast:
    """The cast of one seed.  Names and order are drawn, so that neither tells which candidate is which."""
    rng = Random(f"cast {seed}")
    faster, diverging, identical = names = rng.sample(NAMES, k=3)
    less = round(100 * (1 - 1 / SPEED))
    truths: dict[str, tuple[str, dict[str, float]]] = {
        faster: (f"built faster: each step takes {less} % less time", {"speed": SPEED}),
        diverging: (
            f"built as fast as the control, but {DIVERGE_RATE:.0%} of its answers differ",
            {"diverge-rate": DIVERGE_RATE},
        ),
        identical: ("built exactly as the control", {}),
    }

    def part(name: str, truth: str, own: Mapping[str, float]) -> Part:
        return Part(name, truth, {"model": MODEL, **ENGINE, **own, "seed": rng.randrange(2**31)})

    order = rng.sample(names, k=3)
    return Cast(
        production=tuple(part(f"production-{number}", "production", {}) for number in (1, 2)),
        control=part("control", "the control", {}),
        candidates=tuple(part(name, *truths[name]) for name in order),
        faster=faster,
        diverging=diverging,
        identical=identical,
    )


def deployment(
    members: Cast, urls: Mapping[str, str], *, listen: str, admin: str, state_dir: str, calibration_s: float
) -> dict[str, Any]:
    """The configuration of the gateway in front of `members`, which listen at `urls` (by name)."""
    return {
        "listen": listen,
        "admin": admin,
        "state_dir": state_dir,
        "log": {"level": "warning"},
        "limits": {"drain_s": 2},
        "fleets": [
            {
                "model": MODEL,
                "engines": [{"url": urls[part.name]} for part in members.production],
                "policy": {"name": "prefix_cost"},
            }
        ],
        "experiments": [
            {
                "name": EXPERIMENT,
                "fleet": MODEL,
                "sample": {"rate": "auto"},
                "control": {"engine": urls[members.control.name]},
                "candidates": [{"name": part.name, "engine": urls[part.name]} for part in members.candidates],
                "window_s": 2.0,
                "calibration_s": calibration_s,
                "calibration_pairs": 100,
                "warm_up_s": 2.0,
                "max_inflight": 128,
                "timeout_s": 20,
            }
        ],
    }


def reveal(members: Cast) -> list[str]:
    """What the ranking never saw: one sentence for each candidate, in the ranking's words."""
    return [f"{part.name} was {part.truth}." for part in members.candidates]
