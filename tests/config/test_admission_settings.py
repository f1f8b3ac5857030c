"""Keys and their limits: in the configuration or a file of their own, and what is said of each mistake."""

from pathlib import Path

import pytest

from config.load import ConfigError, load

HASH = "sha256:" + "0" * 64
OTHER = "sha256:" + "1" * 64
GOOD = "fleets:\n  - engines: [http://a:1]\n"


def written(folder: Path, text: str, keys: str | None = None) -> Path:
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    if keys is not None:
        (folder / "keys.yaml").write_text(keys, encoding="utf-8")
    return folder / "a.yaml"


def complaint(folder: Path, text: str, keys: str | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        load(written(folder, text, keys), {}, {})
    return str(refused.value).replace(f"{folder}/", "")


def test_keys_stand_in_both_places(tmp_path: Path) -> None:
    text = GOOD + f"keys: [{{name: a, hash: '{HASH}'}}]\nkeys_file: keys.yaml\n"
    keys = f"keys:\n  - name: b\n    hash: {OTHER}\n    priority: low\n    limits: {{concurrency: 3}}\n"
    config = load(written(tmp_path, text, keys), {}, {})
    assert [key.name for key in config.keys] == ["a", "b"]
    assert (config.keys[1].limits.concurrency, config.keys[1].priority) == (3, "low")


def test_a_mistake_in_the_keys_file_is_told_with_its_own_line(tmp_path: Path) -> None:
    text = GOOD + f"keys: [{{name: a, hash: '{HASH}'}}]\nkeys_file: keys.yaml\n"
    keys = f"keys:\n  - name: b\n    hash: {OTHER}\n    weigth: 2\n"
    assert complaint(tmp_path, text, keys) == (
        "keys.yaml:4: keys[1].weigth: expected one of name, hash, weight, priority, limits, "
        'found the unknown key "weigth"; did you mean weight?'
    )
    twice = complaint(tmp_path, text, f"keys:\n  - name: a\n    hash: {OTHER}\n")
    assert (
        twice == 'keys.yaml:2: keys[1].name: expected a key\'s name used once, found "a", as at keys[0].name'
    )


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (None, "keys.yaml: expected a configuration file, found no such file; keys_file names it"),
        ("kees: []\n", 'keys.yaml:1: kees: expected keys, found the unknown key "kees"'),
        (
            "- name: a\n",
            "keys.yaml:1: expected a mapping of settings, found a list of 1; keys_file names it, and it",
        ),
        ("keys: {}\n", "keys.yaml:1: keys: expected a list of keys, found an empty mapping"),
        ("keys: [\n", "keys.yaml:2:1: expected YAML, found a mistake"),
    ],
)
def test_a_keys_file_that_is_none_is_refused(tmp_path: Path, keys: str | None, told: str) -> None:
    assert complaint(tmp_path, GOOD + "keys_file: keys.yaml\n", keys).startswith(told)


def test_a_key_that_was_pasted_in_its_hashs_place_is_not_shown(tmp_path: Path) -> None:
    text = GOOD + "keys:\n  - name: a\n    hash: sl-very-secret\n"
    told = complaint(tmp_path, text)
    assert told == (
        "a.yaml:5: keys[0].hash: expected sha256: and 64 hexadecimal digits, as `shadowlane key` prints it; "
        "never the key itself, found a value that is not shown"
    )


MISTAKES = [
    (f"keys: [{{name: none, hash: '{HASH}'}}]", "keys[0].name: expected a name other than anonymous"),
    (
        f"keys: [{{name: a, hash: '{HASH}'}}, {{name: b, hash: '{HASH}'}}]",
        "keys[1].hash: expected a hash used once",
    ),
    ("admission: {limits: {requests_burst: 5}}", "requests_burst: expected requests_per_s beside it"),
    (
        "admission: {limits: {prompt_tokens_per_s: 1, prompt_tokens_burst: 86401}}",
        "expected at most a day's prompt tokens (86400), found 86401",
    ),
    ("admission: {anonymous: false}", "admission.anonymous: expected keys, or nobody may ask, found none"),
    ("admission: {trickle: 1}", "admission.trickle: expected at least 2, found 1"),
    ("admission: {limits: {concurrency: 0}}", "concurrency: expected at least 1, found 0"),
]


@pytest.mark.parametrize(("mistake", "told"), MISTAKES)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, mistake: str, told: str) -> None:
    assert told in complaint(tmp_path, GOOD + mistake + "\n")


def test_a_fallback_is_another_fleet(tmp_path: Path) -> None:
    fleets = "fleets:\n  - {model: big, engines: [http://a:1], when_full: {fallback: %s}}\n  - {model: small, engines: [http://b:1]}\n"  # noqa: E501
    assert "expected one of big, small, found" in complaint(tmp_path, fleets % "smal")
    assert "did you mean small?" in complaint(tmp_path, fleets % "smal")
    assert "expected another fleet, found this one" in complaint(tmp_path, fleets % "big")
    load(written(tmp_path, fleets % "small"), {}, {})
