"""Golden requests through the analysis process: marked, logged without text, replayed alike."""

import asyncio
import json
from pathlib import Path
from typing import Any

from analysis.report import report, to_json
from analysis.store import LogReader
from tests.analysis.fleet import answer_frame
from tests.analysis.shell.frames import SPEC, analysis, books, pair

EXPERIMENT = "/api/experiments/kv"
SECRET = "Oslo-mellon"


def golden(n: int, words: dict[str, str], check: dict[str, Any]) -> list[Any]:
    """The n-th pair, of a golden request."""
    kind, body = pair(n, "live")
    answers = [answer_frame(arm, body["at_ns"], 20, 10, [said]) for arm, said in words.items()]
    told = {"id": f"set/{n}", "check": json.dumps(check).encode()}
    return [kind, {**body, "answers": answers, "golden": told, "mark": "golden"}]


def test_marks_are_in_the_ranking_and_in_the_log_and_no_text_is(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            for n in range(40):
                await shadow.send(pair(n, "calibration"))
            for n in range(40, 80):
                await shadow.send(pair(n, "live"))
            right = {"control": SECRET, "quick": SECRET, "same": SECRET}
            for n in range(100, 112):
                wrong = right if n % 4 == 0 else {**right, "quick": "Bergen"}
                await shadow.send(golden(n, wrong, {"kind": "exact", "value": SECRET}))
            await shadow.send(golden(120, right, {"kind": "no such check"}))
            await shadow.send(books(93, 93))

            def is_marked(ranking: dict[str, Any]) -> bool:
                return all(c["quality"]["requests"] == 12 for c in ranking["candidates"])

            ranking = await running.until(EXPERIMENT, is_marked)
            quality = {c["name"]: c["quality"] for c in ranking["candidates"]}
            assert (quality["same"]["both"], quality["same"]["label"]) == (12, "UNDECIDED")
            assert (quality["quick"]["both"], quality["quick"]["only_control"]) == (3, 9)
            assert quality["quick"]["label"] == "WORSE"
            assert ranking["marked_pairs"] == {"golden": 13}
            status = await running.until("/api/status", lambda s: "golden_failed" in s["troubles"])
            assert status["troubles"]["golden_failed"] == 1
            return (await running.get(EXPERIMENT))[1]

    live = asyncio.run(run())
    log = tmp_path / "state/kv/log.msgpack"
    assert sum(kind == "golden" for kind, _ in LogReader(log)) == 12
    assert SECRET.encode() not in log.read_bytes()
    assert to_json(report(log)) == live
