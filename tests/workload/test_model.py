"""Traffic to a model and back: its figures stay, single requests do not, scenarios begin as they say."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workload.command import main
from workload.fidelity import compare
from workload.figures import Seen
from workload.formats import read
from workload.generate import generate
from workload.model import Model, Quantiles, fit
from workload.row import Row, Sampling
from workload.scenario import SCENARIOS, Plan, Scenario, begins, rescheduled
from workload.talks import linked, talks

SIZE = 16
CANARY_TOKENS = 77_777


def traffic(rng: Random, n: int = 400) -> list[Row]:
    """Conversations over three shared beginnings, one of them popular; bursty, some with tools."""
    rows: list[Row] = []
    fronts = [[1_000 * f + b for b in range(8 * f)] for f in (1, 2, 3)]
    at_ms, block = 0.0, 1_000_000
    for talk in range(n):
        at_ms += rng.gammavariate(0.5, 2.0) * 500
        front = rng.choices(fronts, (6, 3, 1))[0]
        tokens = len(front) * SIZE + rng.randint(30, 200)
        ids, parent, instant = [*front], None, at_ms
        for turn in range(rng.choice((1, 1, 2, 4))):
            while len(ids) < -(-tokens // SIZE):
                block += 1
                ids.append(block)
            output = rng.randint(5, 60)
            rows.append(
                Row(
                    timestamp=instant,
                    input_length=tokens,
                    output_length=output,
                    hash_ids=ids[: -(-tokens // SIZE)],
                    id=f"{talk}-{turn}",
                    session=f"s{talk}",
                    parent=parent,
                    turn=turn,
                    task="tools" if talk % 4 == 0 else "chat",
                    sampling=Sampling(temperature=0.7 if talk % 2 else 0.0),
                    e2e_ms=200.0,
                )
            )
            parent, instant = rows[-1].id, instant + 200 + rng.randint(500, 3_000)
            ids = ids[: tokens // SIZE]
            tokens += output + rng.randint(10, 60)
    rows.sort(key=lambda row: row.timestamp)
    return rows


def model_of(rows: list[Row]) -> Model:
    return fit(rows, SIZE)


@pytest.mark.parametrize("seed", range(5))
def test_traffic_made_from_a_model_has_the_recorded_figures(seed: int) -> None:
    rows = traffic(Random(seed), 800)
    model = model_of(rows)
    plan = Plan("recorded", model.seconds, model.rate, model.burstiness)
    made = generate(model, plan, Random(seed + 1))
    apart = {one.name: one for one in compare(Seen(rows, SIZE), Seen(made, SIZE))}
    for name, most in (
        ("conversations a second", 0.25),
        ("their gaps' variation", 0.3),
        ("turns of a conversation", 0.2),
        ("prompt tokens p50", 0.2),
        ("prompt tokens p90", 0.2),
        ("output tokens p50", 0.2),
        ("pause before a turn, s, p50", 0.2),
        ("tokens a turn adds p50", 0.2),
        ("hit rate of endless cache", 0.1),
        ("share of tools", 0.1),
        ("same task and settings", 0.1),
    ):
        found = apart[name].apart
        assert found is not None and abs(found) < most, apart[name]


def test_a_model_holds_no_id_block_session_or_single_length() -> None:
    rows = traffic(Random(7))
    rows[11] = msgspec.structs.replace(
        rows[11], input_length=CANARY_TOKENS, output_length=88_888, sampling=Sampling(temperature=0.123)
    )
    text = msgspec.json.encode(model_of(rows)).decode()
    assert not [
        word for word in ("77777", "77761", "88888", "0.123", "1000001", '"s1', "1-0") if word in text
    ]


def test_what_fewer_than_five_requests_have_is_not_told() -> None:
    rows = [row for row in traffic(Random(3)) if row.turn == 0]
    first = rows[4]
    later = msgspec.structs.replace(
        first, id="later", parent=first.id, turn=1, timestamp=first.timestamp + 4_854, task="vision",
        hash_ids=[*first.hash_ids[: first.input_length // SIZE], *range(9_000_000, 9_000_080)],
        input_length=first.input_length + first.output_length + 1_234,
    )  # fmt: skip
    model = model_of([*rows[:5], later, *rows[5:]])
    assert set(model.added_tokens.values) == {1.0} and set(model.think_s.values) == {0.0}
    assert [task.task for task in model.tasks] == ["chat", "tools"]
    assert sum(task.share for task in model.tasks) == pytest.approx(1)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=4))
def test_a_distribution_of_a_few_is_of_what_is_said_otherwise(values: list[float]) -> None:
    assert set(Quantiles.of(values, otherwise=7.0).values) == {7.0}


def test_hours_in_which_few_began_are_told_together() -> None:
    busy = [hour * 3_600e3 + n * 1_000 for hour in (0, 1, 2, 23) for n in range(20)]
    quiet = [hour * 3_600e3 for hour in range(3, 13)]
    rows = [
        msgspec.structs.replace(row, timestamp=at_ms)
        for row, at_ms in zip(
            (r for r in traffic(Random(5)) if r.turn == 0), sorted([*busy, *quiet]), strict=False
        )
    ]
    hours = model_of(rows).hours
    assert hours is not None and sum(hours) == pytest.approx(1)
    assert [hours[hour] for hour in (0, 1, 2, 23)] == pytest.approx([20 / 90] * 4)
    assert hours[3:23] == pytest.approx([10 / 90 / 20] * 20)


def test_too_few_conversations_make_no_model() -> None:
    with pytest.raises(ValueError, match="too few"):
        model_of(traffic(Random(1), 9))


@given(st.lists(st.floats(0, 1e6), min_size=5, max_size=200), st.floats(0, 1))
def test_a_distribution_rises_and_stays_within_what_was_seen(values: list[float], share: float) -> None:
    found = Quantiles.of(values)
    assert found.values == sorted(found.values)
    assert min(values) <= found.at(share) <= max(values)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_brings_about_as_many_as_its_rate_says_and_none_after_its_end(
    scenario: Scenario,
) -> None:
    plan = Plan(scenario, 400.0, 2.0, day_s=400.0)
    found = list(begins(plan, Random(3)))
    expected = 800 * (1.9 if scenario == "flash" else 1.0)
    assert found == sorted(found) and found[0] >= 0 and found[-1] < 400
    assert abs(len(found) / expected - 1) < 0.2


def test_scenarios_differ_in_when() -> None:
    def at(scenario: Scenario, hours: list[float] | None = None) -> Counter[int]:
        plan = Plan(scenario, 240.0, 5.0, hours=hours, day_s=240.0)
        return Counter(int(at_s // 24) for at_s in begins(plan, Random(5)))

    flood, flash, steady = at("flood"), at("flash"), at("steady")
    assert set(flood) == {0} and sum(flood.values()) == 1_200
    assert flash[4] > 5 * max(n for tenth, n in flash.items() if tenth != 4)
    assert max(steady.values()) - min(steady.values()) <= 2
    morning = at("daily", [1.0 if hour < 12 else 0.0 for hour in range(24)])
    assert set(morning) <= set(range(5))


def test_a_recording_begun_again_keeps_conversations_whole_and_its_cache_cold() -> None:
    rows = traffic(Random(2), 40)
    found = rescheduled(rows, SIZE, Plan("steady", 100.0, 1.0), Random(1))
    whole = talks(found, SIZE)
    assert len(whole) == 100
    recorded = [[row.input_length for row in talk.rows] for talk in talks(rows, SIZE)]
    made = sorted(whole, key=lambda talk: talk.rows[0].timestamp)
    assert [[row.input_length for row in talk.rows] for talk in made] == [
        recorded[n % 40] for n in range(100)
    ]
    own = {block for row in rows for block in row.hash_ids if block >= 1_000_000}
    again = {block for talk in made[40:] for row in talk.rows for block in row.hash_ids}
    assert own and not own & again and again & {1_000, 2_000, 3_000}


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_conversations_of_a_trace_without_links_are_found_by_their_blocks(seed: int) -> None:
    rows = traffic(Random(seed), 30)
    bare = [
        Row(timestamp=row.timestamp, input_length=row.input_length, output_length=1, hash_ids=row.hash_ids)
        for row in rows
    ]
    names = {str(number): row.id for number, row in enumerate(rows)}
    found = linked(bare, SIZE)
    right = sum(
        (None if one.parent is None else names[one.parent]) == row.parent
        for one, row in zip(found, rows, strict=True)
    )
    assert right > 0.9 * len(rows)


def test_the_command_fits_makes_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in traffic(Random(4))))
    model, made = tmp_path / "traffic.json", tmp_path / "made.jsonl"
    assert main(["workload", "fit", str(path), "--block-tokens", "16", "--out", str(model)]) == 0
    assert "hit rate of endless cache" in capsys.readouterr().out
    argv = ["workload", "generate", str(model), "--scenario", "flash", "--seconds", "30", "--rate", "5"]
    assert main([*argv, "--out", str(made)]) == 0
    found = read([made])
    assert found.block_tokens == 16 and found.kind == "recording" and len(found.rows) > 100
    assert main(["workload", "compare", str(path), str(made)]) == 0
    assert (
        main(["workload", "generate", str(path), "--scenario", "flood", "--out", str(tmp_path / "f.jsonl")])
        == 0
    )
    assert main(["workload", "export", str(path), "--out", str(tmp_path / "e.jsonl")]) == 0
    first = json.loads((tmp_path / "e.jsonl").read_text().splitlines()[0])
    assert first["timestamp"] == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["replay", "none.jsonl", "--to", "http://127.0.0.1:1"], "there is no such file"),
        (["workload", "generate", "none.json", "--out", "x"], "No such file"),
        (["workload", "sweep", "--to", "http://127.0.0.1:1"], "say which load"),
        (["workload", "sweep", "--to", "http://127.0.0.1:1", "--rates", "1"], "does not answer"),
    ],
)
def test_what_is_typed_wrong_ends_as_one_line(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kept", [0.0, 1.0])
def test_later_turns_follow_up_or_change_the_topic_as_often_as_the_model_says(kept: float) -> None:
    model = msgspec.structs.replace(model_of(traffic(Random(3), 400)), kept=kept)
    made = {row.id: row for row in generate(model, Plan("steady", 60.0, 5.0, 1.0), Random(4))}
    later = [(made[row.parent], row) for row in made.values() if row.parent is not None]
    assert len(later) > 50
    for before, row in later:
        whole = before.hash_ids[: before.input_length // SIZE]
        goes_on = row.hash_ids[: len(whole)] == whole and row.input_length > before.input_length
        if kept:
            assert goes_on
        else:  # what they share is at most what all begin with
            same = next(
                (n for n, (a, b) in enumerate(zip(whole, row.hash_ids, strict=False)) if a != b), 10**6
            )
            assert min(same, len(whole), len(row.hash_ids)) <= max(
                front.tokens // SIZE for front in model.fronts
            )


def test_what_is_asked_of_the_sampler_is_made_as_often_as_it_was_recorded() -> None:
    rows = traffic(Random(5), 800)
    made = list(generate(model_of(rows), Plan("steady", 200.0, 5.0, 1.0), Random(6)))

    def hot(some: list[Row]) -> float:
        return sum(row.sampling is not None and row.sampling.temperature == 0.7 for row in some) / len(some)

    assert abs(hot(made) - hot(rows)) < 0.1 and 0.3 < hot(rows) < 0.7
    assert {row.task for row in made} == {"tools", "chat"}
