"""All that a model holds is compared with the traffic it came from, and what is off is said with its why."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from random import Random
from zlib import crc32

import msgspec
import pytest

from tests.workload.test_model import SIZE, model_of, traffic
from workload.command import main
from workload.fidelity import Compared, compare, explained, table
from workload.figures import FIGURES, LEFT_OUT, Figure, Seen
from workload.generate import generate
from workload.row import Row, Sampling
from workload.scenario import Plan

Change = Callable[[Row], Row]


def changed(**values: object) -> Change:
    return lambda row: msgspec.structs.replace(row, **values)


def slower(row: Row) -> Row:
    return msgspec.structs.replace(row, timestamp=2 * row.timestamp)


def longer(row: Row) -> Row:
    return msgspec.structs.replace(row, output_length=2 * row.output_length)


def cut(row: Row) -> Row:
    """Each turn a conversation of its own."""
    return msgspec.structs.replace(row, parent=None, session=row.id)


def fresh(row: Row) -> Row:
    """Blocks that nobody shares."""
    own = [crc32(f"{row.session} {block}".encode()) for block in row.hash_ids]
    return msgspec.structs.replace(row, hash_ids=own)


def later(row: Row) -> Row:
    """Every turn ten seconds later than after the one before."""
    return msgspec.structs.replace(row, timestamp=row.timestamp + 10_000 * row.turn)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (slower, {"conversations a second"}),
        (longer, {"output tokens p50", "output tokens p90", "output tokens p99"}),
        (cut, {"turns of a conversation", "share of several turns", "turns p90"}),
        (fresh, {"hit rate of endless cache", "beginnings that are shared", "share that have one"}),
        (later, {"pause before a turn, s, p50", "pause before a turn, s, p90"}),
        (
            changed(task="json"),
            {"share of json", "share of chat", "share of tools", "same task and settings"},
        ),
        (changed(task="vision"), {"share of vision"}),
        (changed(task="plain"), {"share of plain"}),
        (
            changed(sampling=Sampling(temperature=0.3)),
            {"share asking temperature 0.7", "share asking temperature 0", "same task and settings"},
        ),
    ],
)
def test_whatever_is_changed_of_a_traffic_is_off_in_its_figures(change: Change, told: set[str]) -> None:
    rows = traffic(Random(1))
    found = compare(Seen(rows, SIZE), Seen([change(row) for row in rows], SIZE))
    assert told <= {one.name for one in found if one.is_off}


def test_a_traffic_is_like_itself_in_every_figure_and_every_figure_that_it_has_is_there() -> None:
    seen = Seen(traffic(Random(1)), SIZE)
    found = compare(seen, seen)
    assert not [one.name for one in found if one.is_off or one.why is not None]
    lacking = {one.name for one in found if one.one is None}
    assert lacking == {"share in the busiest hour"}  # of less than a day
    shown = table(found)
    assert all(one.name in shown for one in found if one.name not in lacking) and "  off" not in shown
    assert re.search(r"(\d+) of \1 figures are within 10%", shown)


def test_every_figure_says_what_a_model_leaves_out_for_it() -> None:
    assert {figure.group for figure in FIGURES} == set(LEFT_OUT)
    assert "of" in {field.name for field in fields(Figure)}


def why(
    rows: list[Row], made: list[Row], *more: list[Row], scenario: str = "recorded"
) -> dict[str, Compared]:
    """What is off, explained by these makings."""

    def again() -> Iterator[Seen]:
        return (Seen(one, SIZE) for one in more)

    recorded, first = Seen(rows, SIZE), Seen(made, SIZE)
    told = explained(compare(recorded, first), recorded, first, again=again, scenario=scenario)
    return {one.name: one for one in told if one.is_off}


def test_what_a_scenario_says_is_not_held_against_the_model() -> None:
    rows = traffic(Random(2))
    model = model_of(rows)
    made = generate(model, Plan("flood", model.seconds, model.rate), Random(1))
    rate = why(rows, made, scenario="flood")["conversations a second"]
    assert rate.why is not None and "the scenario flood" in rate.why


def test_what_lies_between_makings_is_chance_and_what_lies_beyond_them_all_is_the_models() -> None:
    rows = traffic(Random(2))
    short, long = [[msgspec.structs.replace(one, output_length=n) for one in rows] for n in (1, 900)]
    by_chance = why(rows, long, short)["output tokens p50"]
    assert by_chance.why == "by chance: 2 makings have 1 to 900"
    assert why(rows, long, long)["output tokens p50"].why == LEFT_OUT["output"]


def test_settings_that_agree_as_little_as_makings_do_with_one_another_are_off_by_chance() -> None:
    rows = traffic(Random(2))

    def asking(temperatures: tuple[float, ...]) -> list[Row]:
        rng = Random(1)
        return [
            msgspec.structs.replace(row, sampling=Sampling(temperature=rng.choice(temperatures)))
            for row in rows
        ]

    name = "same task and settings"
    found = why(asking((0.0, 1.0)), asking((0.0,)), asking((1.0,)))[name]
    assert found.why == "by chance: of two makings as little as 0.0% agree"
    always = asking((0.0,))
    assert why(asking((0.0, 1.0)), always, always)[name].why == LEFT_OUT["tasks"]


def test_of_what_lies_beyond_fewer_than_five_it_is_said_that_a_model_holds_nothing() -> None:
    rows = traffic(Random(2), 60)
    made = [msgspec.structs.replace(one, output_length=1) for one in rows]
    found = why(rows, made)
    assert found["output tokens p99"].why == (
        f"fewer than 5 of {len(rows)} lie beyond it, and a model holds nothing of so few"
    )
    assert found["output tokens p50"].why == LEFT_OUT["output"]


def test_twice_as_many_conversations_share_more_and_that_is_said() -> None:
    rows = traffic(Random(2), 100)
    own = [msgspec.structs.replace(row, hash_ids=[n]) for n, row in enumerate(rows)]
    twice = [
        *rows,
        *(msgspec.structs.replace(r, id=f"{r.id}b", parent=r.parent and f"{r.parent}b") for r in rows),
    ]
    found = why(own, twice)["hit rate of endless cache"]
    assert found.why == "200 conversations were made, not 100: the more there are, the more they share"


def test_pauses_are_made_as_long_as_recorded_beside_answers_of_the_recorded_pace() -> None:
    rows = [msgspec.structs.replace(row, e2e_ms=30.0 * row.output_length) for row in traffic(Random(3), 800)]
    rows = [msgspec.structs.replace(r, timestamp=r.timestamp + 2_000 * r.turn) for r in rows]
    model = model_of(rows)
    assert model.token_s == pytest.approx(0.03)
    made = generate(model, Plan("recorded", model.seconds, model.rate, model.burstiness), Random(1))
    by_id = {row.id: row for row in made}
    for row in made:
        if row.parent is not None:
            before = by_id[row.parent]
            took_ms = 30.0 * before.output_length
            assert before.e2e_ms == pytest.approx(took_ms) and row.timestamp >= before.timestamp + took_ms - 1
    assert not [
        one.name for one in compare(Seen(rows, SIZE), Seen(made, SIZE)) if one.is_off and "pause" in one.name
    ]


def test_where_nobody_told_when_answers_ended_a_pause_is_from_the_turn_before() -> None:
    rows = [msgspec.structs.replace(row, e2e_ms=None) for row in traffic(Random(3), 800)]
    model = model_of(rows)
    assert model.token_s == 0
    made = generate(model, Plan("recorded", model.seconds, model.rate, model.burstiness), Random(1))
    assert {row.e2e_ms for row in made} == {None}
    assert not [
        one.name for one in compare(Seen(rows, SIZE), Seen(made, SIZE)) if one.is_off and "pause" in one.name
    ]


def test_short_questions_stay_with_long_documents_and_long_prompts_without_them() -> None:
    """Lengths drawn apart from what is shared would make short prompts of neither."""
    rows, block = [], 1_000_000
    for n in range(300):
        document = n % 2 == 0
        ids = [1_000 * (n % 6) + b for b in range(100)] if document else []
        tokens = 100 * SIZE + 20 if document else 1_500
        while len(ids) < -(-tokens // SIZE):
            block += 1
            ids.append(block)
        rows.append(Row(timestamp=500.0 * n, input_length=tokens, output_length=9, hash_ids=ids, id=str(n)))
    model = model_of(rows)
    made = generate(model, Plan("recorded", model.seconds, model.rate, model.burstiness), Random(1))
    assert min(row.input_length for row in made) > 1_400 and max(row.input_length for row in made) < 1_700


def test_the_command_says_which_figures_are_off_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = tmp_path / "rows.jsonl", tmp_path / "traffic.json"
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in traffic(Random(4))))
    argv = ["workload", "fit", str(path), "--block-tokens", "16", "--scenario", "flash", "--out", str(model)]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert re.search(r"conversations a second .*  off\n", shown)
    assert "off: conversations a second: when conversations begin is what the scenario flash says" in shown
    assert "share asking temperature 0.7" in shown and json.loads(model.read_text())["token_s"] > 0
