"""Learning from production's own requests is off unless asked for, and refused where it could not be."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.load import ConfigError, load
from gateway.processes.compose import compose
from gateway.processes.handover import to_json, worker_from_json
from gateway.spec import LearnSpec

ASKS = {"learn": {"ask_production": True}}
URL = "http://e:1"


def learned(tmp_path: Path, fleet: dict[str, Any]) -> LearnSpec | None:
    """What a worker is told of a fleet's learning."""
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({"fleets": [{"engines": [URL], **fleet}]}))
    config = load(tmp_path / "a.yaml", {}, {})
    return (
        worker_from_json(to_json(compose(config, secret=bytes(32), run_dir="r", version="v").workers[0]))
        .fleets[0]
        .learn
    )


def test_production_is_not_asked_unless_the_operator_says_so(tmp_path: Path) -> None:
    plain, asks = learned(tmp_path, {}), learned(tmp_path, ASKS)
    assert plain is not None and not plain.production
    assert asks is not None and asks.production
    alone = learned(tmp_path, {"learn": {"ask_production": True, "tokenize": False, "copies": False}})
    assert alone is not None and (alone.tokenize, alone.copies, alone.production) == (False, False, True)


@pytest.mark.parametrize(
    ("fleet", "why"),
    [
        ({"kv_events": {"read": "off"}}, "false, or kv_events that are read: else nothing is learned"),
        (
            {"engines": [{"url": URL, "role": "prefill"}, {"url": "http://f:1", "role": "decode"}]},
            "false where engines have roles: their requests are split",
        ),
    ],
)
def test_where_nothing_could_be_learned_so_it_is_refused(
    tmp_path: Path, fleet: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        learned(tmp_path, {**fleet, **ASKS})
    assert f"fleets[0].learn.ask_production: expected {why}, found true" in str(refused.value)
