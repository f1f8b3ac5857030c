"""What are workers told of fleets, by the config?"""

from collections.abc import Mapping

from config.schema import Engine, Fleet
from gateway.admission.composed import concurrency_of
from gateway.fleets.columns import Place
from gateway.processes.tls import engine_tls
from gateway.spec import EngineSpec, EventsSpec, FleetSpec, HealthSpec, LearnSpec, SplitSpec


def fleets_of(
    fleets: tuple[Fleet, ...], columns: Mapping[Place, int], health: HealthSpec
) -> tuple[FleetSpec, ...]:
    """Every fleet; `columns` says which number each engine has."""
    composed: list[FleetSpec] = []
    for fleet in fleets:
        engines = tuple(_engine(columns[fleet.model, engine.url], engine, fleet) for engine in fleet.engines)
        params: Mapping[str, object] = dict(fleet.policy.params)
        composed.append(
            FleetSpec(
                model=fleet.model,
                names=names_of(fleet),
                default=fleet.default,
                engines=engines,
                policy=fleet.policy.name,
                params=params,
                health=health,
                split=_split(fleet),
                events=_events(fleet),
                learn=_learn(fleet),
                score=tuple((one.name, dict(one.params)) for one in fleet.score.policies),
                score_share=fleet.score.share,
            )
        )
    return tuple(composed)


def _events(fleet: Fleet) -> EventsSpec | None:
    said = fleet.kv_events
    if said.read == "off":
        return None
    return EventsSpec(**{name: getattr(said, name) for name in EventsSpec.__dataclass_fields__})


def _learn(fleet: Fleet) -> LearnSpec | None:
    said = fleet.learn
    if fleet.kv_events.read == "off" or not (said.tokenize or said.copies or said.ask_production):
        return None
    return LearnSpec(said.tokenize, said.copies, said.bytes_per_s, fleet.loras, said.ask_production)


def _split(fleet: Fleet) -> SplitSpec | None:
    roles = [engine.role for engine in fleet.engines]
    if fleet.discover is not None:  # those yet to be found have one too
        roles.append(fleet.discover.role)
    if all(role == "both" for role in roles):
        return None
    split = fleet.split
    return SplitSpec(split.style, split.min_bytes, split.decode.name, dict(split.decode.params))


def names_of(fleet: Fleet) -> tuple[str, ...]:
    """Every name by which requests may ask for it."""
    named = () if fleet.model is None else (fleet.model,)
    return (*named, *fleet.aliases, *fleet.loras)


def _engine(number: int, engine: Engine, fleet: Fleet) -> EngineSpec:
    return EngineSpec(
        id=number,
        url=engine.url,
        kind=engine.kind,
        api_key=None if engine.api_key is None else engine.api_key.get_secret_value(),
        model=engine.model,
        allow_paths=engine.allow_paths,
        concurrency=concurrency_of(engine, fleet),
        tls=engine_tls(engine.tls or fleet.tls) if engine.url.startswith("https:") else None,
        role=engine.role,
        bootstrap_port=engine.bootstrap_port,
    )
