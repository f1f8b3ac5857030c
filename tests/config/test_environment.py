"""The environment: SHADOWLANE_* over the file, ${VARIABLE} inside it, and what is none of ours."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import document, environment, schema
from config.complaint import ConfigError
from config.limits import Limits
from config.load import load

FILE = "fleets:\n  - model: m\n    engines: [http://a:1]\nworkers: 2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(FILE)
    return path


def test_a_variable_wins_over_the_file_and_a_flag_over_both(file: Path) -> None:
    assert load(file, {}, {}).workers == 2
    assert load(file, {"SHADOWLANE_WORKERS": "3"}, {}).workers == 3
    assert load(file, {"SHADOWLANE_WORKERS": "3"}, {"workers": 4}).workers == 4


def test_variables_reach_inside_lists_and_mappings(file: Path) -> None:
    env = {
        "SHADOWLANE_FLEETS__0__POLICY__NAME": "round_robin",
        "SHADOWLANE_FLEETS__0__POLICY__PARAMS__WEIGHT": "1.5",
        "SHADOWLANE_FLEETS__0__ENGINES__0__API_KEY": "sk-1",
        "SHADOWLANE_FLEETS__0__ENGINES__1": "http://b:1",
        "SHADOWLANE_FLEETS__0__ALIASES": "[n, o]",
        "SHADOWLANE_LIMITS__RETRIES": "0",
    }
    config = load(file, env, {})
    fleet = config.fleets[0]
    assert (fleet.policy.name, fleet.policy.params) == ("round_robin", {"weight": "1.5"})
    assert [engine.url for engine in fleet.engines] == ["http://a:1", "http://b:1"]
    assert fleet.engines[0].api_key is not None
    assert fleet.aliases == ("n", "o")
    assert config.limits.retries == 0


def test_eleven_engines_keep_their_order() -> None:
    env = {f"SHADOWLANE_FLEETS__0__ENGINES__{n}": f"http://e{n}" for n in range(11)}
    assert [e.url for e in load(None, env, {}).fleets[0].engines] == [f"http://e{n}" for n in range(11)]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "SHADOWLANE_WORKERZ",
            "1",
            "SHADOWLANE_WORKERZ: expected SHADOWLANE_ and then one of "
            f"{', '.join(name.upper() for name in schema.Config.model_fields)}, "
            "found WORKERZ; did you mean WORKERS?",
        ),
        (
            "SHADOWLANE_LIMITS__RETRYS",
            "1",
            "SHADOWLANE_LIMITS__RETRYS: limits.retrys: expected one of "
            f"{', '.join(Limits.model_fields)}, "
            'found the unknown key "retrys"; did you mean retries?',
        ),
        ("SHADOWLANE_WORKERS", "x", 'SHADOWLANE_WORKERS: workers: expected a whole number, found "x"'),
        (
            "SHADOWLANE_FLEETS__2__MODEL",
            "x",
            "SHADOWLANE_FLEETS__2__MODEL: fleets[2]: expected an index up to 1, found 2",
        ),
        (
            "SHADOWLANE_FLEETS__MODEL",
            "x",
            "SHADOWLANE_FLEETS__MODEL: fleets.model: expected an index, found model",
        ),
        (
            "SHADOWLANE_LOG__0",
            "x",
            "SHADOWLANE_LOG__0: log: expected a mapping with level, format, access, found a list of 1",
        ),
        (
            "SHADOWLANE_WORKERS__0",
            "x",
            "SHADOWLANE_WORKERS__0: workers[0]: expected a name, as this is no list, found 0",
        ),
        (
            "SHADOWLANE_WORKERS__A",
            "x",
            "SHADOWLANE_WORKERS__A: workers.a: expected nothing below this setting, found a",
        ),
        (
            "SHADOWLANE_FLEETS",
            "[{",
            "SHADOWLANE_FLEETS: fleets: expected a list or mapping as in YAML, found a mistake in it",
        ),
    ],
)
def test_a_wrong_variable_is_named(file: Path, variable: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(file, {variable: value}, {})
    assert str(refused.value) == said


def test_what_kubernetes_sets_for_a_service_called_shadowlane_is_ignored(file: Path) -> None:
    links = {
        "SHADOWLANE_SERVICE_HOST": "10.0.0.1",
        "SHADOWLANE_SERVICE_PORT": "8080",
        "SHADOWLANE_SERVICE_PORT_HTTP": "8080",
        "SHADOWLANE_PORT": "tcp://10.0.0.1:8080",
        "SHADOWLANE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "SHADOWLANE_PORT_8080_TCP_ADDR": "10.0.0.1",
        "SHADOWLANE_ADMIN_SERVICE_HOST": "10.0.0.2",
        "SHADOWLANE_ADMIN_PORT": "tcp://10.0.0.2:8090",
        "SHADOWLANE_CONFIG": "/etc/shadowlane.yaml",
        "PATH": "/bin",
    }
    assert load(file, links, {}) == load(file, {}, {})
    with pytest.raises(ConfigError, match="SHADOWLANE_LISTEN_PORT"):
        load(file, {"SHADOWLANE_LISTEN_PORT": "80"}, {})


def test_variables_inside_texts_are_put_in(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "fleets: [{model: '$${x}${A}-${B}$', engines: ['http://${HOST}:${PORT}'], default: '${YES}'}]"
    )
    config = load(path, {"A": "${B}", "B": "b", "HOST": "h", "PORT": "81", "YES": "true"}, {})
    assert config.fleets[0].model == "${x}${B}-b$"
    assert config.fleets[0].engines[0].url == "http://h:81"
    assert config.fleets[0].default is True


def test_a_missing_variable_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("fleets: [{model: '${ENGINE_KY}', engines: [http://a]}]")
    with pytest.raises(
        ConfigError, match=r"variable ENGINE_KY to be set, found it is not; did you mean ENGINE_KEY\?$"
    ):
        load(path, {"ENGINE_KEY": "x"}, {})


def test_values_of_variables_and_flags_are_not_searched_for_references() -> None:
    env = {"SHADOWLANE_FLEETS__0__MODEL": "${X}", "SHADOWLANE_FLEETS__0__ENGINES__0": "http://a"}
    config = load(None, env, {"state_dir": "${Y}"})
    assert (config.fleets[0].model, str(config.state_dir)) == ("${X}", "${Y}")


@given(st.text(max_size=30))
def test_escaped_text_comes_back_as_it_was(text: str) -> None:
    settings = {"a": [text.replace("${", "$${")]}
    filled, complaints = environment.substitute(document.Document(settings), {})
    if "$${" not in text:  # a dollar before an escaped reference would have to be escaped itself
        assert (filled, complaints) == ({"a": [text]}, [])


@given(
    st.dictionaries(
        st.from_regex(r"SHADOWLANE_[A-Z0-9_]{0,20}", fullmatch=True), st.text(max_size=8), max_size=4
    )
)
def test_any_variables_are_taken_or_refused(env: dict[str, str]) -> None:
    said = refusal(env)
    assert said is None or "SHADOWLANE_" in said


def refusal(env: dict[str, str]) -> str | None:
    """What is said about these variables, or None when they are taken."""
    try:
        load(None, env, {"fleets": [{"engines": ["http://a"]}]})
    except ConfigError as error:
        return str(error)
    return None
