"""What a launched engine is started with: filled in, marked, on a port of its own, without our settings."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.load import load
from config.schema import Config
from gateway.commands.check import everyone, launched
from gateway.launch.composed import launch_spec, mark
from gateway.launch.free import Claims
from gateway.launch.gpus import Gpu
from gateway.launch.ports import Ports
from gateway.launch.reading import NoHardware, Reading
from gateway.launch.spec import LaunchSpec, from_json, to_json
from gateway.launch.template import filled


def config(control: dict[str, Any], candidate: dict[str, Any], **fleet: Any) -> Config:
    trial = {"name": "t", "control": control, "candidates": [{"name": "x", **candidate}]}
    fleets = [{"model": "m", "engines": ["http://a:1"], **fleet}]
    return load(None, {}, {"fleets": fleets, "experiments": [trial]})


def spec(*told: Any, env: dict[str, str] | None = None, **fleet: Any) -> LaunchSpec:
    found = launch_spec(Ports()(config(*told, **fleet)), "/run", env or {})
    assert found is not None
    return found


PLAIN = {"launch": "serve --port {port}"}


@given(st.text(), st.dictionaries(st.sampled_from(["port", "gpus"]), st.just("7")))
def test_only_the_words_that_are_known_are_filled_in(text: str, values: dict[str, str]) -> None:
    written = filled(text, values)
    if not any("{" + word + "}" in text for word in values):
        assert written == text
    for word in values:
        assert "{" + word + "}" not in filled("{" + word + "}", values)


def test_a_second_control_is_launched_as_the_control_is_on_a_port_and_gpus_of_its_own() -> None:
    launch = {"launch": "serve --port {port} {name}"}
    control, twin, _ = spec({**launch, "gpus": [1], "twin": {**launch, "gpus": [2]}}, launch).engines
    assert (control.arm, twin.arm) == ("control", "control-twin")
    assert twin.argv == ("serve", "--port", str(twin.port), "control")
    assert twin.port != control.port and (control.named, twin.named) == (("1",), ("2",))


def test_flags_that_hold_json_stay_as_they_are() -> None:
    told = {"launch": """serve '{"port": {"a": {port}}}' {other} {}"""}
    engine = spec(told, PLAIN).engines[0]
    assert engine.argv == ("serve", f'{{"port": {{"a": {engine.port}}}}}', "{other}", "{}")


def test_a_command_and_its_variables_get_the_port_the_host_the_model_the_arm_and_the_number_of_gpus() -> None:
    launch = {"command": ["s", "{host}:{port}", "{model}", "{name}", "{gpus}"], "env": {"P": "{port}"}}
    ours, theirs = spec({"launch": launch, "gpus": 2, "model": "other"}, {"launch": launch}).engines
    assert ours.argv == ("s", f"127.0.0.1:{ours.port}", "other", "control", "2")
    assert theirs.argv == ("s", f"127.0.0.1:{theirs.port}", "m", "x", "1")
    assert ours.env == (("P", str(ours.port)),)
    assert (ours.url, ours.gpus, theirs.gpus) == (f"http://127.0.0.1:{ours.port}", 2, 1)


def test_engines_get_what_the_gateway_was_started_with_but_not_its_own_settings() -> None:
    env = {"PATH": "/bin", "HF_TOKEN": "hf", "SHADOWLANE_KEYS": "[]"}
    assert dict(spec(PLAIN, PLAIN, env=env).environment) == {"PATH": "/bin", "HF_TOKEN": "hf"}


def test_ports_differ_stay_over_reloads_and_are_those_that_are_written() -> None:
    ports = Ports()
    first = ports(config(PLAIN, PLAIN))
    again = ports(config(PLAIN, PLAIN))
    assert first == again
    control, candidate = first.experiments[0].control, first.experiments[0].candidates[0]
    assert control.engine != candidate.engine
    written = ports(config(PLAIN, {"launch": {"command": "serve", "port": 4321}}))
    assert written.experiments[0].candidates[0].engine == "http://127.0.0.1:4321"
    assert Ports()(config({"engine": "http://b"}, {"engine": "http://c"})) == config(
        {"engine": "http://b"}, {"engine": "http://c"}
    )


def test_two_gateways_give_engines_of_the_same_names_ports_of_their_own_though_none_listens_yet() -> None:
    one, other = Ports(), Ports()
    told = config(PLAIN, PLAIN)
    first, second = (ports(told).experiments[0] for ports in (one, other))
    given = [arm.engine for two in (first, second) for arm in (two.control, *two.candidates)]
    assert len(set(given)) == 4


def test_a_port_is_free_for_others_once_the_gateway_that_had_it_is_gone() -> None:
    one, other, port = Claims(), Claims(), 100_000 + os.getpid()  # it is but a name
    assert one.claim(port) and not other.claim(port)
    del one
    assert other.claim(port)


def test_a_port_that_another_arm_wants_by_name_is_not_given_to_one_that_wants_any() -> None:
    ports = Ports()
    taken = ports(config(PLAIN, PLAIN)).experiments[0].control.launch
    assert taken is not None
    both = ports(config(PLAIN, {"launch": {"command": "serve", "port": taken.port}})).experiments[0]
    assert both.control.engine != both.candidates[0].engine


@pytest.mark.parametrize(
    ("other", "is_other"),
    [
        ({"launch": "serve --port {port} --fp8"}, True),
        ({"launch": {"command": "serve --port {port}", "env": {"A": "1"}}}, True),
        ({"launch": {"command": "serve --port {port}", "folder": "/x"}}, True),
        ({**PLAIN, "gpus": 2}, True),
        ({**PLAIN, "gpus": 1}, False),
        ({"launch": {"command": ["serve", "--port", "{port}"], "port": 4321, "ready_s": 5}}, False),
    ],
)
def test_another_command_environment_or_number_of_gpus_is_another_configuration(
    other: dict[str, Any], is_other: bool
) -> None:
    one, two = config(PLAIN, PLAIN).experiments[0].control, config(other, PLAIN).experiments[0].control
    assert (mark(one) != mark(two)) is is_other
    assert mark(one) and not mark(config({"engine": "http://b"}, PLAIN).experiments[0].control)


def test_gpus_of_arms_that_are_not_launched_are_watched_and_productions_are_named() -> None:
    told = {"engine": "http://b", "gpus": ["GPU-1"], "dcgm": "http://b:9400"}
    found = spec(told, {"engine": "http://c"}, gpus=["GPU-0", 3])
    assert [(one.arm, one.gpus, one.dcgm) for one in found.watched] == [
        ("control", ("GPU-1",), "http://b:9400")
    ]
    assert found.engines == () and found.production_gpus == ("GPU-0", "3")
    assert launch_spec(config({"engine": "http://b"}, {"engine": "http://c"}), "/run", {}) is None


def test_what_is_told_arrives_as_it_was(tmp_path: Path) -> None:
    told = spec({**PLAIN, "gpus": ["0"]}, {"launch": {"command": "s {port}", "folder": str(tmp_path)}})
    assert from_json(to_json(told)) == told
    assert told.engines[0].named == ("0",)


def test_a_check_asks_no_engine_that_is_yet_to_be_launched_and_says_what_cannot_be_run() -> None:
    asked = config({"launch": "sh -c true {port}"}, {"launch": "/no/such/engine {port}"})
    assert [one.place.url for one in everyone(asked)] == ["http://a:1"]
    said = list(launched(asked))
    assert [why for _, why in said] == [None, "there is no program /no/such/engine to be run here"]
    assert "(t: control)" in said[0][0] and "(t: candidate x)" in said[1][0]


class Gpus:
    """A machine with GPUs, of which nothing is asked yet."""

    def look(self) -> tuple[Gpu, ...]:
        return ()

    def read(self, uuids: Sequence[str]) -> tuple[Reading, ...]:
        return ()


def test_a_check_says_where_a_gpu_is_wanted_and_there_is_none() -> None:
    asked = config({"launch": "sh -c true {port}"}, {"launch": "sh -c true {port}", "gpus": 0})

    def none() -> Gpus:
        raise NoHardware("no driver")

    (control, why), (candidate, _) = launched(asked, none)
    assert "missing: a GPU here: no driver; gpus: 0 starts it without" in control and why is None
    assert "missing" not in candidate
    assert not [said for said, _ in launched(asked, Gpus) if "missing" in said]
