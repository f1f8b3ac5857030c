"""Settings that are each valid and do not go together: what is said, with file, line and path."""

from pathlib import Path

import pytest

from config.load import load
from tests.config.test_complaints import GOOD, TRIAL, complaint

BAD = {
    "an arm that is production by another name": (
        TRIAL.replace("http://a:1", "http://127.0.0.1:1").replace("http://d:1", "http://localhost:1"),
        "a.yaml:6: experiments[0].candidates[0].engine: expected a spare engine: copies must not load "
        "production, found an engine of fleets[0]",
    ),
    "meaning asked of production by another name": (
        TRIAL.replace("http://a:1", "http://localhost:1")
        + "    similarity: {url: http://127.0.0.1:1, model: bge}\n",
        "a.yaml:7: experiments[0].similarity.url: expected a server that serves no production traffic, for "
        "each pair is a request to it, found an engine of fleets[0]",
    ),
    "meaning asked of an arm": (
        TRIAL + "    similarity: {url: http://d:1, model: bge}\n",
        "a.yaml:7: experiments[0].similarity.url: expected a server of its own: what is asked of an arm's "
        "engine loads that arm alone, found that of experiments[0].candidates[0].engine",
    ),
    "meaning asked of the gateway": (
        TRIAL + "    similarity: {url: http://localhost:8080, model: bge}\n",
        "a.yaml:7: experiments[0].similarity.url: expected a server other than this gateway itself, found "
        "the address of listen",
    ),
    "tokens forced where arms take turns": (
        TRIAL + "    mode: switchback\n    forced_pairs: 2\n",
        "a.yaml:8: experiments[0].forced_pairs: expected 0, or mode: live: arms that take turns cannot have "
        "the same tokens at one moment, found 2",
    ),
    "tokens scored where arms take turns": (
        TRIAL + "    mode: switchback\n    scored_pairs: 2\n",
        "a.yaml:8: experiments[0].scored_pairs: expected 0, or mode: live: arms that take turns cannot have "
        "the same tokens at one moment, found 2",
    ),
    "a price for nobody": (
        TRIAL + "prices: {arms: [{name: contrl, per_hour: 3}]}\n",
        'a.yaml:7: prices.arms[0].name: expected one of control, x, found "contrl"; did you mean control?',
    ),
    "an arm priced at nothing": (
        TRIAL + "prices: {arms: [{name: x}]}\n",
        "a.yaml:7: prices.arms[0]: expected per_hour, what all of it costs an hour, or gpus, how many it "
        "has, found a mapping with name",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_said(tmp_path: Path, name: str) -> None:
    text, said = BAD[name]
    assert complaint(tmp_path, text) == said


@pytest.mark.parametrize(
    "text",
    [
        TRIAL + "    similarity: {url: http://s:1, model: bge}\n    forced_pairs: 2\n    scored_pairs: 2\n",
        TRIAL + "    mode: switchback\n    forced_pairs: 0\n    scored_pairs: 0\n",
        TRIAL + "    similarity: {url: http://localhost:8081, model: bge}\n",
        TRIAL + "prices: {arms: [{name: control, gpus: 2}, {name: x, per_hour: 3}]}\n",
        GOOD + "prices: {arms: [{name: later, gpus: 2}]}\n",  # its experiment may come with a reload
    ],
)
def test_what_goes_together_is_taken(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    load(file, {}, {})
