"""`shadowlane check`: whether engines serve the models they are asked for, and commands answer."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.gateway.commands.test_check import Answers, checked, recorded


def listing(*models: str) -> Answers:
    """A vLLM that serves these, or offers no list."""
    answers = dict(recorded("vllm"))
    listed = json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in models]})
    answers["/v1/models"] = (200, listed) if models else (404, "")
    return answers


def test_an_engine_that_does_not_serve_the_model_it_is_asked_for_is_failure() -> None:
    def fleet(**engine: str) -> tuple[int, str]:
        return checked(
            {"e": (listing("tiny", "small"), None)},
            lambda urls: {"fleets": [{"model": "other", "engines": [{"url": urls["e"], **engine}]}]},
        )

    status, text = fleet()
    assert status == 1 and "not served: model other: set model to what it serves (tiny, small)" in text
    assert "1 engine: all reachable, 1 of them not serving the model" in text
    status, text = fleet(model="large")
    assert status == 1 and "not served: model large" in text
    status, text = fleet(model="small")
    assert status == 0 and "not served" not in text


def test_an_arm_is_held_to_the_fleets_model_too() -> None:
    def experiment(urls: Mapping[str, str]) -> Any:
        arms = {"control": {"engine": urls["a"]}, "candidates": [{"name": "c", "engine": urls["b"]}]}
        fleet = {"model": "tiny", "engines": [urls["production"]]}
        return {"fleets": [fleet], "experiments": [{"name": "x", **arms}]}

    engines = {name: (listing("tiny"), None) for name in ("production", "a")}
    status, text = checked({**engines, "b": (listing("other"), None)}, experiment)
    assert status == 1 and text.count("not served: model tiny") == 1
    assert "(x: candidate c)" in text.partition("not served")[0].rpartition("http://")[2]


def test_of_an_engine_that_lists_no_models_it_is_said_that_nothing_is_known() -> None:
    status, text = checked(
        {"e": (listing(), None)},
        lambda urls: {"fleets": [{"model": "tiny", "engines": [urls["e"]]}]},
    )
    assert status == 0
    assert (
        "missing: a list of models: GET /v1/models gave none, so whether it serves tiny is not known" in text
    )


def test_an_adapter_that_is_not_loaded_yet_is_said_and_is_no_failure() -> None:
    status, text = checked(
        {"e": (listing("tiny", "french"), None)},
        lambda urls: {"fleets": [{"model": "tiny", "loras": ["french", "dutch"], "engines": [urls["e"]]}]},
    )
    assert status == 0 and "missing: adapter dutch: load it there" in text


UPPER = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"request": None, "answer": "OK"}), flush=True)
"""


def test_a_command_that_redacts_is_tried_and_one_that_does_not_answer_is_failure(tmp_path: Path) -> None:
    def redacting(*command: str) -> tuple[int, str]:
        record = {"to": str(tmp_path), "text": True, "redact_command": list(command)}
        engines = {"e": (listing("tiny"), None)}
        return checked(engines, lambda urls: {"fleets": [{"engines": [urls["e"]]}], "record": record})

    status, text = redacting(sys.executable, "-c", UPPER)
    assert status == 0 and f"{sys.executable}  (record: redact_command)\n  answers\n" in text
    for command, why in (
        (("/no/such/program", "a-key"), "No such file or directory"),
        ((sys.executable, "-c", "pass"), "it ended"),
        ((sys.executable, "-c", "input(); print('x', flush=True); input()"), "no object with request"),
    ):
        status, text = redacting(*command)
        assert status == 1 and f"{command[0]}  (record: redact_command)\n  not usable: " in text
        assert why in text and "a-key" not in text
