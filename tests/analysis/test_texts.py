"""Texts are kept only where that was asked for, the last, in bounded room; diffs show where they part."""

import asyncio
import os
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.board import Board
from analysis.course import Course
from analysis.measure import measure
from analysis.pair_text import beside, printable
from analysis.pair_view import render_pair, shown
from analysis.spec import ExperimentSpec, TextSpec
from analysis.text_files import BEFORE, NAME, forget_others, texts_in
from analysis.texts import Texts, texts_of
from tests.analysis.fleet import answer_frame, pair_frame

SPEC = ExperimentSpec("trial", "m", ("quick",), calibration_s=0, calibration_pairs=2)
OURS = ["the ", "sesame ", "opens ", "it ", "for ", "all"]
THEIRS = ["the ", "sesame ", "closes ", "it ", "for ", "all"]


def pair(id: str = "p1", theirs: list[str] | None = None, **more: Any) -> dict[str, Any]:
    answers = [answer_frame("control", 0, 200, 20, OURS), answer_frame("quick", 0, 100, 10, theirs or THEIRS)]
    return pair_frame(answers, id=id, **more)


def on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_without_being_asked_no_text_is_at_rest_and_with_it_the_owner_alone_may_read_it(
    tmp_path: Path,
) -> None:
    for text_bytes in (0, 1 << 20):
        course = Course(SPEC, tmp_path / str(text_bytes), texts=TextSpec(text_bytes))
        course.load()
        course.pair(pair())
        course.close()
    assert b"sesame" not in on_disk(tmp_path / "0")
    kept = tmp_path / str(1 << 20) / "trial" / NAME
    assert b"sesame" in kept.read_bytes() and kept.stat().st_mode & 0o777 == 0o600


def test_the_texts_of_a_pair_are_found_by_arm_and_choice(tmp_path: Path) -> None:
    texts = Texts(tmp_path, TextSpec(1 << 20))
    texts.keep(pair("a"))
    texts.keep(pair("b", ["nothing"]))
    assert texts_in(tmp_path, "a") == {("control", 0): ("".join(OURS),), ("quick", 0): ("".join(THEIRS),)}
    found = texts_in(tmp_path, "b")
    assert found is not None and found["quick", 0] == ("nothing",)
    assert texts_in(tmp_path, "c") is None and texts_in(tmp_path / "nowhere", "a") is None


def test_an_answer_that_failed_has_no_text(tmp_path: Path) -> None:
    frame = pair()
    frame["answers"][1] |= {"status": 500}
    assert set(texts_of(frame)) == {("control", 0)}


def size_of(frame: dict[str, Any]) -> int:
    with TemporaryDirectory() as folder:
        Texts(Path(folder), TextSpec(1 << 20)).keep(frame)
        return (Path(folder) / NAME).stat().st_size


@given(st.integers(2_000, 6_000), st.lists(st.integers(1, 400), min_size=1, max_size=20))
def test_the_last_texts_are_kept_and_take_no_more_room_than_was_allowed(
    limit_bytes: int, lengths: list[int]
) -> None:
    with TemporaryDirectory() as folder:
        texts = Texts(Path(folder), TextSpec(limit_bytes))
        for number, length in enumerate(lengths):
            texts.keep(pair(str(number), ["x"] * length))
            assert sum(path.stat().st_size for path in Path(folder).iterdir()) <= limit_bytes
        assert texts.lost == 0
        kept = [texts_in(Path(folder), str(number)) is not None for number in range(len(lengths))]
        assert kept[-1] and kept == sorted(kept)  # of the oldest none, of the latest all
        sizes = [size_of(pair(str(number), ["x"] * length)) for number, length in enumerate(lengths)]
        fit = sum(total <= limit_bytes // 2 for total in accumulate(reversed(sizes)))
        assert all(kept[len(kept) - fit :])  # what half the room holds is there


def test_what_is_torn_or_damaged_costs_that_text_alone(tmp_path: Path) -> None:
    texts = Texts(tmp_path, TextSpec(1 << 20))
    for id in "abc":
        texts.keep(pair(id))
    path = tmp_path / NAME
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw + b"\xf5\x4ctorn")
    texts.keep(pair("d"))
    assert [texts_in(tmp_path, id) is not None for id in "abcd"] == [True, False, True, True]


def test_a_text_longer_than_the_room_is_lost_and_counted(tmp_path: Path) -> None:
    texts = Texts(tmp_path, TextSpec(1024))
    texts.keep(pair(theirs=["x" * 2000]))
    assert texts.lost == 1 and list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_costs_texts_and_no_pair(tmp_path: Path) -> None:
    course = Course(SPEC, tmp_path, texts=TextSpec(1 << 20))
    course.load()
    os.mkdir(tmp_path / "trial" / NAME)
    course.pair(pair())
    assert course.texts.lost == 1 and course.ranking()["pairs"] == 1
    course.close()


def test_an_experiment_that_begins_anew_or_keeps_none_any_more_has_no_texts_of_before(tmp_path: Path) -> None:
    def loaded(text_bytes: int, *, anew: bool = False) -> Course:
        course = Course(SPEC, tmp_path, texts=TextSpec(text_bytes))
        course.load(anew=anew)
        return course

    def files() -> set[str]:
        return {path.name for path in (tmp_path / "trial").iterdir()} & {NAME, BEFORE}

    course = loaded(1 << 20)
    course.pair(pair())
    course.close()
    course = loaded(1 << 20)
    assert files() == {NAME}  # it goes on
    course.close()
    course = loaded(1 << 20, anew=True)
    assert files() == set()
    course.pair(pair())
    course.texts.renew(TextSpec(1 << 21))
    assert files() == {NAME}
    course.texts.renew(TextSpec(0))
    assert files() == set()
    course.close()


def test_a_room_made_smaller_holds_no_more_than_that_at_once(tmp_path: Path) -> None:
    one = size_of(pair())
    texts = Texts(tmp_path, TextSpec(8 * one))
    for number in range(7):  # four went before the three that are written now
        texts.keep(pair(str(number)))
    texts.renew(TextSpec(6 * one))
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert texts_in(tmp_path, "6") is not None
    Texts(tmp_path, TextSpec(6 * one)).begin(anew=False)
    assert texts_in(tmp_path, "6") is not None
    Texts(tmp_path, TextSpec(4 * one)).begin(anew=False)  # as after a restart
    assert list(tmp_path.iterdir()) == []


def test_texts_of_experiments_that_are_gone_are_forgotten_and_of_those_that_another_process_has_are_not(
    tmp_path: Path,
) -> None:
    courses = {
        name: Course(replace(SPEC, name=name), tmp_path, texts=TextSpec(1 << 20))
        for name in ("here", "elsewhere", "gone")
    }
    for course in courses.values():
        course.load()
        course.pair(pair())
    courses["here"].close()
    courses["gone"].close()
    assert forget_others(tmp_path, ["here"]) == ["gone"]
    courses["elsewhere"].close()
    found = {path.parent.name for path in tmp_path.glob(f"*/{NAME}")}
    assert found == {"here", "elsewhere"} and len(list(tmp_path.glob("*/log.msgpack"))) == 3


def test_two_texts_stand_under_one_another_word_for_word_and_where_they_part_is_marked() -> None:
    frame = pair()
    text = render_pair(measure(frame), texts_of(frame)).splitlines()
    assert [line for line in text if "sesame" in line or "^" in line] == [
        "  control  the sesame opens  it for all",
        "  quick    the sesame closes it for all",
        "                      ^~~~~~",
    ]
    answers = shown(measure(frame), texts_of(frame))["answers"]
    assert [answer["texts"] for answer in answers] == [("".join(OURS),), ("".join(THEIRS),)]
    assert "sesame" not in render_pair(measure(frame), None)


letters = st.text(st.sampled_from("ab \n\x1b\té漢"), max_size=200)


@given(letters, letters, letters)
def test_nothing_of_a_text_commands_a_terminal_and_the_mark_is_below_the_first_difference(
    same: str, one: str, other: str
) -> None:
    ours, theirs = f"{same}x{one}", f"{same}y{other}"
    lines = list(beside(len(same), ("control", ours), ("c", theirs)))
    assert all(line.isprintable() for line in lines)
    a, b, marks = lines[:3]
    at = marks.index("^")
    assert a[at] == "x" and b[at] == "y" and a[:at][2 + 7 :] == b[:at][2 + 7 :]
    assert printable(same[-32:]).strip() in a


def test_a_text_that_goes_on_where_the_other_ends_is_marked_from_there() -> None:
    assert list(beside(3, ("control", "abc"), ("c", "abc and on"))) == [
        "  control  abc",
        "  c        abc and on",
        "              ^~~~~~~",
    ]


def test_long_texts_are_shown_from_a_little_before_they_part_on_in_lines_that_fit() -> None:
    same, rest = "word " * 100, " and so on" * 300
    lines = list(beside(500, ("control", same + "yes" + rest), ("c", same + "no" + rest)))
    assert lines[0].startswith("  control  …") and max(map(len, lines)) <= 100
    assert lines[-1].endswith("…") and len(lines) < 60


def test_a_reload_that_asks_for_less_acts_at_once_and_the_experiment_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        course = Course(SPEC, tmp_path, texts=TextSpec(1 << 20))
        board = Board("0", [course], lambda *_, **__: None)
        await board.load()
        course.pair(pair())
        assert (tmp_path / "trial" / NAME).exists()
        await board.renew([Course(SPEC, tmp_path)], ())
        assert not (tmp_path / "trial" / NAME).exists()
        course.pair(pair("p2"))
        assert not (tmp_path / "trial" / NAME).exists() and course.ranking()["pairs"] == 2
        await board.finish(10)

    asyncio.run(run())
