"""Plug-ins: the file's name is the name in the config, and a setting nobody reads is refused at the start."""

from dataclasses import FrozenInstanceError, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

import analysis.metrics
import analysis.readers
import config
import routing.policies
import wire.engines
from config import plugins
from config.complaint import ConfigError
from config.load import load
from config.schema import KINDS

PACKAGES = [routing.policies, analysis.readers, analysis.metrics]
EVERY = [(package, name) for package in PACKAGES for name in plugins.names(package)]
EXAMPLES = sorted((Path(config.__file__).parent / "examples").glob("*.yaml"))

every_plugin = pytest.mark.parametrize(
    ("package", "name"), EVERY, ids=lambda part: getattr(part, "__name__", part)
)


@every_plugin
def test_it_is_built_from_its_defaults(package: ModuleType, name: str) -> None:
    assert plugins.build(package, name, {}) is not None


@every_plugin
def test_its_settings_are_a_frozen_dataclass_with_defaults(package: ModuleType, name: str) -> None:
    params: Any = import_module(f"{package.__name__}.{name}").Params
    assert params() == params()
    for name_of_setting in params.__dataclass_fields__:
        with pytest.raises(FrozenInstanceError):
            setattr(params(), name_of_setting, 1)
    assert is_dataclass(params)


@every_plugin
def test_an_unknown_setting_is_refused(package: ModuleType, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plugins.build(package, name, {"no_such_setting": 1})
    assert str(refused.value).startswith(f"{package.__name__}: params.no_such_setting: expected ")
    assert str(refused.value).endswith(f'(the settings of {name}), found the unknown key "no_such_setting"')


@every_plugin
def test_a_misspelt_setting_is_told_its_name(package: ModuleType, name: str) -> None:
    for field in fields(import_module(f"{package.__name__}.{name}").Params):
        with pytest.raises(ConfigError, match=rf"did you mean {field.name}\?$"):
            plugins.build(package, name, {f"{field.name}x": 1}, source="a.yaml", path=("fleets", 0, "policy"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_an_unknown_name_lists_the_names_that_there_are(package: ModuleType) -> None:
    known = plugins.names(package)
    with pytest.raises(ConfigError) as refused:
        plugins.build(package, f"{known[0]}x", {})
    assert f"name: expected one of {', '.join(known)}, found" in str(refused.value)
    assert str(refused.value).endswith(f"; did you mean {known[0]}?")


def test_files_that_begin_with_an_underscore_are_no_plugins() -> None:
    assert not [name for package in PACKAGES for name in plugins.names(package) if name.startswith("_")]
    with pytest.raises(ConfigError):
        plugins.build(analysis.readers, "_events", {})


def test_a_path_is_no_name() -> None:
    for name in ("../policy", "policies.prefix_cost", "", "prefix_cost.py"):
        with pytest.raises(ConfigError):
            plugins.build(routing.policies, name, {})


def test_a_setting_of_the_wrong_type_names_its_place() -> None:
    place = ("fleets", 1, "policy")
    with pytest.raises(ConfigError) as refused:
        plugins.build(routing.policies, "prefix_cost", {"pressure_s": "fast"}, source="a.yaml", path=place)
    assert str(refused.value) == (
        'a.yaml: fleets[1].policy.params.pressure_s: expected a number, found "fast"'
    )


def test_settings_that_a_plugin_refuses_are_told_in_its_words() -> None:
    with pytest.raises(ConfigError) as refused:
        plugins.build(routing.policies, "prefix_cost", {"pressure_s": -1})
    assert str(refused.value) == (
        "routing.policies: params: expected settings that fit prefix_cost, "
        "found a mistake: pressure_s must be 0 or more, not -1.0"
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_policies_of_the_examples_exist(path: Path) -> None:
    for fleet in load(path, {"PRODUCTION_KEY": "a", "SPARE_KEY": "b"}, {}).fleets:
        plugins.build(routing.policies, fleet.policy.name, fleet.policy.params)


def test_the_kinds_of_the_schema_are_the_engines_there_are() -> None:
    assert sorted(get_args(KINDS)) == sorted(["auto", *plugins.names(wire.engines)])
