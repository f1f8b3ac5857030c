"""Recording is begun, changed and ended by a reload, and no request notices."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.gateway.whole import begin, serving, with_engines
from tests.recording.staging import answer, at_rest, rows
from tests.recording.test_killed import asked, asked_until_written, ids
from tests.support import Engine, answers, until


def test_a_reload_begins_changes_and_ends_a_recording(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    async def scene(stack: AsyncExitStack) -> None:
        await begin(stack, one := Engine(answers(*answer("one two", 20, 2))))

        async def reloaded(**record: Any) -> None:
            whole.write(record=record)
            status, said = await whole.reload()
            assert (status, said["trouble"]) == (200, {}), said

        async with serving(tmp_path, {"fleets": [{"engines": [one.url]}]}) as whole:
            await asked(whole, "before", 3)
            assert "_recording" not in whole.children()
            await reloaded(to=str(first))
            await asked_until_written(whole, "begun", first)
            pid = whole.children()["_recording"]
            await reloaded(to=str(second), text=True)
            await asked_until_written(whole, "changed", second)
            assert any(row.request is not None for row in rows(second))
            assert b"changed" not in at_rest(first)[0]
            assert whole.children()["_recording"] == pid  # the same process goes on
            await reloaded(to=str(second), text=False, rate=0.5)
            count = len(list(second.glob("*Z.json")))
            assert count == 2  # another recording: what lies beside says what its rows hold

            await reloaded()
            seen = len(ids(second))
            await asked(whole, "ended", 5)
            await asyncio.sleep(1.5)
            assert len(ids(second)) == seen and whole.children()["_recording"] == pid
            written = await whole.metric("shadowlane_recorded_total")
            assert written == len(ids(first)) + len(ids(second))

            await reloaded(to=str(first))
            await asked_until_written(whole, "again", first)
            assert not any(name.startswith(("before", "ended")) for name in ids(first) if name)
            assert await whole.metric("shadowlane_recorded_total") >= written

    with_engines(scene)


def test_a_bad_setting_is_refused_and_the_recording_goes_on(tmp_path: Path) -> None:
    to = tmp_path / "recordings"

    async def scene(stack: AsyncExitStack) -> None:
        await begin(stack, one := Engine(answers(*answer("one two", 20, 2))))
        settings = {"fleets": [{"engines": [one.url]}], "record": {"to": str(to)}}
        async with serving(tmp_path, settings) as whole:
            whole.write(record={"to": str(to), "redact": ["("]})
            status, said = await whole.reload()
            assert status == 422 and "record.redact[0]" in said["error"]["message"]
            await until(lambda: "_recording" in whole.children(), 30)
            await asked_until_written(whole, "on", to)

    with_engines(scene)
