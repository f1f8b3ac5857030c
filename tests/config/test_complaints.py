"""What is said about each kind of mistake in a file: word for word, with file, line and path."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from config import schema
from config.complaint import Complaint, spelled
from config.explain import keys, model_at
from config.limits import Limits
from config.load import ConfigError, load

TOP = ", ".join(schema.Config.model_fields)
ENGINE = ", ".join(schema.Engine.model_fields)
URL = "a URL such as http://10.0.0.5:8000, https://host or unix:///run/engine.sock"
GOOD = "fleets:\n  - engines: [http://a:1]\n"
TRIAL = (
    GOOD
    + """experiments:
  - name: t
    control: {engine: http://c:1}
    candidates: [{name: x, engine: http://d:1}]
"""
)


def complaint(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> str:
    """What loading `text` as a.yaml says, without the folder."""
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        load(file, env or {}, {})
    return str(refused.value).replace(f"{tmp_path}/", "")


BAD = {
    "unknown key at the top": (
        GOOD + "workerz: 2\n",
        f'a.yaml:3: workerz: expected one of {TOP}, found the unknown key "workerz"; did you mean workers?',
    ),
    "unknown key in a policy": (
        "fleets:\n  - engines: [http://a:1]\n    policy: {nmae: x}\n",
        "a.yaml:3: fleets[0].policy.nmae: expected one of name, params, "
        'found the unknown key "nmae"; did you mean name?',
    ),
    "unknown key in an engine, dashes for underscores": (
        "fleets:\n  - engines: [{url: http://a:1, api-key: sk-1}]\n",
        f"a.yaml:2: fleets[0].engines[0].api-key: expected one of {ENGINE}, "
        'found the unknown key "api-key"; did you mean api_key?',
    ),
    "a known key in the wrong place": (
        GOOD + "limits: {max_inflight: 3}\n",
        "a.yaml:3: limits.max_inflight: expected one of "
        f"{', '.join(Limits.model_fields)}, "
        'found the unknown key "max_inflight"; it is a setting of experiments[].max_inflight',
    ),
    "a key that resembles nothing": (
        GOOD + '"z z": 1\n',
        f'a.yaml:3: ["z z"]: expected one of {TOP}, found the unknown key "z z"',
    ),
    "no fleets": (
        "workers: 1\n",
        "a.yaml:1: fleets: expected a value (the fleets, one for each model), found nothing",
    ),
    "no engines": (
        "fleets: [{engines: []}]",
        "a.yaml:1: fleets[0].engines: expected at least one of them, or discover, found an empty list",
    ),
    "engines are no list": (
        "fleets: [{engines: http://a}]",
        'a.yaml:1: fleets[0].engines: expected a list, found "http://a"',
    ),
    "fleets are no list": (
        "fleets: {engines: [http://a]}",
        "a.yaml:1: fleets: expected a list, found a mapping with engines",
    ),
    "an engine that is a number": (
        "fleets: [{engines: [8000]}]",
        f"a.yaml:1: fleets[0].engines[0]: expected a mapping with {ENGINE}, found 8000",
    ),
    "an engine without a url": (
        "fleets:\n  - engines:\n    - kind: vllm\n",
        "a.yaml:3: fleets[0].engines[0].url: expected a value (where it listens: http://, https:// "
        "or unix://, "
        "without /v1), found nothing",
    ),
    "a plain engine URL with a mistake": (
        "fleets:\n  - engines:\n    - htp://a\n",
        f"a.yaml:3: fleets[0].engines[0]: expected {URL}; it must begin with http://, https:// or "
        f'unix://, found "htp://a"',
    ),
    "a URL with a key in it is not repeated": (
        "fleets: [{engines: [http://user:hunter2@a]}]",
        f"a.yaml:1: fleets[0].engines[0]: expected {URL}; a user name or key in it would end up in logs: "
        'put it in api_key, found "http://…@a"',
    ),
    "an unknown kind": (
        "fleets: [{engines: [{url: http://a, kind: vlm}]}]",
        "a.yaml:1: fleets[0].engines[0].kind: expected one of auto, vllm, sglang, llamacpp, tgi, "
        "trtllm, dynamo, openai, "
        'found "vlm"; did you mean vllm?',
    ),
    "a key with a line end": (
        'fleets: [{engines: [{url: http://a, api_key: "sk-2\\n"}]}]',
        "a.yaml:1: fleets[0].engines[0].api_key: expected a key of printable ASCII characters "
        "without blanks or "
        "line ends, found a value that is not shown",
    ),
    "a path that climbs": (
        "fleets: [{engines: [{url: http://a, allow_paths: [/x/../y]}]}]",
        "a.yaml:1: fleets[0].engines[0].allow_paths[0]: expected an absolute path such as "
        "/reset_prefix_cache, "
        'without . or .. or a query, found "/x/../y"',
    ),
    "a model that is a number": (
        "fleets: [{model: 70, engines: [http://a]}]",
        "a.yaml:1: fleets[0].model: expected text, found 70; write it in quotes",
    ),
    "a bare port": (
        GOOD + "listen: 8080\n",
        "a.yaml:3: listen: expected HOST:PORT such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080, found 8080",
    ),
    "an IPv6 address without brackets": (
        GOOD + 'admin: "::1:8090"\n',
        "a.yaml:3: admin: expected HOST:PORT such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080; "
        'an IPv6 address goes in brackets, as in [::1]:8080, found "::1:8090"',
    ),
    "no workers": (GOOD + "workers: 0\n", "a.yaml:3: workers: expected at least 1, found 0"),
    "half a worker": (GOOD + "workers: 1.5\n", "a.yaml:3: workers: expected a whole number, found 1.5"),
    "yes is no number": (GOOD + "workers: yes\n", "a.yaml:3: workers: expected a number, found true"),
    "words for a number": (
        GOOD + "workers: many\n",
        'a.yaml:3: workers: expected a whole number, found "many"',
    ),
    "no finite number": (
        GOOD + "limits: {drain_s: .inf}",
        "a.yaml:3: limits.drain_s: expected at most 86400, found inf",
    ),
    "not a number": (
        GOOD + "limits: {drain_s: .nan}",
        "a.yaml:3: limits.drain_s: expected a number above 0, found nan",
    ),
    "an empty section": (
        GOOD + "mirror:\n",
        "a.yaml:3: mirror: expected a mapping with lane_bytes, copy_bytes, readings_s, found nothing",
    ),
    "a log level": (
        GOOD + "log: {level: wrning}\n",
        'a.yaml:3: log.level: expected one of debug, info, warning, error, found "wrning"; did you '
        "mean warning?",
    ),
    "copies larger than the lane": (
        GOOD + "mirror: {copy_bytes: 4096, lane_bytes: 2048}\n",
        "a.yaml:3: mirror.copy_bytes: expected at most mirror.lane_bytes (2048), or no copy of "
        "that size ever "
        "passes, found 4096",
    ),
    "one address for two": (
        GOOD + "listen: 127.0.0.1:80\nadmin: 127.0.0.1:80\n",
        'a.yaml:4: admin: expected another address than listen, found "127.0.0.1:80"',
    ),
    "an engine twice": (
        "fleets:\n  - engines:\n      - http://a\n      - http://A:80/\n",
        "a.yaml:4: fleets[0].engines[1]: expected each engine of a fleet once, found "
        "fleets[0].engines[0] again",
    ),
    "a model twice": (
        "fleets:\n  - {model: m, engines: [http://a]}\n  - {model: n, aliases: [m], engines: [http://b]}\n",
        'a.yaml:3: fleets[1].aliases[0]: expected a model\'s name used once, found "m", as at '
        "fleets[0].model",
    ),
    "two default fleets": (
        "fleets:\n  - {engines: [http://a]}\n  - {model: m, default: true, engines: [http://b]}\n",
        "a.yaml:3: fleets[1].default: expected one default fleet (a fleet without a model is one), "
        "found a second, after fleets[0]",
    ),
    "a nameless fleet that is not the default": (
        "fleets: [{engines: [http://a], default: false}]",
        "a.yaml:1: fleets[0].default: expected true, or a model: a fleet without a model takes "
        "every model, found false",
    ),
    "a rate of nothing": (
        TRIAL + "    sample: {rate: 0}\n",
        "a.yaml:7: experiments[0].sample.rate: expected auto, a share above 0, "
        "or how many times each conversation is sent, at most 8, found 0",
    ),
    "a rate above everything": (
        TRIAL + "    sample: {rate: 8.1}\n",
        "a.yaml:7: experiments[0].sample.rate: expected auto, a share above 0, "
        "or how many times each conversation is sent, at most 8, found 8.1",
    ),
    "a rate of yes": (
        TRIAL + "    sample: {rate: yes}\n",
        "a.yaml:7: experiments[0].sample.rate: expected auto, a share above 0, "
        "or how many times each conversation is sent, at most 8, found true",
    ),
    "sampling by requests": (
        TRIAL + "    sample: {by: request}\n",
        'a.yaml:7: experiments[0].sample.by: expected one of conversation, session, found "request"',
    ),
    "alpha too large": (
        TRIAL + "    alpha: 0.6\n",
        "a.yaml:7: experiments[0].alpha: expected at most 0.5, found 0.6",
    ),
    "no margin": (
        TRIAL + "    margin: 0\n",
        "a.yaml:7: experiments[0].margin: expected a number above 0, found 0",
    ),
    "a folder's name with a slash": (
        TRIAL.replace("name: t", "name: a/b"),
        "a.yaml:4: experiments[0].name: expected a name of at most 64 letters, digits, dots, dashes and "
        'underscores, found "a/b"',
    ),
    "an experiment called like a file of the state folder": (
        TRIAL.replace("name: t", "name: secret"),
        "a.yaml:4: experiments[0].name: expected a name other than secret, lock and recording, "
        'which mean something else, found "secret"',
    ),
    "a candidate called control": (
        TRIAL.replace("name: x", "name: control"),
        "a.yaml:6: experiments[0].candidates[0].name: expected a name other than production, control "
        'and control-twin, found "control"',
    ),
    "a race of one": (
        TRIAL + "    race: {}\n",
        "a.yaml:7: experiments[0].race: expected two candidates at least, found one",
    ),
    "a rung before anything is said": (
        TRIAL + "    race: {first_rung: 14}\n",
        "a.yaml:7: experiments[0].race.first_rung: expected 0, or at least 15, the windows below which "
        "nothing is said of a candidate, found 14",
    ),
    "a race by nothing": (
        TRIAL + "    race: {weights: {ttft: 0}}\n",
        "a.yaml:7: experiments[0].race.weights: expected a weight above 0, as in {ttft: 1, tpot: 2}, found a "
        "mapping with ttft",
    ),
    "meaning asked of production": (
        TRIAL + "    similarity: {url: http://a:1, model: bge}\n",
        "a.yaml:7: experiments[0].similarity.url: expected a server that serves no production traffic, for "
        "each pair is a request to it, found an engine of fleets[0]",
    ),
    "meaning asked over a unix socket": (
        TRIAL + "    similarity: {url: unix:///run/e.sock, model: bge}\n",
        "a.yaml:7: experiments[0].similarity.url: expected a URL of http:// or https://, "
        'found "unix:///run/e.sock"',
    ),
    "a second control that is the candidate": (
        TRIAL.replace("{engine: http://c:1}", "{engine: http://c:1, twin: {engine: http://d:1}}"),
        "a.yaml:6: experiments[0].candidates[0].engine: expected an engine of its own for each "
        "arm: two on one would slow each other, found that of experiments[0].control.twin.engine",
    ),
    "a second control that is production's": (
        TRIAL.replace("{engine: http://c:1}", "{engine: http://c:1, twin: {engine: http://a:1}}"),
        "a.yaml:5: experiments[0].control.twin.engine: expected a spare engine: copies must not "
        "load production, found an engine of fleets[0]",
    ),
    "a second control that is neither there nor launched": (
        TRIAL.replace("{engine: http://c:1}", "{engine: http://c:1, twin: {model: m}}"),
        "a.yaml:5: experiments[0].control.twin: expected engine, a spare engine's URL, or launch, a command "
        "that starts one, found neither",
    ),
    "a second control where arms take turns": (
        TRIAL.replace("{engine: http://c:1}", "{engine: http://c:1, twin: {engine: http://e:1}}")
        + "    mode: switchback\n",
        "a.yaml:5: experiments[0].control.twin: expected nothing: where arms take turns the control has the "
        "candidates' slots, too, found a second engine",
    ),
    "slots that end before they are warm": (
        TRIAL + "    mode: switchback\n    turns: {slot_s: 10}\n    warm_up_s: 10\n",
        "a.yaml:9: experiments[0].warm_up_s: expected less than turns.slot_s (10): each slot warms up, and "
        "counts after, found 10.0",
    ),
    "no control": (
        TRIAL.replace("    control: {engine: http://c:1}\n", ""),
        "a.yaml:4: experiments[0].control: expected a value (a spare engine configured exactly as "
        "production is), "
        "found nothing",
    ),
    "a fleet that is not there": (
        TRIAL.replace("- engines", "- model: llama\n    engines") + "    fleet: lama\n",
        'a.yaml:8: experiments[0].fleet: expected llama, found "lama"; did you mean llama?',
    ),
    "no fleet named where there are two": (
        "fleets: [{model: m, engines: [http://a]}, {model: n, engines: [http://b]}]\n" + TRIAL[len(GOOD) :],
        "a.yaml:3: experiments[0].fleet: expected the model of a fleet (one of m, n), as none is "
        "the default, "
        "found nothing",
    ),
    "copies to production": (
        TRIAL.replace("http://d:1", "http://a:1"),
        "a.yaml:6: experiments[0].candidates[0].engine: expected a spare engine: copies must not "
        "load production, "
        "found an engine of fleets[0]",
    ),
    "two arms on one engine": (
        TRIAL.replace("http://d:1", "http://c:1"),
        "a.yaml:6: experiments[0].candidates[0].engine: expected an engine of its own for each "
        "arm: two on one would "
        "slow each other, found that of experiments[0].control.engine",
    ),
    "two candidates of one name": (
        TRIAL.replace("[{name: x", "[{name: X, engine: http://e:1}, {name: x"),
        'a.yaml:6: experiments[0].candidates[1].name: expected a candidate\'s name used once, found "x", '
        "as at experiments[0].candidates[0].name",
    ),
    "a key twice": (
        GOOD + "workers: 1\nadmin: 127.0.0.1:1\nworkers: 2\n",
        "a.yaml:5: workers: expected each key once (the first is at a.yaml:3), found it again",
    ),
    "a key twice, deep inside": (
        "fleets:\n  - engines: [{url: http://a, url: http://b}]\n",
        "a.yaml:2: fleets[0].engines[0].url: expected each key once (the first is at a.yaml:2), "
        "found it again",
    ),
    "a key that is no text": (
        GOOD + "on: 1\n",
        'a.yaml:3: expected a name as the key, found "on"; write it in quotes',
    ),
    "an empty file": ("", "a.yaml: expected settings, found an empty file"),
    "only comments": ("# nothing yet\n", "a.yaml: expected settings, found an empty file"),
    "a list": ("- a\n- b\n", "a.yaml:1: expected a mapping of settings, found a list of 2"),
    "a sentence": ("hello there", 'a.yaml:1: expected a mapping of settings, found "hello there"'),
    "two documents": (
        GOOD + "---\nworkers: 1\n",
        "a.yaml:3:1: expected YAML, found a mistake: expected a single document in the stream "
        "but found another document",
    ),
    "a tab": (
        "fleets:\n\t- engines: []\n",
        "a.yaml:2:1: expected YAML, found a mistake: while scanning for the next token "
        "found character '\\t' that cannot start any token",
    ),
    "an open bracket": (
        "fleets: [{engines: [http://a]}\n",
        "a.yaml:2:1: expected YAML, found a mistake: while parsing a flow sequence "
        "expected ',' or ']', but got '<stream end>'",
    ),
    "an unknown tag": (
        "workers: !!python/object:os.system 1\n",
        "a.yaml:1:10: expected YAML, found a mistake: could not determine a constructor for the tag "
        "'tag:yaml.org,2002:python/object:os.system'",
    ),
    "a control character": ("workers: \x01\n", "a.yaml:1: expected YAML text, found the character 1"),
    "an alias of itself": (
        "fleets: &f\n  - *f\n",
        "a.yaml:1: fleets[0]: expected settings, found an alias of what it stands in",
    ),
    "a variable that is not set": (
        "fleets: [{engines: [{url: http://a, api_key: '${KEY_A}'}]}]",
        "a.yaml:1: fleets[0].engines[0].api_key: expected the environment variable KEY_A to be "
        "set, found it is not",
    ),
    "a variable without quotes inside braces": (
        "fleets: [{engines: [{url: http://a, api_key: ${KEY_A}}]}]",
        "a.yaml:1:47: expected YAML, found a mistake: while parsing a flow mapping expected ',' or "
        "'}', but got '{'; "
        'inside { } and [ ] a ${NAME} is written in quotes: "${NAME}"',
    ),
    "a reference without its end": (
        "fleets: [{engines: [http://a], model: '${KEY'}]",
        "a.yaml:1: fleets[0].model: expected ${NAME} with a variable's name, or $${ for a plain ${, "
        'found "${KEY"',
    ),
    "no variable's name": (
        "fleets: [{engines: [http://a], model: '${KEY A}'}]",
        "a.yaml:1: fleets[0].model: expected ${NAME} with a variable's name, or $${ for a plain "
        '${, found "${KEY A}"',
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_told_word_for_word(case: str, tmp_path: Path) -> None:
    text, said = BAD[case]
    assert complaint(tmp_path, text) == said


def test_every_mistake_is_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    fleets = "fleets:\n  - engines: [x, http://a, 3]\n    polcy: {}\n"
    text = f"workers: 0\nlisten: 1\n{fleets}limits: {{retries: 99}}\n"
    said = complaint(tmp_path, text, {"SHADOWLANE_LOGG": "x"}).splitlines()
    places = [line.split(": expected")[0] for line in said]
    assert places == [
        "SHADOWLANE_LOGG",
        "a.yaml:1: workers",
        "a.yaml:2: listen",
        "a.yaml:4: fleets[0].engines[0]",
        "a.yaml:4: fleets[0].engines[2]",
        "a.yaml:5: fleets[0].polcy",
        "a.yaml:6: limits.retries",
    ]


def test_a_secret_from_the_environment_is_in_no_complaint(tmp_path: Path) -> None:
    engine = "{url: '${SECRET}', api_key: '${SECRET} x', kind: '${SECRET}'}"
    text = f"fleets: [{{engines: [{engine}]}}]\nlisten: ${{SECRET}}\n"
    said = complaint(tmp_path, text, {"SECRET": "sk-hunter2"})
    assert "hunter2" not in said
    assert '"${SECRET}"' in said


def test_a_key_set_by_a_variable_is_in_no_complaint(tmp_path: Path) -> None:
    said = complaint(tmp_path, GOOD, {"SHADOWLANE_FLEETS__0__ENGINES__0__API_KEY": "sk-hunter2 "})
    assert "SHADOWLANE_FLEETS__0__ENGINES__0__API_KEY: fleets[0].engines[0].api_key: expected" in said
    assert "hunter2" not in said


def test_nested_aliases_cannot_unfold_without_bound(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "expected at most 100000 values, found more" in complaint(tmp_path, "\n".join(lines))


def test_merged_mappings_may_be_overridden(tmp_path: Path) -> None:
    text = "fleets:\n  - engines: [&e {url: http://a, kind: vllm}, {<<: *e, url: http://b}]\n"
    (tmp_path / "a.yaml").write_text(text)
    config = load(tmp_path / "a.yaml", {}, {})
    assert [(e.url, e.kind) for e in config.fleets[0].engines] == [("http://a", "vllm"), ("http://b", "vllm")]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"absent\.yaml: expected a configuration file, found no such file$"
    ):
        load(tmp_path / "absent.yaml", {}, {})


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r": expected a configuration file, found a directory$"):
        load(tmp_path, {}, {})


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"workers: \xff")
    with pytest.raises(ConfigError, match=r"a\.yaml: expected UTF-8 text, found byte 0xff at 9$"):
        load(tmp_path / "a.yaml", {}, {})


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load(tmp_path / "a.yaml", {}, {}).fleets


EVERYTHING = yaml.safe_load((Path(schema.__file__).parent / "examples" / "everything.yaml").read_text())


def mappings(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all mappings that have a fixed set of keys."""
    if isinstance(value, list):
        return [found for n, item in enumerate(value) for found in mappings(item, (*path, n))]
    if not isinstance(value, dict) or path[-1:] in (("params",), ("env",)) or path == ("prices", "gpus"):
        return []
    return [path] + [found for key, item in value.items() for found in mappings(item, (*path, key))]


@settings(deadline=None)
@given(at=st.sampled_from(mappings(EVERYTHING)), key=st.text(min_size=1, max_size=12))
def test_an_unknown_key_anywhere_is_refused_with_its_path(at: tuple[str | int, ...], key: str) -> None:
    model = model_at(at)
    assert model is not None
    settings = yaml.safe_load(yaml.safe_dump(EVERYTHING))
    here = settings
    for step in at:
        here = here[step]
    if key in keys(model):
        return
    here[key] = 1
    with pytest.raises(ConfigError) as refused:
        load(None, {}, settings)
    assert f"command line: {spelled((*at, key))}: expected one of {', '.join(keys(model))}" in str(
        refused.value
    )
    assert len(refused.value.complaints) == 1
    assert len(str(refused.value).splitlines()) == 1


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70_000) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(at=st.sampled_from(mappings(EVERYTHING)), pick=st.integers(0, 20), value=values)
def test_any_value_anywhere_is_taken_or_refused_with_its_path(
    at: tuple[str | int, ...], pick: int, value: object
) -> None:
    settings = yaml.safe_load(yaml.safe_dump(EVERYTHING))
    here = settings
    for step in at:
        here = here[step]
    key = sorted(here)[pick % len(here)]
    here[key] = value
    try:
        load(None, {}, settings)
        complaints: tuple[Complaint, ...] = ()
    except ConfigError as error:
        complaints = error.complaints
    for complaint in complaints:
        assert len(str(complaint).splitlines()) == 1
        assert complaint.path
