"""Which launched engines the shadow process may send copies to, and which arms their absence holds up."""

import json
from typing import Any

from config.load import load
from config.schema import Arm, Config
from gateway.launch.composed import mark
from gateway.launch.launched import Launched
from gateway.launch.ports import Ports
from gateway.launch.spec import EngineTold, LaunchTold, to_json
from gateway.processes.compose import Told, compose
from mirror.readiness import Readiness

PORTS = Ports()


def config(*flags: str, kind: str = "auto", twin: bool = False) -> Config:
    """A control and a candidate for each flag, all launched; production's engine is of this kind."""
    arms = [{"launch": f"serve --port {{port}} {flag}"} for flag in ("", *flags)]
    candidates = [{"name": f"c{n}", **arm} for n, arm in enumerate(arms[1:])]
    control: dict[str, Any] = {**arms[0], "twin": arms[0]} if twin else arms[0]
    trial = {"name": "t", "control": control, "candidates": candidates}
    fleet = {"model": "m", "engines": [{"url": "http://a:1", "kind": kind}]}
    return PORTS(load(None, {}, {"fleets": [fleet], "experiments": [trial]}))


def composed(config: Config, launched: Launched) -> Told:
    return compose(config, secret=bytes(32), run_dir="/run", version="0", kinds=launched.kinds(config))


def told(config: Config, kinds: dict[str, str | None] | None = None, **states: str) -> bytes:
    """How the launched engines fare; all are vllm, or of `kinds`, where None does not tell."""
    one = config.experiments[0]
    arms: dict[str, Arm] = {name: arm for name, _place, arm in one.arms}
    engines = tuple(
        EngineTold(
            "t", name, mark(arm), arm.engine, states.get(name, "ready"), kind=(kinds or {}).get(name, "vllm")
        )
        for name, arm in arms.items()
    )
    return to_json(LaunchTold(engines))


def lacking(launched: Launched, told: Told, *, settled: bool = True) -> Any:
    """The arms that keep copies waiting, as the shadow process has it."""
    said = launched.ready(told, settled=settled)
    if said is None:
        return "nothing new"
    launched.heard()
    readiness = Readiness()
    readiness.told(said)
    assert told.shadow is not None
    return readiness.lacking(told.shadow.experiments[0])


def forgone(launched: Launched, told: Told) -> list[str]:
    """The arms that fail their copies unasked, as a new shadow process has it."""
    launched.forgotten()
    said, readiness = launched.ready(told, settled=True), Readiness()
    assert said is not None and told.shadow is not None
    readiness.told(said)
    return readiness.forgone(told.shadow.experiments[0])


def test_a_second_control_that_is_given_up_is_never_ready_and_no_candidate_stands_in_for_it() -> None:
    launched, now = Launched(), config("a", twin=True)
    launched.told(told(now, {}, **{"control-twin": "failed"}), now)
    assert lacking(launched, composed(now, launched)) == ["control-twin"]
    launched.told(told(now, {}, **{"control-twin": "ready", "c0": "failed"}), now)
    assert lacking(launched, composed(now, launched)) == ["c0"]  # there is none beside it to go on with
    launched.told(told(now), now)
    assert lacking(launched, composed(now, launched)) == []


def test_all_arms_wait_until_all_are_ready() -> None:
    now, launched = config("a"), Launched()
    assert lacking(launched, composed(now, launched)) == ["control", "c0"]
    launched.told(told(now, c0="warming"), now)
    assert lacking(launched, composed(now, launched)) == ["c0"]
    launched.told(told(now), now)
    assert lacking(launched, composed(now, launched)) == []
    assert lacking(launched, composed(now, launched)) == "nothing new"
    launched.told(told(now, control="restarting"), now)
    assert lacking(launched, composed(now, launched)) == ["control"]


def test_an_engine_is_ready_only_as_what_it_turned_out_to_be() -> None:
    now, launched = config("a"), Launched()
    before = composed(now, launched)
    assert launched.told(told(now), now)  # they are vllm: the specs must say so first
    assert lacking(launched, before) == ["control", "c0"]
    assert not launched.told(told(now), now)
    assert lacking(launched, composed(now, launched)) == []


def kinds(told: Told) -> list[str]:
    assert told.shadow is not None
    return [arm.kind for arm in told.shadow.experiments[0].arms]


def test_one_that_is_what_its_fleet_is_changes_nothing_when_it_was_asked() -> None:
    now, launched = config("a", kind="vllm"), Launched()
    before = composed(now, launched)
    assert kinds(before) == ["vllm", "vllm"]
    assert lacking(launched, before) == ["control", "c0"]  # and has no copy before it was
    launched.told(told(now), now)
    assert lacking(launched, before) == []
    assert composed(now, launched).shadow == before.shadow


def test_what_one_arm_turned_out_to_be_the_others_are_taken_to_be_until_they_are_asked() -> None:
    now, launched = config("a", "b"), Launched()
    asked = {"control": "sglang", "c0": None, "c1": None}
    assert launched.told(told(now, asked, c0="resting", c1="resting"), now)
    before = composed(now, launched)
    assert kinds(before) == ["sglang", "sglang", "sglang"]
    launched.told(told(now, {**asked, "c0": "sglang"}, c1="resting"), now)
    assert lacking(launched, before) == ["c1"]
    assert composed(now, launched).shadow == before.shadow
    assert launched.told(told(now, {**asked, "c0": "sglang", "c1": "vllm"}), now)  # one of another kind
    assert lacking(launched, before) == "nothing new"  # it waits
    assert kinds(composed(now, launched)) == ["sglang", "sglang", "vllm"]


def test_one_that_does_not_tell_is_spoken_to_as_plain_openai_whatever_the_others_are() -> None:
    now, launched = config("a", kind="vllm"), Launched()
    before = composed(now, launched)
    assert launched.told(told(now, {"c0": None}), now)
    assert lacking(launched, before) == ["c0"]
    after = composed(now, launched)
    assert kinds(after) == ["vllm", "auto"] and lacking(launched, after) == []


def test_one_that_was_started_otherwise_before_a_reload_is_not_ready_after_it() -> None:
    now, launched = config("a"), Launched()
    launched.told(told(now), now)
    assert lacking(launched, composed(now, launched)) == []
    other = config("b")
    assert lacking(launched, composed(other, launched)) == ["c0"]


def test_while_specs_are_on_their_way_none_becomes_ready_and_any_may_cease_to_be() -> None:
    now, launched = config("a"), Launched()
    launched.told(told(now, c0="warming"), now)
    specs = composed(now, launched)
    assert lacking(launched, specs) == ["c0"]
    launched.told(told(now, control="restarting"), now)
    assert lacking(launched, specs, settled=False) == ["control", "c0"]
    assert lacking(launched, specs) == ["control"]


def test_a_candidate_that_was_given_up_holds_no_other_up_but_a_control_does() -> None:
    now, launched = config("a", "b"), Launched()
    launched.told(told(now, c0="failed"), now)
    specs = composed(now, launched)
    assert (lacking(launched, specs), forgone(launched, specs)) == ([], ["c0"])
    launched.told(told(now, c0="failed", c1="failed"), now)
    assert (lacking(launched, specs), forgone(launched, specs)) == (["c0", "c1"], [])
    launched.told(told(now, control="failed"), now)
    assert lacking(launched, specs) == ["control"]


def test_a_new_shadow_process_hears_it_anew_and_a_lost_launcher_makes_none_ready() -> None:
    now, launched = config("a"), Launched()
    launched.told(told(now), now)
    specs = composed(now, launched)
    assert lacking(launched, specs) == []
    launched.forgotten()
    assert lacking(launched, specs) == []
    launched.lost()
    said = launched.ready(specs, settled=True)
    assert said is not None and json.loads(said)["losses"] == 1
    assert lacking(launched, specs) == ["control", "c0"]
    assert {one["state"] for one in launched.shown()["engines"]} == {"waiting"}
    json.dumps(launched.shown())
