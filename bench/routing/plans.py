"""Which runs a table is made of, and one of them run.  All plain values: they go to other processes."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path

import msgspec

from bench.routing.asks import Trace
from bench.routing.engine import Engine
from bench.routing.measures import Measures, measure
from bench.routing.oracles import Clairvoyant, Pooled
from bench.routing.ours import GIE_NS, PROBE_NS, Ours
from bench.routing.setting import Setting
from bench.routing.traces import drawn, mooncake
from bench.routing.world import Chooser, Plan, run
from routing.policy import Policy

Row = tuple[float, str, Measures]
"""A load, a policy or an oracle, and what came of it."""
ORACLE, HITS = "oracle", "oracle_hits"
MOONCAKE_KV_TOKENS, MOONCAKE_BLOCK = 8, 4  # times the setting's
_CAPACITY_SEED = 1000
_GOOD = 0.9


@dataclass(frozen=True, slots=True)
class Scene:
    """A trace in a setting.  `path`: the trace's file, where it is read from one."""

    trace: str
    setting_name: str
    setting: Setting
    asks: int
    path: Path | None = None


def scene(trace: str, name: str, setting: Setting, asks: int, path: Path | None = None) -> Scene:
    """Mooncake's prompts are ten times as long and return much later: engines there hold eight times as much,
    as with a tier in host memory, in blocks four times as large."""
    if path is not None:
        setting = replace(
            setting,
            kv_tokens=setting.kv_tokens * MOONCAKE_KV_TOKENS,
            host_tokens=setting.host_tokens * MOONCAKE_KV_TOKENS,
            block_size=setting.block_size * MOONCAKE_BLOCK,
        )
    return Scene(trace, name, setting, asks, path)


def one(scene: Scene, speed: float, policy: str, seed: int) -> Measures:
    """One run.  `policy` is a name, maybe with settings: `prefix_cost:decode_s_per_request=0.1`.

    Behind an @ stands how the engines' KV events are read (`told`); without it there are none.
    """
    setting = scene.setting
    name, _, reading = policy.partition("@")

    def chooser(engines: Sequence[Engine]) -> Chooser:
        report_ns = GIE_NS if name.startswith("gie_scorers") else PROBE_NS
        return Ours(partial(policy_of, name), setting, seed, engines, report_ns, reading or None)

    return measure(run(Plan(traffic(scene, seed), speed, scene.asks, setting, seed), chooser))


def oracles(scene: Scene, speed: float, seed: int) -> tuple[Measures, float]:
    """The clairvoyant's run, and what one cache as large as all would have held of the same requests."""
    setting = scene.setting
    pooled: list[Pooled] = []

    def chooser(engines: Sequence[Engine]) -> Chooser:
        pooled.append(Pooled(Clairvoyant(setting, engines), setting))
        return pooled[0]

    ran = run(Plan(traffic(scene, seed), speed, scene.asks, setting, seed), chooser)
    since_s = setting.warm * ran.until_s
    kept = [
        (held, outcome.prompt_tokens)
        for held, outcome in zip(pooled[0].held, ran.outcomes, strict=True)
        if since_s <= outcome.arrived_s <= ran.until_s and outcome.first_s >= 0
    ]
    return measure(ran), sum(held for held, _ in kept) / max(1, sum(tokens for _, tokens in kept))


def capacity(scene: Scene, policy: str = "least_load") -> float:
    """The speed up to which the policy answers 90 % within the objectives: goodput as in DistServe."""

    def good(speed: float) -> bool:
        if policy == ORACLE:
            return oracles(scene, speed, _CAPACITY_SEED)[0].goodput >= _GOOD
        return one(scene, speed, policy, _CAPACITY_SEED).goodput >= _GOOD

    low = 0.05 * scene.setting.engines
    while not good(low):
        low /= 2
    high = low * 1.6
    while good(high):
        low, high = high, high * 1.6
    for _ in range(5):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if good(middle) else (low, middle)
    return low


def policy_of(name: str) -> Policy:
    """`name` or `name:setting=value,...`: ValueError where there is no such setting."""
    name, _, settings = name.partition(":")
    module = import_module(f"routing.policies.{name}")
    given = dict(part.split("=", 1) for part in settings.split(",") if part)
    if unknown := set(given) - {field.name for field in fields(module.Params)}:
        raise ValueError(f"{name} has no setting {', '.join(sorted(unknown))}")
    policy: Policy = module.build(msgspec.convert(given, module.Params, strict=False))
    return policy


@lru_cache(2)
def traffic(scene: Scene, seed: int) -> Trace:
    """The same traffic for every policy and load."""
    setting = scene.setting
    if scene.path is None:
        return drawn(scene.trace, seed, setting.block_size)
    asks = round(scene.asks / (1.0 - setting.warm))
    most = setting.kv_tokens - setting.block_size
    return mooncake(scene.trace, scene.path, seed, asks, setting.block_size, most)


def rows(
    scene: Scene, capacity: float, loads: Sequence[float], policies: Sequence[str], seed: int
) -> list[Row]:
    """All policies at all loads on the traffic of one seed, oracles last."""
    found: list[Row] = []
    for load in loads:
        speed = load * capacity
        found += [(load, policy, one(scene, speed, policy, seed)) for policy in policies]
        best, hits = oracles(scene, speed, seed)
        found.append((load, ORACLE, best))
        found.append((load, HITS, replace(best, hit=hits)))
    return found
