"""Flags: a gateway without a file, and what does not go together."""

from pathlib import Path
from typing import Any

import pytest

from config.flags import overrides
from config.load import ConfigError, load


def refusal(**flags: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load(None, {}, overrides(**flags))
    return str(refused.value)


def test_engines_alone_are_one_fleet_for_every_model() -> None:
    config = load(
        None, {}, overrides(["http://a:1", "http://b:1"], listen="[::1]:0", admin="localhost:0", workers=3)
    )
    assert [engine.url for engine in config.fleets[0].engines] == ["http://a:1", "http://b:1"]
    assert (config.fleets[0].model, config.fleets[0].default) == (None, True)
    assert (config.listen, config.admin, config.workers) == ("[::1]:0", "localhost:0", 3)
    assert config.experiments == ()


def test_control_and_candidates_are_one_experiment() -> None:
    config = load(
        None,
        {},
        overrides(["http://a"], "http://c", ["fp8=http://d", "x=unix:///e"], sample_rate=1),
    )
    experiment = config.experiments[0]
    assert (experiment.name, experiment.control.engine) == ("trial", "http://c")
    assert [(c.name, c.engine) for c in experiment.candidates] == [("fp8", "http://d"), ("x", "unix:///e")]
    assert experiment.sample.rate == 1.0
    assert config.fleet_of(experiment) is config.fleets[0]


def test_nothing_given_sets_nothing() -> None:
    assert overrides() == {}


def test_an_experiment_may_be_added_to_a_file_with_fleets(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("fleets: [{model: m, engines: [http://a]}]")
    config = load(tmp_path / "a.yaml", {}, overrides(control="http://c", candidates=["x=http://d"]))
    assert config.experiments[0].candidates[0].name == "x"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"engines": ["http://a"], "candidates": ["x=http://d"]},
            "command line: expected --control URL with --candidate: a candidate is judged against "
            "production's own "
            "configuration, found none",
        ),
        (
            {"engines": ["http://a"], "control": "http://c"},
            "command line: expected --candidate NAME=URL with --control, found none",
        ),
        (
            {"engines": ["http://a"], "sample_rate": 0.5},
            "command line: expected --sample-rate together with --control and --candidate, found it alone",
        ),
        (
            {"engines": ["http://a"], "control": "http://c", "candidates": ["http://d?a=b"]},
            "command line: expected --candidate NAME=URL, as in --candidate fp8=http://10.0.1.2:8000, "
            'found "http://d?a=b"',
        ),
        (
            {"engines": ["http://a"], "control": "http://c", "candidates": ["=http://d"]},
            "command line: expected --candidate NAME=URL, as in --candidate fp8=http://10.0.1.2:8000, "
            'found "=http://d"',
        ),
        (
            {},
            "command line: fleets: expected an engine to stand in front of: --engine URL, or a "
            "file with fleets: "
            "-c FILE, found neither",
        ),
        (
            {"engines": ["a:8000"]},
            "command line: fleets[0].engines[0]: expected a URL such as http://10.0.0.5:8000, "
            "https://host or "
            'unix:///run/engine.sock; it must begin with http://, https:// or unix://, found "a:8000"',
        ),
        (
            {"engines": ["http://a"], "workers": 0},
            "command line: workers: expected at least 1, found 0",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: dict[str, Any], said: str) -> None:
    assert refusal(**flags) == said


def test_engines_from_flags_never_replace_fleets_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("workers: 2\nfleets: [{model: m, engines: [http://a]}]")
    with pytest.raises(ConfigError) as refused:
        load(tmp_path / "a.yaml", {}, overrides(["http://b"]))
    assert str(refused.value) == (
        "command line: fleets: expected no --engine together with fleets from elsewhere, "
        f"found some at {tmp_path}/a.yaml:2"
    )


def test_engines_from_flags_never_replace_fleets_of_the_environment() -> None:
    with pytest.raises(ConfigError, match=r"found some at SHADOWLANE_FLEETS__0__MODEL$"):
        load(None, {"SHADOWLANE_FLEETS__0__MODEL": "m"}, overrides(["http://b"]))
