"""Price files: what they may say, and mistakes told by file, key and remedy."""

from pathlib import Path

import pytest

from config.complaint import ConfigError
from config.prices import load_prices


def written(folder: Path, text: str) -> Path:
    path = folder / "prices.yaml"
    path.write_text(text)
    return path


def test_gpus_and_arms_have_prices(tmp_path: Path) -> None:
    text = (
        "currency: EUR\ngpus: {H200: 3.5, NVIDIA H100 NVL: 2}\narms:\n- {name: fp8, per_hour: 9, gpus: 2}\n"
    )
    found = load_prices(written(tmp_path, text))
    assert (found.currency, found.gpus) == ("EUR", {"H200": 3.5, "NVIDIA H100 NVL": 2.0})
    assert [(arm.name, arm.per_hour, arm.gpus) for arm in found.arms] == [("fp8", 9.0, 2)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus: {H200: -1}", "prices.yaml:1: gpus.H200: expected a number above 0, found -1"),
        ("gpus: {H200: dear}", 'prices.yaml:1: gpus.H200: expected a number, found "dear"'),
        ("gpus: {H200: true}", "gpus.H200: expected a number, found true"),
        ("gpu: {H200: 1}", "gpu: expected one of currency, gpus, arms, found the unknown key"),
        (
            "arms:\n- {name: a, per_our: 3}",
            "prices.yaml:2: arms[0].per_our: expected one of name, per_hour, gpus",
        ),
        (
            "arms:\n- {per_hour: 3}",
            "arms[0].name: expected a value (the arm: control, or a candidate's name)",
        ),
        ("arms:\n- {name: a, gpus: 0}", "arms[0].gpus: expected at least 1, found 0"),
        ("arms: [{name: a, gpus: 1}, {name: a, gpus: 2}]", "expected each arm once under arms"),
        ("currency: USD", "expected prices: gpus, as in {H200: 3.50}, or arms"),
        ("- 1", "expected a mapping of settings, found a list of 1"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_would_do(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_prices(written(tmp_path, text))
    assert said in str(caught.value)


def test_every_mistake_is_told_at_once_and_a_missing_file_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_prices(written(tmp_path, "gpus: {A: 0, B: x}\n"))
    assert len(str(caught.value).splitlines()) == 2
    with pytest.raises(ConfigError, match="found no such file"):
        load_prices(tmp_path / "none.yaml")


def test_a_file_that_is_not_there_is_called_what_it_was_to_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a price file, found no such file"):
        load_prices(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"expected a price file, found a directory"):
        load_prices(tmp_path)
