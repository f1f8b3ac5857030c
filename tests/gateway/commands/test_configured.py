"""A configuration as it was typed: every mistake is told at once, each with its file and line."""

from pathlib import Path

import pytest

from config.complaint import ConfigError
from gateway.commands.configured import configured
from gateway.commands.flags import parser

POLICIES = """\
fleets:
- model: m
  engines: [{url: "http://127.0.0.1:1", role: prefill}, {url: "http://127.0.0.1:2", role: decode}]
  policy: {name: prefix_cots}
  score:
    policies:
    - name: least_load
    - name: prefix_cost
      params:
        sede: 3
  split:
    decode: {name: nothing_like_it}
"""


def mistakes(file: Path, text: str) -> list[str]:
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        configured(parser().parse_args(["check", "-c", str(file)]))
    return str(raised.value).splitlines()


def test_every_mistake_in_a_policy_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "shadowlane.yaml"
    said = mistakes(file, POLICIES)
    places = [line.partition(": expected")[0] for line in said]
    assert places == [
        f"{file}:4: fleets[0].policy.name",
        f"{file}:10: fleets[0].score.policies[1].params.sede",
        f"{file}:12: fleets[0].split.decode.name",
    ]
    assert said[0].endswith("did you mean prefix_cost?")


def test_a_policys_mistake_does_not_hide_that_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "shadowlane.yaml"
    said = mistakes(
        file,
        "fleets:\n- engines: [http://127.0.0.1:1]\n  policy: {name: none_such}\n"
        "experiments:\n- name: e\n  control: {engine: http://127.0.0.1:2}\n"
        "  candidates: [{name: c, engine: http://127.0.0.1:3}]\n  tokenizer: none.json\n",
    )
    assert [line.split(": ")[:2] for line in said] == [
        [f"{file}:3", "fleets[0].policy.name"],
        [f"{file}:8", "experiments[0].tokenizer"],
    ]


ARMS = (
    "fleets:\n- engines: [http://127.0.0.1:1]\nexperiments:\n- name: e\n  control: {engine: http://127.0.0.1:2}\n"
    "  candidates:\n  - {name: c, engine: http://127.0.0.1:3}\n  - {name: d, engine: http://127.0.0.1:4}\n"
)
FLEET = "fleets:\n- engines: [http://127.0.0.1:1]\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            ARMS + "  race: {beaten: false}\n",
            "9: experiments[0].race: expected beaten: true, or a ",
        ),
        (ARMS + "  text_keep_s: 60\n", "9: experiments[0].text_keep_s: expected text_bytes beside it"),
        (ARMS + "  redact: [x]\n", "9: experiments[0].redact: expected text_bytes beside it"),
        (ARMS + "  redact_command: x\n", "9: experiments[0].redact_command: expected text_bytes beside it"),
        (FLEET + "record: {to: rec, text_keep_s: 60}\n", "3: record.text_keep_s: expected text beside it"),
        (FLEET + "record: {to: rec, redact: [x]}\n", "3: record.redact: expected text beside it"),
    ],
)
def test_a_setting_without_what_gives_it_effect_is_refused(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "shadowlane.yaml"
    (said,) = mistakes(file, text)
    assert said.startswith(f"{file}:{told}")


@pytest.mark.parametrize(
    "text",
    [
        ARMS + "  race: {beaten: false, first_rung: 15}\n",
        ARMS + "  race: {}\n",
        ARMS + "  text_bytes: 1048576\n  text_keep_s: 60\n  redact: [x]\n",
        FLEET + "record: {to: rec, text: false, redact: [x]}\n",  # it stands ready
        FLEET + "record: {redact: [x], text_keep_s: 60}\n",  # for `shadowlane record`, which says the rest
    ],
)
def test_a_setting_with_what_gives_it_effect_is_taken(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shadowlane.yaml"
    file.write_text(text)
    assert configured(parser().parse_args(["check", "-c", str(file)])).fleets
