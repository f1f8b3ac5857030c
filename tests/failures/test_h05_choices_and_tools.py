"""Choices and tool calls come interleaved: recorded answers mix them, arguments are glued together."""

import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from analysis.transcript import ToolCall
from tests.failures.mirrored import content, mirrored
from tests.failures.support import ask_each, last_counts, number, told
from tests.support import LAST, SSE_HEAD, Engine, Peer, chunk, running
from tests.support_shared import run

Delta = tuple[int, dict[str, Any]]  # a choice's index and what it says


def orders(first: Sequence[Any], second: Sequence[Any]) -> Iterator[list[Any]]:
    """Every way to interleave two sequences."""
    size = len(first) + len(second)
    for places in combinations(range(size), len(first)):
        one, other = iter(first), iter(second)
        yield [next(one) if place in places else next(other) for place in range(size)]


def chunked(deltas: Sequence[Delta]) -> list[list[Delta]]:
    """The deltas in as few chunks as can be: each choice once in a chunk."""
    chunks: list[list[Delta]] = [[]]
    for delta in deltas:
        if any(delta[0] == index for index, _ in chunks[-1]):
            chunks.append([])
        chunks[-1].append(delta)
    return chunks


def stream(chunks: Sequence[Sequence[Delta]], finish: dict[int, str]) -> list[bytes]:
    payloads: list[Any] = [
        {"choices": [{"index": index, "delta": delta} for index, delta in deltas]} for deltas in chunks
    ]
    payloads += [
        {"choices": [{"index": index, "delta": {}, "finish_reason": why}]} for index, why in finish.items()
    ]
    return [b"data: %b\n\n" % json.dumps(payload).encode() for payload in payloads] + [b"data: [DONE]\n\n"]


def texts(index: int, *parts: str) -> list[Delta]:
    return [(index, {"content": part}) for part in parts]


ENDS = {1: "length", 0: "stop"}
ORDERS = list(orders(texts(0, "A", "A2", "A3"), texts(1, "B", "B2", "B3")))
INTERLEAVED = [stream([[delta] for delta in order], ENDS) for order in ORDERS]
INTERLEAVED += [stream(chunked(order), ENDS) for order in ORDERS]
INTERLEAVED += [stream([deltas[::-1] for deltas in chunked(order)], ENDS) for order in ORDERS]


def test_h05_choices_and_tools_are_relayed_unchanged() -> None:
    cases = [*INTERLEAVED, *(case for case, _ in TOOLS.values())]

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, *map(chunk, cases[number(peer)]), LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            for got, sent in zip(await ask_each(gateway.port, len(cases)), cases, strict=True):
                assert got.is_whole and got.text == b"".join(sent)
            assert (await last_counts(gateway, heard)).get("complete") == len(cases)

    run(test())


def test_h05_choices_and_tools_interleaved_in_any_order_are_told_apart(tmp_path: Path) -> None:
    """Choices 0 and 1 in turn, in all orders, alone and together in a chunk."""

    async def test() -> None:
        for sent, pair in zip(INTERLEAVED, await mirrored(tmp_path, INTERLEAVED, gap_s=0), strict=True):
            read = content(pair["answers"][0])
            heard = [(one.index, one.text, one.finish_reason) for one in read.choices]
            assert heard == [(0, "AA2A3", "stop"), (1, "BB2B3", "length")], sent
            assert read.finished and len(read.token_events) == 6

    run(test())


def call(
    key: int | None, id: str | None = None, name: str | None = None, arguments: str | None = None
) -> Delta:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    tool = {k: v for k, v in (("index", key), ("id", id), ("type", id and "function")) if v is not None}
    return 0, {"tool_calls": [{**tool, "function": function}]}


F, G = ToolCall("f", '{"x":1}'), ToolCall("g", '{"y":[2]}')
ONE = [call(0, "a", "f", ""), call(0, None, None, '{"x"'), call(0, None, None, ":1}")]
TWO = [call(1, "b", "g", ""), call(1, None, None, '{"y":'), call(1, None, None, "[2]}")]
END = {0: "tool_calls"}


def alone(deltas: Sequence[Delta]) -> list[bytes]:
    return stream([[delta] for delta in deltas], END)


# Every order in which the fragments of two calls can come: by index; and what engines do besides.
TOOLS: dict[str, tuple[list[bytes], tuple[ToolCall, ...]]] = {
    **{
        f"by index, order {n}": (
            alone(order),
            (F, G) if order.index(ONE[0]) < order.index(TWO[0]) else (G, F),
        )
        for n, order in enumerate(orders(ONE, TWO))
    },
    "whole calls": (
        alone([call(0, "a", "f", F.arguments), call(1, "b", "g", G.arguments)]),
        (F, G),
    ),
    "whole calls in one delta": (
        alone(
            [
                (
                    0,
                    {
                        "tool_calls": [
                            one[1]["tool_calls"][0]
                            for one in (call(0, "a", "f", F.arguments), call(1, "b", "g", G.arguments))
                        ]
                    },
                )
            ]
        ),
        (F, G),
    ),
    "one index, two ids": (
        alone([call(0, "a", "f", '{"x"'), call(0, None, None, ":1}"), call(0, "b", "g", G.arguments)]),
        (F, G),
    ),
    "one index, two ids, in turn": (
        alone(
            [
                call(0, "a", "f", '{"x"'),
                call(0, "b", "g", '{"y":'),
                call(0, "a", None, ":1}"),
                call(0, "b", None, "[2]}"),
            ]
        ),
        (F, G),
    ),
    "the id with every fragment": (
        alone([call(0, "a", "f", ""), call(0, "a", None, '{"x"'), call(0, "a", None, ":1}")]),
        (F,),
    ),
    "an empty id with the later ones": (
        alone([call(0, "a", "f", ""), call(0, "", None, '{"x"'), call(0, "", None, ":1}")]),
        (F,),
    ),
    "the id after the name": (
        alone([call(0, None, "f", ""), call(0, "a", None, '{"x"'), call(0, None, None, ":1}")]),
        (F,),
    ),
    "no index": (
        alone(
            [call(None, "a", "f", '{"x"'), call(None, None, None, ":1}"), call(None, "b", "g", '{"y":[2]}')]
        ),
        (F, G),
    ),
}


def test_h05_choices_and_tools_fragments_go_to_their_own_call(tmp_path: Path) -> None:
    """By index, and by id where ids contradict; in every order, each call's arguments stay valid JSON."""

    async def test() -> None:
        pairs = await mirrored(tmp_path, [case for case, _ in TOOLS.values()], gap_s=0)
        for (name, (_, calls)), pair in zip(TOOLS.items(), pairs, strict=True):
            (choice,) = content(pair["answers"][0]).choices
            assert choice.tool_calls == calls, name
            assert choice.finish_reason == "tool_calls"
            assert all(json.loads(one.arguments) for one in choice.tool_calls)

    run(test())


def test_h05_choices_and_tools_of_two_choices_stay_apart(tmp_path: Path) -> None:
    """Both choices call tools with the same index: the calls are keyed by choice first."""

    async def test() -> None:
        other = [(1, delta) for _, delta in (call(0, "b", "g", '{"y":'), call(0, None, None, "[2]}"))]
        cases = [
            stream([[delta] for delta in order], {0: "tool_calls", 1: "tool_calls"})
            for order in orders(ONE, other)
        ]
        for pair in await mirrored(tmp_path, cases, gap_s=0):
            read = content(pair["answers"][0])
            assert [one.tool_calls for one in read.choices] == [(F,), (G,)] and read.finished

    run(test())
