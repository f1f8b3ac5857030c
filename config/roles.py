"""Which fleets could not split a request: half of the roles is missing, or engines cannot hand over KV."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from config.complaint import Complaint, Path, shown
from config.policy import Split

if TYPE_CHECKING:
    from config.schema import Config, Discover, Engine, Fleet

HANDING_OVER: Final = ("vllm", "sglang")
_UNTOLD: Final = ("auto", "openai")  # what they are may turn out later


def complaints(config: "Config") -> Iterator[Complaint]:
    """Every contradiction of roles, with the place of what is to be changed."""
    for i, fleet in enumerate(config.fleets):
        listed: list[tuple[Path, Engine | Discover]] = [
            (("fleets", i, "engines", j), engine) for j, engine in enumerate(fleet.engines)
        ]
        if fleet.discover is not None:
            listed.append((("fleets", i, "discover"), fleet.discover))
        if all(one.role == "both" for _, one in listed):
            if listed and fleet.split != Split():
                expected = "engines with role prefill and decode, or no split"
                yield Complaint("", ("fleets", i, "split"), expected, "no engine with a role")
            continue
        yield from _kinds(fleet, listed)
        yield from _halves(fleet, i, listed)
        yield from _places(fleet, i)


def style_of(fleet: "Fleet") -> str:
    """How the fleet's engines hand over KV, as far as the file tells; else auto."""
    if fleet.split.style != "auto":
        return fleet.split.style
    kinds = [engine.kind for engine in fleet.engines]
    if fleet.discover is not None:
        kinds.append(fleet.discover.kind)
    return next((kind for kind in kinds if kind in HANDING_OVER), "auto")


def _kinds(fleet: "Fleet", listed: "list[tuple[Path, Engine | Discover]]") -> Iterator[Complaint]:
    style = style_of(fleet)
    for path, one in listed:
        if one.kind in _UNTOLD or one.kind == style:
            continue
        expected = f"{style}, as the fleet hands over KV its way" if style != "auto" else "vllm or sglang"
        yield Complaint("", (*path, "kind"), f"{expected}, where engines have roles", shown(one.kind))


def _halves(fleet: "Fleet", i: int, listed: "list[tuple[Path, Engine | Discover]]") -> Iterator[Complaint]:
    roles = {one.role for _, one in listed}
    # One that does both is no half of a pair in SGLang: its mode is fixed when it starts.
    both = set[str]() if style_of(fleet) == "sglang" else {"both"}
    for role, missing in (("prefill", "decode"), ("decode", "prefill")):
        if role in roles and not roles & {missing, *both}:
            expected = f"an engine with role {missing} too, or no roles: a prompt's KV needs both ends"
            yield Complaint("", ("fleets", i, "engines"), expected, f"role {role} only")
    if fleet.split.min_bytes and style_of(fleet) == "sglang" and "both" not in roles:
        expected = "0, or an engine with role both: SGLang's decode engines take no prompt whole"
        yield Complaint("", ("fleets", i, "split", "min_bytes"), expected, shown(fleet.split.min_bytes))


def _places(fleet: "Fleet", i: int) -> Iterator[Complaint]:
    """A request has one place at a time, and it needs one at each engine of a pair."""
    expected = "nothing where engines have roles: set the fleet's concurrency"
    if fleet.engine_concurrency is not None:
        yield Complaint("", ("fleets", i, "engine_concurrency"), expected, shown(fleet.engine_concurrency))
    for j, engine in enumerate(fleet.engines):
        if engine.concurrency is not None:
            path: Path = ("fleets", i, "engines", j, "concurrency")
            yield Complaint("", path, expected, shown(engine.concurrency))
