"""The schema: frozen, complete, described, and shown in full by the examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from config import schema
from config.explain import keys, nested
from config.load import load
from config.strict import Strict

EXAMPLES = Path(schema.__file__).parent / "examples"
KEYS = {"PRODUCTION_KEY": "sk-production-1", "SPARE_KEY": "sk-spare-2"}
MODELS = [
    kind
    for kind in vars(schema).values()
    if isinstance(kind, type) and issubclass(kind, Strict) and kind is not Strict
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_setting_says_what_it_means(model: type[BaseModel]) -> None:
    assert model.__doc__
    for name, field in model.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_part_is_frozen_and_refuses_unknown_keys(model: type[BaseModel]) -> None:
    assert model.model_config["frozen"] is True
    assert model.model_config["extra"] == "forbid"


@pytest.mark.parametrize("name", ["minimal", "two_candidates", "launched", "everything"])
def test_an_example_loads(name: str) -> None:
    config = load(EXAMPLES / f"{name}.yaml", KEYS, {})
    assert config.fleets


def test_the_examples_are_those_tested() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == [
        "everything",
        "launched",
        "minimal",
        "two_candidates",
    ]


def test_everything_is_in_the_everything_example() -> None:
    written = set(_paths(yaml.safe_load((EXAMPLES / "everything.yaml").read_text())))
    assert set(_settings(schema.Config)) <= written


def test_a_minimal_file_gets_every_default() -> None:
    config = load(EXAMPLES / "minimal.yaml", {}, {})
    assert (config.listen, config.admin, config.workers) == ("127.0.0.1:8080", "127.0.0.1:8090", 1)
    assert config.fleets[0].engines == (schema.Engine(url="http://127.0.0.1:8000"),)
    assert config.fleets[0].default is True
    assert config.fleets[0].policy.name == "prefix_cost"
    assert config.limits.body_bytes == 128 << 20
    assert config.mirror == schema.Mirror(lane_bytes=64 << 20, copy_bytes=8 << 20)


def test_a_setting_cannot_be_changed_afterwards() -> None:
    config = load(EXAMPLES / "minimal.yaml", {}, {})
    with pytest.raises(ValidationError):
        config.workers = 2
    assert isinstance(config.fleets, tuple)


def test_keys_appear_in_no_text_of_a_config() -> None:
    config = load(EXAMPLES / "everything.yaml", KEYS, {})
    texts = [repr(config), str(config), config.model_dump_json(), str(config.model_dump())]
    assert not [key for key in KEYS.values() for text in texts if key in text]
    key = config.fleets[0].engines[1].api_key
    assert key is not None and key.get_secret_value() == "sk-production-1"


def test_what_is_dumped_loads_to_the_same() -> None:
    config = load(EXAMPLES / "two_candidates.yaml", {}, {})
    assert schema.Config.model_validate(config.model_dump(mode="json")) == config


def test_an_experiment_without_a_fleet_takes_the_only_one() -> None:
    config = load(EXAMPLES / "two_candidates.yaml", {}, {})
    assert config.fleet_of(config.experiments[0]) is config.fleets[0]


def test_an_experiment_finds_its_fleet_by_an_alias() -> None:
    fleets = [{"engines": ["http://a"]}, {"model": "m", "aliases": ["n"], "engines": ["http://b"]}]
    trial = {
        "name": "t",
        "control": {"engine": "http://c"},
        "candidates": [{"name": "x", "engine": "http://d"}],
    }
    config = load(None, {}, {"fleets": fleets, "experiments": [{**trial, "fleet": "n"}]})
    assert config.fleet_of(config.experiments[0]) is config.fleets[1]
    config = load(None, {}, {"fleets": fleets, "experiments": [trial]})
    assert config.fleet_of(config.experiments[0]) is config.fleets[0]


def _settings(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, kind in keys(model).items():
        yield f"{path}{name}"
        if (inner := nested(kind)) is not None:
            yield from _settings(inner, f"{path}{name}.")


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _paths(item, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}{key}"
            yield from _paths(item, f"{path}{key}.")
