"""The worked example: are its traffic and its configurations such as Shadowlane takes, and what differs?"""

import json
from pathlib import Path

import pytest

from bench.worked import CANDIDATES, configuration, parsed, traffic
from config.load import load
from workload.row import from_line, to_line


@pytest.mark.parametrize("name", CANDIDATES)
def test_a_candidate_differs_from_the_control_in_its_own_flags_alone(tmp_path: Path, name: str) -> None:
    given = parsed(["--out", str(tmp_path), "--engines", str(tmp_path)])
    file = tmp_path / "a.yaml"
    file.write_text(json.dumps(configuration(given, name, (18000, 18002, 18004))))
    [trial] = load(file, {}, {}).experiments
    [candidate] = trial.candidates
    assert trial.control.launch is not None and candidate.launch is not None
    common = len(trial.control.launch.command)
    assert candidate.launch.command[:common] == trial.control.launch.command
    assert tuple(candidate.launch.command[common:]) == tuple(CANDIDATES[name])


def test_each_request_shares_a_long_beginning_with_others_and_has_one_right_answer() -> None:
    rows = [from_line(to_line(row)) for row in traffic(200, 2.5, 1)]
    asked = [row.request for row in rows if row.request is not None]
    assert len(asked) == 200 and {body["temperature"] for body in asked} == {0}
    assert [row.timestamp for row in rows] == sorted(row.timestamp for row in rows)
    systems = {body["messages"][0]["content"] for body in asked}
    assert len(systems) == 4 and min(map(len, systems)) >= 4_000
    assert len({body["messages"][1]["content"] for body in asked}) == 200
