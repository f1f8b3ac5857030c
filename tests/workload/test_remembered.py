"""A model remembers the figures of its recording, and of no single request anything."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.workload.test_model import SIZE, traffic
from workload.command import main
from workload.fidelity import compare
from workload.figures import FIGURES, Seen
from workload.remembered import as_asked, compare_remembered, remembered
from workload.row import Row

PERCENTILES = [figure.name for figure in FIGURES if figure.values is not None]


def seen(rows: list[Row]) -> Seen:
    return Seen(rows, SIZE)


def test_what_is_remembered_is_what_was_recorded_as_near_as_five_neighbours_are() -> None:
    recorded = seen(traffic(Random(1), 2_000))
    found = remembered(recorded)
    assert set(found) >= {"conversations a second", "prompt tokens p99", "hit rate of endless cache"}
    for figure in FIGURES:
        if figure.name in found:
            assert found[figure.name] == pytest.approx(figure.of(recorded), rel=0.05, abs=1e-3), figure.name


def test_a_table_against_what_is_remembered_says_what_one_against_the_recording_says() -> None:
    recorded = seen(traffic(Random(1), 2_000))
    changed = (
        msgspec.structs.replace(row, timestamp=row.timestamp * 3, output_length=row.output_length * 2)
        for row in traffic(Random(2), 1_000)
    )
    other = seen(list(changed))
    off = {one.name for one in compare(recorded, other) if one.is_off}
    kept = compare_remembered(remembered(recorded), other)
    assert {one.name for one in kept if one.is_off} == off & {one.name for one in kept}
    assert {"conversations a second", "output tokens p50"} <= off and len(kept) > 25


def test_the_longest_and_the_shortest_of_all_leave_no_trace_in_a_percentile() -> None:
    rows = traffic(Random(3))
    before = remembered(seen(rows))
    for end in (max, min):
        at = rows.index(end(rows, key=lambda row: row.output_length))
        rows[at] = msgspec.structs.replace(rows[at], output_length=99_999 if end is max else 1)
    after = remembered(seen(rows))
    assert "output tokens p90" in before
    assert {name: before[name] for name in PERCENTILES if name in before} == {
        name: after[name] for name in PERCENTILES if name in after
    }


@pytest.mark.parametrize("n", [1, 9, 30])
def test_of_a_few_no_percentile_is_remembered(n: int) -> None:
    rows = [row for row in traffic(Random(4), n) if row.turn == 0]
    assert "output tokens p99" not in remembered(seen(rows))
    assert n > 9 or not set(PERCENTILES) & set(remembered(seen(rows)))


@pytest.mark.parametrize(("of_it", "is_told"), [(1, False), (4, False), (5, True)])
def test_a_share_that_fewer_than_five_have_or_lack_is_not_remembered(of_it: int, is_told: bool) -> None:
    rows = [msgspec.structs.replace(row, task="chat") for row in traffic(Random(5), 100)]
    for at in range(of_it):
        rows[at] = msgspec.structs.replace(rows[at], task="vision")
    found = remembered(seen(rows))
    assert ("share of vision" in found) is ("share of chat" in found) is is_told
    assert found["share of json"] == 0


def test_what_was_asked_for_is_not_held_against_the_model() -> None:
    recorded = seen(traffic(Random(6), 800))
    few = traffic(Random(7), 100)
    made = seen([msgspec.structs.replace(row, timestamp=row.timestamp * 5) for row in few])
    compared = compare_remembered(remembered(recorded), made)
    told = as_asked(compared, is_when_asked=True, recorded=len(recorded.rows), made=len(few))
    why = {one.name: one.why for one in told if one.is_off}
    assert why["conversations a second"] == "when conversations begin is what was asked for"
    shared = [why[one.name] for one in told if one.is_off and one.figure.group in ("shared", "fronts")]
    assert shared and all(one is not None and f"{len(few)} requests were made" in one for one in shared)
    assert not [one for one in told if not one.is_off and one.why]
    plain = as_asked(compared, is_when_asked=False, recorded=len(few), made=len(few))
    assert not [one for one in plain if one.why]


def test_the_command_prints_the_table_of_what_it_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, model, out = tmp_path / "rows.jsonl", tmp_path / "traffic.json", tmp_path / "made.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in traffic(Random(8))))
    assert main(["workload", "fit", str(file), "--block-tokens", str(SIZE), "--out", str(model)]) == 0
    fitted = capsys.readouterr().out.splitlines()
    for source in (model, file):
        assert main(["workload", "generate", str(source), "--out", str(out)]) == 0
        made = capsys.readouterr().out.splitlines()
        assert made[0].split() == fitted[0].split() and made[1].startswith("conversations a second")
        assert any("figures are within 10%" in line for line in made)
    written = msgspec.json.decode(model.read_bytes())
    del written["figures"]
    model.write_bytes(msgspec.json.encode(written))  # as one was before there were any
    assert main(["workload", "generate", str(model), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == "" and "remembers no figures" in said.err
