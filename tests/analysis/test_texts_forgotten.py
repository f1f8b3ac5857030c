"""Texts grow no older than was allowed, are clean before they are at rest, and go by their request's id."""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from analysis.board import Board
from analysis.course import Course
from analysis.inbox import Frame, Peer
from analysis.scrubbing import Scrubbing
from analysis.spec import TextSpec
from analysis.text_files import BEFORE, HALF, NAME, forget_in, forget_others, is_of, packed, records, texts_in
from analysis.text_files import Record as Kept
from analysis.texts import Texts
from analysis.web.app import start_admin
from gateway.cli import main
from tests.analysis.test_texts import SPEC, on_disk, pair
from tests.support import until

ALL = TextSpec(1 << 20)


class Clock:
    """Seconds, as a test says."""

    def __init__(self) -> None:
        self.now_s = 1e9

    def __call__(self) -> float:
        return self.now_s


def ids(folder: Path) -> list[str]:
    return [record.id for name in (BEFORE, NAME) for record in records(folder / name)]


@given(
    st.floats(1, 1e6),
    st.lists(st.tuples(st.floats(0, 2), st.sampled_from(("keep", "look", "restart"))), max_size=30),
)
def test_whenever_it_was_looked_no_text_is_older_than_was_allowed(
    keep_s: float, steps: list[tuple[float, str]]
) -> None:
    clock, spec = Clock(), replace(ALL, keep_s=keep_s)
    with TemporaryDirectory() as folder:
        texts, written_s = Texts(Path(folder), spec, clock), dict[str, float]()
        for number, (wait, what) in enumerate(steps):
            clock.now_s += wait * keep_s
            if what == "keep":
                texts.look()  # as each second
                texts.keep(pair(str(number)))
                written_s[str(number)] = clock.now_s
            elif what == "look":
                texts.look()
            else:
                texts = Texts(Path(folder), spec, clock)
                texts.begin(anew=False)
            ages = {id: clock.now_s - at_s for id, at_s in written_s.items()}
            there = ids(Path(folder))
            assert all(ages[id] <= keep_s * 1.000001 for id in there)
        assert texts.lost == 0 and texts.stuck is None


def test_a_text_is_kept_for_half_of_the_time_at_least_where_it_is_looked_often(tmp_path: Path) -> None:
    clock = Clock()
    texts, written_s = Texts(tmp_path, replace(ALL, keep_s=100), clock), dict[str, float]()
    for second in range(500):
        clock.now_s += 1
        texts.look()
        texts.keep(pair(str(second)))
        written_s[str(second)] = clock.now_s
        there = set(ids(tmp_path))
        assert {id for id, at_s in written_s.items() if clock.now_s - at_s < 50} <= there
        assert all(clock.now_s - written_s[id] <= 100 for id in there)


def test_what_is_too_old_goes_at_the_next_start_and_so_does_what_nobody_knows_the_age_of(
    tmp_path: Path,
) -> None:
    clock = Clock()
    Texts(tmp_path, replace(ALL, keep_s=100), clock).keep(pair())
    (tmp_path / BEFORE).write_bytes(b"\xf5\x4c no frame, and maybe text")
    (tmp_path / HALF).write_bytes(b"half of a file")
    clock.now_s += 40
    Texts(tmp_path, replace(ALL, keep_s=100), clock).begin(anew=False)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    clock.now_s += 61
    Texts(tmp_path, replace(ALL, keep_s=100), clock).begin(anew=False)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_does_not_delete_is_told(tmp_path: Path) -> None:
    texts = Texts(tmp_path, ALL)
    (tmp_path / HALF).mkdir()
    texts.look()
    assert texts.stuck is not None
    (tmp_path / HALF).rmdir()
    texts.look()
    assert texts.stuck is None


def test_what_patterns_match_is_never_at_rest(tmp_path: Path) -> None:
    texts = Texts(tmp_path, replace(ALL, redact=("sesame", r"op\w+")))
    texts.keep(pair())
    assert texts_in(tmp_path, "p1") == {
        ("control", 0): ("the [redacted] [redacted] it for all",),
        ("quick", 0): ("the [redacted] closes it for all",),
    }
    assert b"sesame" not in on_disk(tmp_path)
    texts.renew(replace(ALL, redact=("closes",)))
    texts.keep(pair("p2"))
    assert (texts_in(tmp_path, "p2") or {})["quick", 0] == ("the sesame [redacted] it for all",)


UPPER = """
import json, sys
for line in sys.stdin:
    said = json.loads(line)
    assert said["request"] is None
    said["answer"] = None if "closes" in said["answer"] else said["answer"].upper()
    print(json.dumps(said), flush=True)
"""


@pytest.mark.parametrize("script", [UPPER, "", "print('no json', flush=True); input()"])
def test_a_text_is_at_rest_as_the_command_gives_it_back_or_not_at_all(tmp_path: Path, script: str) -> None:
    async def run() -> None:
        spec = replace(ALL, redact=("sesame",), redact_command=(sys.executable, "-c", script))
        scrubbing = Scrubbing(structlog.get_logger())
        course = Course(SPEC, tmp_path, texts=spec)
        board = Board("0", [course], lambda *_, **__: None, scrubbing=scrubbing)
        await board.load()
        peer = Peer(board.inbox, lambda _: None, board.take, 1 << 20)
        board.take(Frame("pair", {"experiment": "trial", **pair()}, 1000, peer))
        work = asyncio.get_running_loop().create_task(board.follow())
        await until(lambda: bool(ids(tmp_path / "trial")) or scrubbing.lost.total() == 2, 30)
        work.cancel()
        assert board.status()["troubles"].get("texts_lost", 0) == scrubbing.lost.total()
        await board.finish(10)
        await scrubbing.close()

    asyncio.run(run())
    found = texts_in(tmp_path / "trial", "p1")
    assert found == ({("control", 0): ("THE [REDACTED] OPENS IT FOR ALL",)} if script == UPPER else None)
    assert b"sesame" not in on_disk(tmp_path) and b"closes" not in on_disk(tmp_path)


def test_without_who_runs_the_command_nothing_is_kept(tmp_path: Path) -> None:
    texts = Texts(tmp_path, replace(ALL, redact_command=("cat",)))
    texts.keep(pair())
    assert texts.lost == 1 and list(tmp_path.iterdir()) == []


def test_a_forgotten_request_is_gone_from_both_files_with_all_its_pairs_and_none_comes_back(
    tmp_path: Path,
) -> None:
    texts = Texts(tmp_path, ALL)
    for id in ("a", "b", "b~1"):
        texts.keep(pair(id, ["secret of ", id]))
    os.replace(tmp_path / NAME, tmp_path / BEFORE)
    for id in ("b~2", "c", "bb", "a~b"):
        texts.keep(pair(id, ["secret of ", id]))
    assert texts.forget(["b"]) == 3 and ids(tmp_path) == ["a", "c", "bb", "a~b"]
    assert b"secret of b~" not in on_disk(tmp_path)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    texts.keep(pair("b~3"))
    texts.keep(pair("d"))
    assert ids(tmp_path) == ["a", "c", "bb", "a~b", "d"]
    assert texts.forget(["b"]) == 0 and texts.forget(["nobody's"]) == 0
    assert texts.forget(["a"]) == 1 and ids(tmp_path) == ["c", "bb", "a~b", "d"]


def test_of_tokens_that_the_control_dictated_nothing_is_kept(tmp_path: Path) -> None:
    texts = Texts(tmp_path, ALL)
    texts.keep({**pair("a~0~forced"), "phase": "forced"})
    assert list(tmp_path.iterdir()) == []


def test_a_pair_is_known_as_its_requests_by_its_number_and_its_phase() -> None:
    assert all(is_of(id, {"a"}) for id in ("a", "a~0", "a~12", "a~0~forced", "a~1~scored"))
    assert not any(is_of(id, {"a"}) for id in ("aa", "a~b", "a~b~0", "a~", "a~0~", "a~0~forced~1"))


def test_a_text_that_is_with_the_command_when_it_is_forgotten_is_not_written(tmp_path: Path) -> None:
    texts, waiting = Texts(tmp_path, replace(ALL, redact_command=("cat",))), list[Any]()
    texts.scrub = lambda _command, some, write: waiting.append((some, write))
    texts.keep(pair("a"))
    texts.keep(pair("b"))
    texts.forget(["a"])
    for some, write in waiting:
        write(some)
    assert ids(tmp_path) == ["b"]


@pytest.mark.parametrize("change", ["another epoch", "other patterns"])
def test_a_text_that_is_with_the_command_when_it_would_be_kept_otherwise_is_not_written(
    tmp_path: Path, change: str
) -> None:
    texts, waiting = Texts(tmp_path, replace(ALL, redact_command=("cat",))), list[Any]()
    texts.scrub = lambda _command, some, write: waiting.append((some, write))
    texts.keep(pair("a"))
    if change == "another epoch":
        texts.begin(anew=True)
    else:
        texts.renew(replace(texts.spec, redact=("sesame",)))
    texts.keep(pair("b"))
    for some, write in waiting:
        write(some)
    assert ids(tmp_path) == ["b"] and texts.lost == 1


def test_what_is_damaged_or_torn_may_be_what_is_to_be_forgotten_and_goes_too(tmp_path: Path) -> None:
    texts = Texts(tmp_path, ALL)
    for id in "abc":
        texts.keep(pair(id, ["canary"]))
    raw = bytearray((tmp_path / NAME).read_bytes())
    raw[raw.index(b"canary", len(raw) // 2) - 9] ^= 0xFF
    (tmp_path / NAME).write_bytes(bytes(raw) + packed(Kept("d", [("quick", 0, ["torn canary"])]))[:-1])
    assert forget_in(tmp_path, ["nobody's"]) == 0
    assert len(ids(tmp_path)) == 2 and on_disk(tmp_path).count(b"canary") == 2


@given(st.lists(st.sampled_from("abc"), max_size=12), st.sets(st.sampled_from("abc")), st.integers(0, 12))
def test_the_others_texts_are_as_they_were(written: list[str], forgotten: set[str], put_by: int) -> None:
    with TemporaryDirectory() as folder:
        texts = Texts(Path(folder), ALL)
        for number, id in enumerate(written):
            if 0 < number == put_by:
                os.replace(Path(folder) / NAME, Path(folder) / BEFORE)
            texts.keep(pair(id, [f"{id} of {number}"]))
        before = [record for name in (BEFORE, NAME) for record in records(Path(folder) / name)]
        gone = texts.forget(forgotten)
        after = [record for name in (BEFORE, NAME) for record in records(Path(folder) / name)]
        assert after == [one for one in before if one.id not in forgotten]
        assert gone == len(before) - len(after)


def test_texts_of_an_experiment_that_is_gone_go_with_what_a_kill_left_of_them(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / HALF).write_bytes(b"half of a file")
    assert forget_others(tmp_path, ["here"]) == ["gone"] and not any((tmp_path / "gone").iterdir())


def test_over_http_and_by_the_command_a_request_is_forgotten_in_one_experiment_or_in_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def typed(*words: str) -> tuple[int, str]:
        status = main(["experiment", "forget", *words])
        said = capsys.readouterr()
        return status, (said.out or said.err).strip()

    async def run() -> None:
        courses = [Course(replace(SPEC, name=name), tmp_path, texts=ALL) for name in ("trial", "other")]
        notices: list[tuple[str, Any]] = []
        board = Board("0", courses, lambda what, **values: notices.append((what, values)))
        await board.load()
        for course in courses:
            for id in ("a", "b", "b~1"):
                course.pair(pair(id))
        admin = await start_admin(board, "127.0.0.1", 0)
        here = ("--admin", f"127.0.0.1:{admin.port}")

        async def done(*words: str) -> tuple[int, str]:
            return await asyncio.to_thread(typed, *words, *here)

        try:
            assert await done("trial", "--id", "b") == (0, "trial: texts of 2 pairs forgotten")
            assert ids(tmp_path / "trial") == ["a"] and ids(tmp_path / "other") == ["a", "b", "b~1"]
            status, said = await done("--all", "--id", "a", "--id", "b")
            assert (status, said.splitlines()) == (
                0,
                ["other: texts of 3 pairs forgotten", "trial: texts of 1 pair forgotten"],
            )
            assert ids(tmp_path / "trial") == ids(tmp_path / "other") == []
            assert notices[-1] == ("texts_forgotten", {"requests": 2, "pairs": 4})
            assert (await done("nobody", "--id", "a"))[1].endswith("there are: trial, other")
            assert (await done("trial"))[1].endswith("say which requests: --id, by their x-request-id")
            os.mkdir(tmp_path / "trial" / BEFORE)
            assert (await done("trial", "--id", "a"))[1].endswith("cannot all be taken out: Is a directory")
            status, said = await done("trial", "--id", "a", "--state-dir", str(tmp_path))
            assert status == 1 and "trial is running: ask it" in said
        finally:
            await admin.close()
            await board.finish(10)

    asyncio.run(run())


def test_while_nobody_runs_it_the_command_forgets_in_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        for id in "ab":
            Texts(tmp_path / name, ALL).keep(pair(id))
        (tmp_path / name / HALF).write_bytes(b"half of a file")
    assert main(["experiment", "forget", "--all", "--id", "a", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "one: texts of 1 pair forgotten\ntwo: texts of 1 pair forgotten\n"
    assert ids(tmp_path / "one") == ids(tmp_path / "two") == ["b"] and not list(tmp_path.rglob(HALF))
    assert main(["experiment", "forget", "three", "--id", "a", "--state-dir", str(tmp_path)]) == 1
    assert "there is no experiment 'three'" in capsys.readouterr().err
