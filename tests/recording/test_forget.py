"""What is to be forgotten is: by id or by age, in files that are closed and while they are recorded."""

import asyncio
import os
from pathlib import Path

import pytest

from gateway.recording.forgetting import Keeping
from tests.failures.shadowed import served
from tests.recording.staging import answer, at_rest, chat, recorded, rows, sidecar
from tests.support import Engine, answers, until
from workload.command import main
from workload.forget import ask, asked, forget, keeper
from workload.packed import ENDINGS, Lines, Packing
from workload.row import Row, to_line

CANARY = b"zebra-canary"


def row(id: str, turn: int = 0, session: str = "s", parent: str | None = None, **more: object) -> Row:
    said = {"messages": [{"role": "user", "content": f"{CANARY.decode()} {id}"}]}
    values: dict[str, object] = {"request": said, "answer": f"{CANARY.decode()} to {id}", **more}
    return Row(
        timestamp=float(turn),
        input_length=9,
        output_length=3,
        id=id,
        turn=turn,
        session=session,
        parent=parent,
        **values,  # type: ignore[arg-type]
    )


def written(folder: Path, *rows: Row, number: int = 1, packing: Packing = "zstd") -> Path:
    lines = Lines(folder / f"20261130T040501Z-{number:04d}{ENDINGS[packing]}", packing)
    for one in rows:
        lines.add(to_line(one))
    lines.close()
    return lines.path


@pytest.mark.parametrize("packing", ["zstd", "gzip", "none"])
def test_a_forgotten_request_is_gone_and_later_turns_keep_their_figures_without_text(
    tmp_path: Path, packing: Packing
) -> None:
    first = written(tmp_path, row("a"), row("b", 1), row("other", session="t"), packing=packing)
    written(
        tmp_path, row("c", 2), row("d", 0, "u", parent="a"), row("e", 1, "v", "d"), number=2, packing=packing
    )
    before = first.stat()
    done = forget([tmp_path], {"a"})
    assert (done.rows, done.texts, done.busy) == (1, 4, [])
    found = {one.id: one for one in rows(tmp_path)}
    assert set(found) == {"b", "other", "c", "d", "e"}
    assert {id for id, one in found.items() if one.request or one.answer} == {"other"}
    assert found["c"].input_length == 9 and found["c"].parent is None
    assert first.stat().st_mtime_ns == before.st_mtime_ns and first.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in tmp_path.glob("2026*")}


def test_what_nobody_asked_to_forget_stays_byte_for_byte_foreign_lines_too(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    line = b'{"timestamp":1,"input_length":2,"output_length":3,"hash_ids":[1],"theirs":"kept"}\n'
    file.write_bytes(line + to_line(row("a")) + b"no json\n" + line)
    assert forget([file], {"nobody"}).rows == 0
    assert forget([file], {"a"}).rows == 1
    assert file.read_bytes() == line + b"no json\n" + line


def test_a_kill_while_a_file_is_written_anew_leaves_the_old_one_and_nothing_beside_it_for_long(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, row("a"), row("b"), packing="none")
    left = tmp_path / f".{file.name}.half"
    left.write_bytes(to_line(row("b")))  # as a kill left it
    with keeper(tmp_path) as is_ours:
        assert is_ours and not left.exists()
        with keeper(tmp_path) as again:
            assert not again
    assert [one.id for one in rows(tmp_path)] == ["a", "b"]


def test_a_file_that_is_being_written_is_left_alone_and_named(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "20261130T040501Z-0001.jsonl", "none")
    lines.add(to_line(row("a")))
    assert forget([tmp_path], {"a"}).busy == [lines.path]
    lines.close()
    assert forget([tmp_path], {"a"}).rows == 1


def test_the_command_forgets_requests_or_all_text_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = written(tmp_path, row("a"), row("b", session="t")), written(tmp_path, row("c"), number=2)
    assert main(["workload", "forget", str(tmp_path), "--id", "a"]) == 0
    assert "1 requests forgotten, and the text of 0 others\n" in capsys.readouterr().err
    assert main(["workload", "forget", str(tmp_path), "--id", "a"]) == 0
    assert "no row that was read has such an id" in capsys.readouterr().err
    os.utime(old, (1, 1))
    assert main(["workload", "forget", str(tmp_path), "--text", "--days", "7"]) == 0
    assert {one.id for one in rows(tmp_path) if one.request is not None} == {"c"}
    assert main(["workload", "forget", str(new), "--text"]) == 0
    assert CANARY not in at_rest(tmp_path)[0] and [one.id for one in rows(tmp_path)] == ["b", "c"]
    assert main(["workload", "forget", str(tmp_path)]) == 2
    assert "--id" in capsys.readouterr().err


def test_old_text_is_taken_out_after_a_restart_too_and_looked_for_no_more(tmp_path: Path) -> None:
    file = written(tmp_path, row("a"), row("b"), packing="none")
    (tmp_path / "20261130T040501Z.json").write_text('{"schema": 1, "text": true}')
    now_s = file.stat().st_mtime
    young = Keeping(tmp_path, 3600.0)
    assert young.asked() == {} and young.look({}, now_s, "now").expired == 0
    young.close()
    after = Keeping(tmp_path, 3600.0)  # another process, later
    assert after.asked() == {} and after.look({}, now_s + 4000, "now").expired == 2
    assert CANARY not in file.read_bytes() and [one.input_length for one in rows(tmp_path)] == [9, 9]
    assert sidecar(tmp_path)["text"] is False


def test_while_it_is_recorded_it_is_forgotten_by_who_records_what_is_under_way_and_what_goes_on_too(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        engine = Engine(answers(*answer("walrus-canary said", 9, 2)))
        async with recorded(tmp_path, engine, text=True) as there:
            assert await served(there.gateway, chat("zebra-canary"), "X-Request-ID: a")
            assert await served(there.gateway, chat("quite another"), "X-Request-ID: z")
            await until(lambda: len(rows(tmp_path)) == 2, 30)
            code = await asyncio.to_thread(main, ["workload", "forget", str(tmp_path), "--id", "a"])
            assert code == 0 and not asked(tmp_path)
            assert await served(
                there.gateway, chat("zebra-canary", "walrus-canary said", "more"), "X-Request-ID: b"
            )
            assert await served(there.gateway, chat("zebra-canary"), "X-Request-ID: a")
            assert await served(there.gateway, chat("quite another", "walrus", "more"), "X-Request-ID: y")
            found = {one.id: one for one in await there.ended()}
        assert set(found) == {"z", "b", "y"}
        assert {id for id, one in found.items() if one.request is not None} == {"z", "y"}
        assert at_rest(tmp_path)[1] == {0o600}

    asyncio.run(scene())


def test_what_was_asked_while_nobody_recorded_is_done_when_somebody_does(tmp_path: Path) -> None:
    written(tmp_path, row("a"), row("b", session="t"))
    left = ask(tmp_path, {"a"})
    assert left.stat().st_mode & 0o777 == 0o600

    async def scene() -> None:
        async with recorded(tmp_path):
            await until(lambda: not left.exists(), 30)

    asyncio.run(scene())
    assert [one.id for one in rows(tmp_path)] == ["b"]
