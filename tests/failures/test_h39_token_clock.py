"""TTFT of 1 ms, stopped by a role or a comment, or of minutes, thoughts not counted; ITL wrong by bursts."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from analysis.measure import AnswerMeasure, measure
from mirror.spec import ArmSpec
from tests.mirror.scripted import SSE_HEAD as ARM_HEAD
from tests.mirror.scripted import Request, engine
from tests.mirror.staging import copy_frame, experiment, served_frame, shadow, until
from tests.support import LAST, SSE_HEAD, Engine, Peer, chunk, post, running
from tests.support_shared import run

GAP_S = 0.3
COMMENT = b": hb\n\n"


def data(payload: Any, event: str | None = None) -> bytes:
    named = b"" if event is None else b"event: " + event.encode() + b"\n"
    return named + b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def chat(finish: str | None = None, **delta: Any) -> bytes:
    return data({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def tool(name: str | None, arguments: str) -> bytes:
    return chat(tool_calls=[{"index": 0, "id": "a", "function": {"name": name, "arguments": arguments}}])


def text(said: str, finish: str | None = None) -> bytes:
    return data({"choices": [{"index": 0, "text": said, "finish_reason": finish}]})


def claude(kind: str, **fields: Any) -> bytes:
    return data({"type": kind, **fields}, kind)


def block(**delta: Any) -> bytes:
    return claude("content_block_delta", index=0, delta=delta)


CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
START = {"id": "x", "role": "assistant", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}
USAGE_ONLY = data({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 0}})
# Of each API: what may come before the first token and is none; the first token, in each form; the end.
BEFORE = {
    CHAT: [
        chat(role="assistant", content=""),
        COMMENT,
        chat(content=None),
        chat(),
        USAGE_ONLY,
        b"data: null\n\n",
    ],
    COMPLETIONS: [COMMENT, text(""), USAGE_ONLY],
    MESSAGES: [
        claude("message_start", message=START),
        claude("ping"),
        claude("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        COMMENT,
    ],
    RESPONSES: [
        claude("response.created", response={"id": "r", "status": "in_progress", "output": []}),
        COMMENT,
        claude("response.output_item.added", output_index=0, item={"type": "message", "content": []}),
    ],
}
FIRST = {
    CHAT: [
        chat(content="x"),
        chat(content=" "),
        chat(content="\u00e9\U0001f642"),
        chat(reasoning_content="x"),
        chat(reasoning="x"),
        chat(role="assistant", content="", reasoning_content="x"),
        tool("f", ""),
        tool("f", '{"a"'),
        chat(refusal="x"),
    ],
    COMPLETIONS: [text("x"), text("\n")],
    MESSAGES: [block(type="text_delta", text="x"), block(type="thinking_delta", thinking="x")],
    RESPONSES: [claude("response.output_text.delta", output_index=0, content_index=0, delta="x")],
}
AFTER = {
    CHAT: [chat(content="y"), chat("stop"), b"data: [DONE]\n\n"],
    COMPLETIONS: [text("y"), text("", "stop"), b"data: [DONE]\n\n"],
    MESSAGES: [
        block(type="text_delta", text="y"),
        claude("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
        claude("message_stop"),
    ],
    RESPONSES: [
        claude("response.output_text.delta", output_index=0, content_index=0, delta="y"),
        claude("response.completed", response={"id": "r", "status": "completed", "output": []}),
    ],
}
CASES = [(path, first) for path in FIRST for first in FIRST[path]]


class Clocked:
    """An arm that sends each case's pieces a moment apart, and writes down when."""

    def __init__(self, cases: list[tuple[str, list[bytes]]], gap_s: float) -> None:
        self.cases = cases
        self.sent_ns: list[list[int]] = [[] for _ in cases]
        self._gap_s = gap_s

    async def script(self, request: Request, writer: asyncio.StreamWriter) -> None:
        n = int(request.headers["x-session-id"])
        writer.write(ARM_HEAD)
        for piece in self.cases[n][1]:
            await asyncio.sleep(self._gap_s)
            self.sent_ns[n].append(monotonic_ns())
            writer.write(chunk(piece))
            await writer.drain()
        writer.write(LAST)
        await writer.drain()

    async def measured(self, run_dir: Path) -> list[tuple[AnswerMeasure, list[int]]]:
        """What is measured of each case, and the instants of the reads that it was measured on."""
        async with engine(self.script) as arm:
            told = experiment(ArmSpec("control", arm.url), max_inflight=1_000)
            async with shadow(run_dir, told) as stage:
                _, lane = await stage.worker()
                for n, (path, _) in enumerate(self.cases):
                    headers = [(b"content-type", b"application/json"), (b"x-session-id", b"%d" % n)]
                    lane.write(copy_frame(str(n), n, headers=headers, path=path) + served_frame(str(n)))
                await until(lambda: len(stage.analysis.of("pair")) == len(self.cases))
                lane.close()
            pairs = {int(pair["id"]): pair for pair in stage.analysis.of("pair")}
        found = []
        for n in range(len(self.cases)):
            answer = measure(pairs[n]).answer("control")
            assert answer is not None
            found.append((answer, [at for at, _ in pairs[n]["answers"][0]["reads"]]))
        return found


def test_h39_token_clock_starts_with_the_first_token_and_with_nothing_before_it(tmp_path: Path) -> None:
    """Whatever came before, in every API: it lies between the engine's sending of it and of the next."""

    async def test() -> None:
        clocked = Clocked([(p, [*BEFORE[p], first, *AFTER[p]]) for p, first in CASES], GAP_S)
        for n, (answer, _) in enumerate(await clocked.measured(tmp_path)):
            path, first = CASES[n]
            assert answer.fault is None, (path, first, answer.fault)
            assert answer.ttft_ms is not None and answer.e2e_ms is not None, (path, first)
            at_ns = answer.sent_ns + answer.ttft_ms * 1e6
            place = len(BEFORE[path])
            assert clocked.sent_ns[n][place] - 1_000 <= at_ns < clocked.sent_ns[n][place + 1], (path, first)
            last_ns = answer.sent_ns + answer.e2e_ms * 1e6
            # The last token is the "y"; what only says how it ended is none.
            assert clocked.sent_ns[n][place + 1] - 1_000 <= last_ns < clocked.sent_ns[n][place + 2]

    run(test())


def test_h39_token_clock_gives_no_sample_where_no_token_came(tmp_path: Path) -> None:
    async def test() -> None:
        cases = [(path, [*BEFORE[path], *AFTER[path][1:]]) for path in FIRST]
        cases += [(CHAT, []), (CHAT, [COMMENT]), (CHAT, [b"data: [DONE]\n\n"])]
        for answer, _ in await Clocked(cases, 0.01).measured(tmp_path):
            assert (answer.ttft_ms, answer.itl_ms, answer.tpot_ms, answer.e2e_ms) == (None,) * 4
            assert answer.fault is not None

    run(test())


@pytest.mark.parametrize("burst", [1, 4])
def test_h39_token_clock_divides_gaps_by_the_tokens_in_them(tmp_path: Path, burst: int) -> None:
    """Speculative decoding: several tokens an event, as `usage` of each event or at the end tells."""

    def counted(n: int, *, each: bool) -> bytes:
        usage = {"usage": {"prompt_tokens": 5, "completion_tokens": n}} if each else {}
        delta = {"content": "t" * burst}
        return data({"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **usage})

    async def test() -> None:
        total = 6 * burst
        end = [chat("stop"), data({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": total}})]
        each = [counted(k * burst, each=True) for k in range(1, 7)]
        last = [counted(0, each=False) for _ in range(6)]
        two_a_read = [each[k] + each[k + 1] for k in range(0, 6, 2)]
        cases = [(CHAT, [*BEFORE[CHAT], *tokens, *end]) for tokens in (each, last, two_a_read)]
        for n, (answer, reads) in enumerate(await Clocked(cases, 0.02).measured(tmp_path)):
            arrivals = reads[len(BEFORE[CHAT]) : len(BEFORE[CHAT]) + (3 if n == 2 else 6)]
            assert answer.completion_tokens == total
            # Only what is known of the first read is taken off: without counts an event is taken for one.
            in_first = {0: burst, 1: 1, 2: 2 * burst}[n]
            expected = (arrivals[-1] - arrivals[0]) / 1e6 / (total - in_first)
            assert answer.tpot_ms == pytest.approx(expected), n
            gaps = sorted((b - a) / 1e6 for a, b in pairwise(arrivals))
            middle = len(gaps) // 2
            median = gaps[middle] if len(gaps) % 2 else (gaps[middle - 1] + gaps[middle]) / 2
            assert answer.itl_ms == pytest.approx(median), n  # events of one read have no gap between them

    run(test())


def test_h39_token_clock_of_the_gateway_starts_with_the_first_token_too() -> None:
    """Seen in its load table: a prompt waits until its first token has come, and no comment ends that."""

    async def test() -> None:
        steps: dict[int, asyncio.Queue[bytes]] = {}

        async def script(peer: Peer) -> None:
            queue = steps.setdefault(int(peer.line.split("?")[1].split()[0]), asyncio.Queue())
            await peer.send(SSE_HEAD)
            while piece := await queue.get():
                await peer.send(chunk(piece))
            await peer.send(LAST)

        one = Engine(script)
        async with running(one) as gateway:
            for n, (path, first) in enumerate(CASES):
                steps[n] = asyncio.Queue()
                asked = f"question {n}"  # each its own: what is cached does not wait
                messages = [{"role": "user", "content": asked}]
                fields = {"model": "m", "stream": True, "messages": messages, "prompt": asked, "input": asked}
                body = json.dumps(fields).encode()
                reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                try:
                    writer.write(post(body, f"{path}?{n}", close=False))
                    seen = 0
                    await until(lambda: gateway.loads.totals(0)[0] == 1)
                    for piece in [
                        COMMENT,
                        *BEFORE[path],
                        COMMENT,
                    ]:  # the last shows they were read
                        steps[n].put_nowait(piece)
                    while seen < 2 + BEFORE[path].count(COMMENT):
                        seen += (await asyncio.wait_for(reader.readuntil(b"\n"), 30)).count(b": hb")
                    assert gateway.loads.totals(0)[1] > 0, (path, first)
                    steps[n].put_nowait(first)
                    await until(lambda: gateway.loads.totals(0)[1] == 0)
                    for piece in [*AFTER[path], b""]:
                        steps[n].put_nowait(piece)
                    await asyncio.wait_for(reader.readuntil(LAST), 30)
                    assert gateway.loads.totals(0) == (0, 0, 0, 0)
                finally:
                    writer.close()

    run(test())
