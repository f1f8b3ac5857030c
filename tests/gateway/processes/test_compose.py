"""What each process is told, and that it arrives unchanged."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.spec import AnalysisSpec, EmbedderSpec, ExperimentSpec
from config.load import load
from gateway.processes.compose import Told, compose
from gateway.processes.handover import analysis_from_json, shadow_from_json, to_json, worker_from_json
from gateway.processes.rollout import changes
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec, SamplingSpec, WorkerSpec
from mirror.spec import TWIN, ArmSpec, MirrorExperiment, ShadowSpec

SECRET = bytes(range(32))
SETTINGS: dict[str, Any] = {
    "workers": 2,
    "state_dir": "/tmp/state",
    "fleets": [
        {
            "model": "llama",
            "aliases": ["l"],
            "loras": ["llama-sql"],
            "engines": ["http://a:1", {"url": "http://b:2", "api_key": "sk-b", "model": "meta/llama"}],
        },
        {"engines": [{"url": "http://c:3", "kind": "vllm", "allow_paths": ["/reset_prefix_cache"]}]},
    ],
    "experiments": [
        {
            "name": "fp8",
            "fleet": "l",
            "control": {"engine": "http://d:4", "model": "meta/llama"},
            "candidates": [{"name": "x", "engine": "http://e:5", "api_key": "sk-e"}],
            "slo": {"ttft_ms": 500},
        },
        {
            "name": "any",
            "sample": {"rate": 0.25},
            "control": {"engine": "http://f:6"},
            "candidates": [{"name": "y", "engine": "http://g:7"}],
        },
    ],
}


def told(settings: dict[str, Any] = SETTINGS, secret: bytes = SECRET) -> Told:
    kinds = {"http://d:4": "vllm"}
    return compose(load(None, {}, settings), secret=secret, run_dir="/run/x", version="1", kinds=kinds)


def test_engines_are_numbered_over_all_fleets_and_every_worker_is_told_the_same() -> None:
    specs = told()
    first, second = specs.workers
    assert [engine.id for fleet in first.fleets for engine in fleet.engines] == [0, 1, 2]
    assert specs.engines == 3
    assert (first.index, second.index, first.workers) == (0, 1, 2)
    assert first.fleets == second.fleets
    assert first.prefix_key == second.prefix_key


def test_a_fleet_answers_to_its_model_its_aliases_and_its_adapters() -> None:
    llama, nameless = told().workers[0].fleets
    assert (llama.model, llama.names, llama.default) == ("llama", ("llama", "l", "llama-sql"), False)
    assert (nameless.model, nameless.names, nameless.default) == (None, (), True)
    assert llama.engines[1] == EngineSpec(1, "http://b:2", "auto", "sk-b", "meta/llama")
    assert nameless.engines[0].allow_paths == ("/reset_prefix_cache",)


def test_auto_loads_an_arm_as_one_production_engine_is_loaded() -> None:
    samplings = told().workers[0].experiments
    assert [(s.experiment, s.fleet, s.rate) for s in samplings] == [
        ("fp8", "llama", 0.5),
        ("any", None, 0.25),
    ]


def test_salts_differ_by_experiment_and_deployment_and_survive_a_restart() -> None:
    ours = [sampling.salt for sampling in told().workers[0].experiments]
    assert ours == [sampling.salt for sampling in told().workers[1].experiments]
    theirs = told(secret=bytes(32)).workers[0]
    derived = {*ours, *(s.salt for s in theirs.experiments), theirs.prefix_key, told().workers[0].prefix_key}
    assert len(derived) == 6
    assert all(SECRET not in secret for secret in derived)


def test_the_shadow_gets_the_control_first_each_arm_with_its_own_key_and_kind() -> None:
    shadow = told().shadow
    assert shadow is not None
    first = shadow.experiments[0]
    assert first.arms == (
        ArmSpec("control", "http://d:4", "vllm", "meta/llama"),
        ArmSpec("x", "http://e:5", "auto", None, (("authorization", "Bearer sk-e"),)),
    )
    assert (first.fleet, first.models) == ("llama", ("llama", "l"))


def test_a_second_engine_of_the_controls_is_no_arm_and_another_one_is_another_experiment() -> None:
    def with_twin(url: str) -> Told:
        trial = SETTINGS["experiments"][0]
        control = {**trial["control"], "twin": {"engine": url, "api_key": "sk-t"}}
        return told({**SETTINGS, "experiments": [{**trial, "control": control}]})

    plain, first, second = told(), with_twin("http://h:8"), with_twin("http://i:9")
    assert plain.shadow is not None and first.shadow is not None
    ours, theirs = first.shadow.experiments[0], plain.shadow.experiments[0]
    assert ours.arms == theirs.arms and theirs.twin is None
    assert ours.twin == ArmSpec(TWIN, "http://h:8", "auto", None, (("authorization", "Bearer sk-t"),))
    assert ours.engines == (*ours.arms, ours.twin)
    assert len({one.analysis.experiments[0] for one in (plain, first, second)}) == 3
    assert changes(first, second).anew == ("fp8",)


def test_who_is_asked_of_answers_meaning_is_told_to_the_analysis_and_its_key_to_nobody_who_prints() -> None:
    trial = {**SETTINGS["experiments"][0], "similarity": {"url": "http://s:9", "model": "bge"}}
    keyed = {**trial, "similarity": {**trial["similarity"], "api_key": "sk-s", "rows": 8}}
    plain, keyless, asked = told(), *(told({**SETTINGS, "experiments": [one]}) for one in (trial, keyed))
    assert plain.analysis.embedders == ()
    assert asked.analysis.embedders == (EmbedderSpec("fp8", "http://s:9", "bge", "sk-s", rows=8),)
    assert "sk-s" not in repr(asked)
    assert keyless.analysis.experiments == asked.analysis.experiments  # the key is not what is compared by
    assert changes(plain, asked).anew == ("fp8", "any")  # one is compared otherwise, one is gone


def test_the_analysis_is_told_that_golden_requests_are_asked_whichever_they_are() -> None:
    trial = SETTINGS["experiments"][0]
    some, fewer = (
        told({**SETTINGS, "experiments": [{**trial, "golden": golden}]}) for golden in ({}, {"requests": 3})
    )
    assert [one.analysis.experiments[0].golden for one in (told(), some, fewer)] == [False, True, True]
    assert changes(some, fewer).anew == ()


def test_the_analysis_is_told_where_to_listen_and_what_to_compare() -> None:
    analysis = told().analysis
    assert (analysis.admin_host, analysis.admin_port, analysis.state_dir) == ("127.0.0.1", 8090, "/tmp/state")
    assert [(e.name, e.fleet, e.candidates) for e in analysis.experiments] == [
        ("fp8", "llama", ("x",)),
        ("any", "default", ("y",)),
    ]
    assert (analysis.experiments[0].slo_ttft_ms, analysis.experiments[0].slo_tpot_ms) == (500.0, None)


def test_without_experiments_there_is_no_shadow() -> None:
    assert told({"fleets": [{"engines": ["http://a:1"]}]}).shadow is None


def test_no_key_shows_in_a_printed_spec() -> None:
    assert "sk-" not in repr(told())


def test_a_relative_state_dir_means_the_same_place_to_every_process() -> None:
    analysis = told({"fleets": [{"engines": ["http://a:1"]}], "state_dir": "here"}).analysis
    assert Path(analysis.state_dir) == Path("here").absolute()


FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 60), 1 << 60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
SECONDS = ("connect_timeout_s", "first_token_timeout_s", "idle_timeout_s", "drain_s", "hold_head_ms")
COUNTS = ("body_bytes", "read_bytes", "head_bytes", "retries")
LIMITS = st.builds(
    LimitsSpec, **dict.fromkeys(SECONDS, FINITE), **dict.fromkeys(COUNTS, st.integers(0, 1 << 60))
)
SMALL = st.integers(0, 1 << 60)
WORKERS = st.builds(
    WorkerSpec,
    index=SMALL,
    workers=SMALL,
    fleets=st.lists(
        st.builds(
            FleetSpec,
            engines=st.lists(
                st.builds(
                    EngineSpec,
                    id=SMALL,
                    api_key=st.none() | st.text(),
                    allow_paths=st.lists(st.text(), max_size=2).map(tuple),
                ),
                max_size=3,
            ).map(tuple),
            params=st.dictionaries(st.text(), JSON, max_size=3),
        ),
        max_size=2,
    ).map(tuple),
    experiments=st.lists(st.builds(SamplingSpec, rate=FINITE), max_size=2).map(tuple),
    limits=LIMITS,
    lane_bytes=SMALL,
    copy_bytes=SMALL,
)


@given(WORKERS)
def test_a_worker_reads_what_was_written(spec: WorkerSpec) -> None:
    assert worker_from_json(to_json(spec)) == spec


ARMS = st.lists(
    st.builds(ArmSpec, headers=st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple)), max_size=3
)


@given(
    st.lists(ARMS, max_size=2),
    st.lists(
        st.builds(ExperimentSpec, alpha=FINITE, margin=FINITE, window_s=FINITE, calibration_s=FINITE,
                  calibration_pairs=SMALL, slo_ttft_ms=st.none() | FINITE, slo_tpot_ms=st.none() | FINITE),
        max_size=2,
    ),
    st.text(),
)  # fmt: skip
def test_shadow_and_analysis_read_what_was_written(
    arms: list[list[ArmSpec]], compared: list[ExperimentSpec], text: str
) -> None:
    experiments = tuple(
        MirrorExperiment(
            text,
            None,
            (
                ArmSpec("control", text),
                *(ArmSpec(f"c{i}", a.url, a.kind, a.model, a.headers) for i, a in enumerate(some)),
            ),
        )
        for some in arms
    )
    shadow = ShadowSpec(text, experiments)
    assert shadow_from_json(to_json(shadow)) == shadow
    analysis = AnalysisSpec(text, 1, text, text, tuple(compared), text)
    assert analysis_from_json(to_json(analysis)) == analysis


@pytest.mark.parametrize("text", [b"", b"{}", b'{"index": "one"}'])
def test_what_is_no_spec_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"Input|Object|Expected"):
        worker_from_json(text)
