"""One stream under every tool's definition: by hand, from the formulas in their sources."""

import json
from typing import Any

from analysis.definitions import Row, definitions

MS = 1_000_000


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def part(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


# Role at 10 ms, reasoning at 400 and 410, text from 500 to 530, finish at 600, usage at 700, end at 800.
STREAM = [
    (10, event(**part(role="assistant", content=""))),
    (400, event(**part(reasoning_content="hm"))),
    (410, event(**part(reasoning_content="so"))),
    *((at, event(**part(content="x"))) for at in (500, 510, 520, 530)),
    (600, event(**part(finish="stop"))),
    (700, event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 6})),
    (800, b"data: [DONE]\n\n"),
]


def table(stream: list[tuple[int, bytes]]) -> dict[str, Row]:
    reads = [(1000 * MS + at * MS, data) for at, data in stream]
    return {row.tool: row for row in definitions(reads, 1000 * MS, 1800 * MS)}


def figures(row: Row) -> tuple[float | None, ...]:
    found = (row.ttft_ms, row.itl_ms, row.tpot_ms, row.e2e_ms)
    return tuple(None if one is None else round(one, 6) for one in found)


def test_one_stream_has_as_many_latencies_as_there_are_tools() -> None:
    rows = table(STREAM)
    assert figures(rows["Shadowlane"]) == (400, 10, 26, 530)
    assert figures(rows["AIPerf"]) == (400, 26, None, 530)
    assert figures(rows["GuideLLM"]) == (400, 26, round(530 / 6, 6), 800)
    assert figures(rows["genai-bench"]) == (400, None, 60, 700)
    assert figures(rows["inference-perf"]) == (500, 10, 6, 800)
    assert figures(rows["vLLM bench serve"]) == (10, round(590 / 7, 6), 118, 600)
    assert figures(rows["LLMPerf"]) == (None,) * 4 and "usage" in rows["LLMPerf"].note


def test_without_a_usage_event_llmperf_has_figures_and_nobody_has_a_count() -> None:
    rows = table([read for read in STREAM if b"usage" not in read[1]])
    assert figures(rows["LLMPerf"]) == (500, 530 / 8, None, 800)  # eight events, of which four are text
    assert rows["genai-bench"].e2e_ms == 800


def test_calls_alone_are_no_text_to_those_who_look_for_text() -> None:
    call = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]
    rows = table(
        [(10, event(**part(role="assistant"))), (50, event(**part(finish="tool_calls", tool_calls=call)))]
    )
    assert {tool for tool, row in rows.items() if row.ttft_ms == 50} == {"Shadowlane", "AIPerf", "GuideLLM"}
    for tool in ("genai-bench", "inference-perf", "LLMPerf"):
        assert figures(rows[tool]) == (None,) * 4 and rows[tool].note
    assert rows["vLLM bench serve"].ttft_ms == 10


def test_a_stream_that_says_nothing_has_no_latency_of_ours_and_garbage_is_no_fault() -> None:
    rows = table([(10, event(**part(role="assistant"))), (20, b"data: {oops\n\n"), (30, b"data: null\n\n")])
    assert figures(rows["Shadowlane"]) == (None,) * 4
    assert figures(rows["AIPerf"]) == (None,) * 4
