"""What admission is told of a configuration, and that nothing is told where nothing is limited."""

from typing import Any

import pytest

from config.load import load
from gateway.admission.composed import composed
from gateway.admission.keys import hashed
from gateway.processes.compose import compose
from gateway.processes.handover import to_json, worker_from_json
from gateway.spec import AdmissionSpec, KeySpec, RoomSpec

FLEET = {"model": "m", "engines": ["http://a:1"]}
KEY = {"name": "a", "hash": hashed("sl-a")}


def spec(**settings: Any) -> AdmissionSpec | None:
    return composed(load(None, {}, {"fleets": [FLEET], **settings}))


def told(**settings: Any) -> AdmissionSpec:
    made = spec(**settings)
    assert made is not None
    return made


def test_with_neither_keys_nor_limits_there_is_no_admission() -> None:
    assert spec() is None
    assert spec(admission={"queue_entries": 5}) is None
    assert spec(fleets=[{**FLEET, "when_full": {"max_tokens": 5}}]) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"keys": [KEY]},
        {"admission": {"limits": {"requests_per_s": 5}}},
        {"fleets": [{**FLEET, "concurrency": 5}]},
        {"fleets": [{**FLEET, "engine_concurrency": 5}]},
        {"fleets": [{**FLEET, "engines": [{"url": "http://a:1", "concurrency": 5}]}]},
    ],
)
def test_any_key_or_limit_makes_one(settings: dict[str, Any]) -> None:
    assert spec(**settings) is not None


def test_who_may_come_without_a_key() -> None:
    limits = {"limits": {"concurrency": 9}}
    assert told(admission=limits).keys == (KeySpec("anonymous", 0),)
    assert [key.name for key in told(keys=[KEY]).keys] == ["a"]
    assert [key.name for key in told(keys=[KEY], admission={"anonymous": True}).keys] == ["a", "anonymous"]


def test_a_burst_left_out_is_a_seconds_requests_and_a_minutes_prompt_tokens() -> None:
    rates = {"requests_per_s": 2.5, "prompt_tokens_per_s": 100}
    (key,) = told(keys=[{**KEY, "priority": "low", "weight": 3, "limits": rates}]).keys
    assert (key.requests_burst, key.prompt_tokens_burst, key.concurrency) == (3, 6000, None)
    assert (key.slot, key.priority, key.weight, key.hash) == (1, 2, 3.0, hashed("sl-a"))
    slow = told(admission={"limits": {"requests_per_s": 0.01}}).everyone
    assert (slow.requests_burst, slow.prompt_tokens_per_s) == (1, None)


def test_what_a_full_fleet_does_and_its_engines_take() -> None:
    fleets = [
        {**FLEET, "concurrency": 7, "when_full": {"fallback": "n", "max_tokens": 9, "wait": False}},
        {
            "model": "n",
            "engine_concurrency": 4,
            "engines": ["http://b:1", {"url": "http://c:1", "concurrency": 2}],
        },
    ]
    config = load(None, {}, {"fleets": fleets})
    worker = compose(config, secret=bytes(32), run_dir="/run/x", version="1").workers[0]
    assert worker.admission is not None
    assert worker.admission.rooms == (RoomSpec("m", 0, 7, "n", 9, False), RoomSpec("n", 1))
    assert [engine.concurrency for fleet in worker.fleets for engine in fleet.engines] == [None, 4, 2]
    assert worker_from_json(to_json(worker)) == worker
    assert hashed("sl-a") not in repr(told(keys=[KEY]))


def test_slots_stay_with_their_names() -> None:
    config = load(None, {}, {"fleets": [FLEET], "keys": [KEY, {"name": "b", "hash": hashed("sl-b")}]})
    made = composed(config, {"m": 5}, {"anonymous": 0, "b": 1, "a": 7})
    assert made is not None
    assert ([key.slot for key in made.keys], made.rooms[0].slot) == ([7, 1], 5)
