"""What are workers, the shadow and the analysis told of experiments, by the config?"""

from collections.abc import Mapping

from analysis.spec import ExperimentSpec, RaceSpec
from config.schema import Arm, Config, Experiment, Fleet
from gateway.golden.compose import golden_of
from gateway.launch.composed import mark, presumed
from gateway.processes.deployment import derived
from gateway.processes.fleets import names_of
from gateway.processes.tls import absolute, engine_tls
from gateway.spec import SamplingSpec
from mirror.brakes import BrakeSpec
from mirror.spec import CONTROL, TWIN, ArmSpec, MirrorExperiment, ReplaySpec, SlotSpec

NAMELESS_FLEET = "default"  # what a fleet without a model's name is called in logs and verdicts
_SALT_BYTES = 16


def sampling_of(config: Config, experiment: Experiment, secret: bytes) -> SamplingSpec:
    """Which conversations workers copy."""
    fleet = config.fleet_of(experiment)
    return SamplingSpec(
        experiment=experiment.name,
        fleet=fleet.model,
        rate=min(1.0, share_sampled(experiment, fleet)),
        salt=derived(secret, f"sample {experiment.name}", _SALT_BYTES),
        brakes=brakes_of(experiment),
        by_session=experiment.sample.by == "session",
        observed=experiment.sample.production_answers,
    )


def share_sampled(experiment: Experiment, fleet: Fleet) -> float:
    """The share of a fleet's conversations an experiment copies; above 1, how often each is sent.

    "auto" begins with one over the number of engines: every arm is one engine, so each then carries about
    what one of production's carries.  From there `mirror.matching` goes on, by what is in flight.
    """
    rate = experiment.sample.rate
    return 1.0 / max(1, len(fleet.engines)) if isinstance(rate, str) else rate


def brakes_of(experiment: Experiment) -> BrakeSpec:
    """When an experiment pauses itself, by the config."""
    return BrakeSpec(**experiment.brakes.model_dump())


def mirrored(
    config: Config, experiment: Experiment, kinds: Mapping[str, str], secret: bytes
) -> MirrorExperiment:
    """Whom the shadow process sends copies to, and how."""
    fleet = config.fleet_of(experiment)
    kinds = presumed(experiment, fleet, kinds)
    candidates = (_arm(candidate.name, candidate, kinds) for candidate in experiment.candidates)
    twin = experiment.control.twin
    return MirrorExperiment(
        name=experiment.name,
        fleet=fleet.model,
        arms=(_arm(CONTROL, experiment.control, kinds), *candidates),
        twin=None if twin is None else _arm(TWIN, twin, kinds),
        # a LoRA adapter keeps its own name: only the names of the base model are rewritten
        models=() if fleet.model is None else (fleet.model, *fleet.aliases),
        max_inflight=experiment.max_inflight,
        timeout_s=experiment.timeout_s,
        brakes=brakes_of(experiment),
        rate=share_sampled(experiment, fleet),
        auto=isinstance(experiment.sample.rate, str) and experiment.replay is None,
        salt=derived(secret, f"send again {experiment.name}", _SALT_BYTES),
        warm_up_s=experiment.warm_up_s,
        slots=_slots(experiment),
        replay=_replay(experiment, fleet),
        golden=golden_of(experiment.golden),
        logprobs=experiment.logprobs,
        scored_rows=experiment.scored_rows,
    )


def _slots(experiment: Experiment) -> SlotSpec | None:
    turns = experiment.turns
    return None if experiment.mode == "live" else SlotSpec(turns.slot_s, turns.switch, turns.ready_s)


def _replay(experiment: Experiment, fleet: Fleet) -> ReplaySpec | None:
    said = experiment.replay
    if said is None:
        return None
    files = tuple(map(absolute, said.files))
    return ReplaySpec(files, said.rounds, said.speed, said.requests, said.seconds, names_of(fleet))


def _arm(name: str, arm: Arm, kinds: Mapping[str, str]) -> ArmSpec:
    key = arm.api_key
    headers = () if key is None else (("authorization", f"Bearer {key.get_secret_value()}"),)
    return ArmSpec(
        name=name,
        url=arm.engine,
        kind=kinds.get(arm.engine, "auto"),
        model=arm.model,
        headers=headers,
        tls=engine_tls(arm.tls),
        mark=mark(arm),
    )


def compared(config: Config, experiment: Experiment) -> ExperimentSpec:
    """What the analysis is to find out."""
    return ExperimentSpec(
        name=experiment.name,
        fleet=config.fleet_of(experiment).model or NAMELESS_FLEET,
        candidates=tuple(candidate.name for candidate in experiment.candidates),
        alpha=experiment.alpha,
        margin=experiment.margin,
        window_s=experiment.window_s,
        calibration_s=experiment.calibration_s,
        calibration_pairs=experiment.calibration_pairs,
        slo_ttft_ms=experiment.slo.ttft_ms,
        slo_tpot_ms=experiment.slo.tpot_ms,
        mode=experiment.mode,
        forced_pairs=experiment.forced_pairs,
        scored_pairs=experiment.scored_pairs,
        tokenizer="" if experiment.tokenizer is None else str(experiment.tokenizer.absolute()),
        engines=tuple(map(_identity, (experiment.control, *experiment.candidates))),
        similarity="" if experiment.similarity is None else experiment.similarity.model,
        golden=experiment.golden is not None,
        twin="" if experiment.control.twin is None else _identity(experiment.control.twin),
        traffic=_traffic(experiment),
        race=_race(experiment),
    )


def _race(experiment: Experiment) -> RaceSpec | None:
    said = experiment.race
    if said is None:
        return None
    weights = {} if said.weights is None else said.weights.model_dump()
    counts = {latency: weight for latency, weight in weights.items() if weight}
    return RaceSpec(said.beaten, said.first_rung, counts, said.accept_outputs)


def _traffic(experiment: Experiment) -> str:
    """What tells the traffic from another: of live traffic nothing, of recorded what is replayed, and how."""
    said = experiment.replay
    if said is None:
        return ""
    parts = [*map(absolute, said.files), said.speed, said.requests, said.seconds, experiment.turns.slot_s]
    return " ".join(map(str, parts))


def _identity(arm: Arm) -> str:
    """What tells an arm's engine from another: where it is, or what it is launched with."""
    return f"{mark(arm) or arm.engine} {arm.model or ''}".strip()
