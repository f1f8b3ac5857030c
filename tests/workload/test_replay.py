"""Open loop: nothing waits for anything but a conversation's turn for the one before it, and lag is told."""

import asyncio
import json
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recording.staging import answer
from tests.support import Engine, Peer, answers, json_answer
from workload.asks import Ask
from workload.replay import HttpSender, Sent, Settings, open_loop
from workload.replaying import session
from workload.reply import Reply, reply
from workload.results import Slo, results, table
from workload.words import Scale, text_of


def ask(id: str, at_s: float, *, after: str | None = None, **more: object) -> Ask:
    fields: dict[str, object] = {"prompt_tokens": 50, "output_tokens": 2, **more}
    return Ask(at_s=at_s, id=id, after=after, **fields)  # type: ignore[arg-type]


class Slow:
    """Takes `took_s` for each request, and keeps when each was begun and ended."""

    def __init__(self, took_s: float) -> None:
        self.took_s = took_s
        self.begun: dict[str, float] = {}
        self.earlier: dict[str, str | None] = {}
        self.ended: list[str] = []

    async def send(self, ask: Ask, scheduled_s: float, earlier: str | None) -> str:
        assert time.monotonic() >= scheduled_s
        self.begun[ask.id], self.earlier[ask.id] = time.monotonic(), earlier
        await asyncio.sleep(self.took_s)
        self.ended.append(ask.id)
        return ask.id


def sent(listed: list[Ask], slow: Slow, **more: float) -> Sent[str]:
    return asyncio.run(open_loop(listed, slow.send, clock=time.monotonic, **more))  # type: ignore[arg-type]


def test_a_slow_server_holds_nobody_up_but_the_same_conversations_next_turn() -> None:
    slow = Slow(0.3)
    talk = [ask("a0", 0.0), ask("a1", 0.05, after="a0"), ask("a2", 0.1, after="a1")]
    others = [ask(f"o{n}", 0.1) for n in range(20)]
    found = sent([*talk, *others], slow)
    assert len(found.results) == 23 and found.waited == 2 and found.shed == 0
    assert found.most_open == 23  # all were open at once: none waited for another to end
    assert slow.ended.index("a0") < slow.ended.index("a1") < slow.ended.index("a2")
    assert slow.earlier["a1"] == "a0" and slow.earlier["a2"] == "a1" and slow.earlier["o0"] is None


def test_beyond_the_bound_requests_are_shed_and_counted() -> None:
    found = sent([ask(str(n), 0.0) for n in range(9)], Slow(0.1), most_open=4)
    assert len(found.results) == 4 and found.shed == 5


def test_a_turn_whose_beginning_was_shed_is_sent_alone() -> None:
    found = sent([ask("a", 0.0), ask("b", 0.0), ask("c", 0.3, after="b")], Slow(0.05), most_open=1)
    assert [one.id for one, _ in found.results] == ["a", "c"] and found.shed == 1


def test_at_the_end_of_its_time_what_is_open_is_left_and_no_task_stays() -> None:
    async def scene() -> None:
        slow = Slow(60.0)
        found = await open_loop([ask("a", 0.0), ask("b", 50.0)], slow.send, clock=time.monotonic, until_s=0.2)
        assert found.results == [] and [task.get_name() for task in asyncio.all_tasks()].count("request") == 0

    asyncio.run(scene())


@given(st.integers(0, 300), st.integers(1, 400), st.integers(1, 64))
def test_prompts_that_share_blocks_share_their_text_and_no_more(shared: int, rest: int, size: int) -> None:
    scale = Scale()
    whole = shared // size
    one = [*range(whole), *range(1_000, 1_400)]
    other = [*range(whole), *range(2_000, 2_400)]
    a = text_of(one, size, whole * size + rest, scale).split(" ")
    b = text_of(other, size, whole * size + rest, scale).split(" ")
    assert len(a) == len(b) == whole * size + rest
    assert a[: whole * size] == b[: whole * size]
    assert rest < 8 or a != b


@given(st.floats(0.5, 3.0), st.integers(1, 2_000), st.integers(1, 100))
def test_as_many_words_are_made_as_the_servers_count_asks_for(
    per_word: float, tokens: int, size: int
) -> None:
    scale = Scale(7.0, per_word)
    words = len(text_of([], size, tokens, scale, name="x").split())
    assert abs(scale.front + words * per_word - max(tokens, 8)) <= per_word + 1


def test_a_part_of_a_prompt_is_what_the_whole_one_has_there() -> None:
    whole = text_of([1, 2, 3], 10, 30, Scale()).split(" ")
    assert text_of([1, 2, 3], 10, 30, Scale(), skip=13).split(" ") == whole[13:]


REASONING = [
    (1.0, b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'),
    (2.0, b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\ndata: {"choi'),
    (3.0, b'ces":[{"index":0,"delta":{"content":"one"}}]}\n\n'),
    (4.0, b'data: {"choices":[{"index":0,"delta":{"content":"\\u00e9"},"finish_reason":null}]}\n\n'),
    (5.0, b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'),
    (6.0, b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}\n\ndata: [DONE]\n\n'),
]


def read(reads: list[tuple[float, bytes]], failure: str | None = None) -> Reply:
    return reply(reads, scheduled_s=0.2, sent_s=0.5, ended_s=7.0, status=200, failure=failure, streamed=True)


def test_the_first_token_is_the_first_that_is_not_empty_and_the_last_no_finish() -> None:
    got = read(REASONING)
    assert (got.ttft_s, got.e2e_s, got.gaps_s, got.tpot_s) == (1.5, 3.5, [1.0, 1.0], 1.0)
    assert (got.text, got.tokens, got.prompt_tokens, got.cached_tokens) == ("hmoneé", 3, 9, None)
    assert got.failure is None and got.lag_s == pytest.approx(0.3)


@given(st.integers(0, 5))
def test_a_stream_without_its_end_is_cut_wherever_it_stops(kept: int) -> None:
    assert read(REASONING[:kept]).failure in ("cut", "unreadable")


def test_an_error_inside_a_200_is_a_failure() -> None:
    got = read([(1.0, b'data: {"error":{"message":"no"}}\n\n'), (2.0, b"data: [DONE]\n\n")])
    assert got.failure == "error event" and got.ttft_s is None


def made(ttft_s: float | None, failure: str | None = None, tokens: int = 3) -> Reply:
    token_s = () if ttft_s is None else tuple(ttft_s + 0.01 * n for n in range(tokens))
    return Reply(0.0, 0.0, 1.0, 200, failure, "", token_s, token_s[-1] if token_s else None, tokens, 10, 5)


def test_goodput_counts_what_keeps_all_bounds_and_failures_are_misses() -> None:
    listed = [made(0.1), made(0.3), made(None), made(0.1, "cut"), made(0.1, tokens=1)]
    pairs = [(ask(str(n), 0.0), one) for n, one in enumerate(listed)]
    found = results(pairs, Slo(ttft_ms=200, tpot_ms=20), shed=1)
    assert (found.ok, found.requests, found.failures) == (4, 6, {"cut": 1})
    assert found.goodput == 2.0 and found.good_share == pytest.approx(2 / 6)
    assert found.hit_rate == 0.5 and found.ttft.n == 3 and found.ttft.missing == 1
    shown = table(found, Slo(ttft_ms=200, tpot_ms=20))
    assert "goodput       2.00 requests/s" in shown and "schedule lag" in shown


async def talked(history: str, engine: Engine, listed: list[Ask]) -> list[Reply]:
    await engine.start()
    try:
        async with session() as http:
            settings = Settings(engine.url, model="m", history=history, extra={"seed": 1})  # type: ignore[arg-type]
            sender = HttpSender(http, settings, clock=time.monotonic)
            found = await open_loop(listed, sender.send, clock=time.monotonic)
    finally:
        await engine.stop()
    return [one for _, one in found.results]


def bodies(engine: Engine) -> list[list[dict[str, str]]]:
    return [json.loads(peer.body)["messages"] for peer in engine.asked]


TEXTS = [
    ask("a", 0.0, body={"messages": [{"role": "user", "content": "one?"}], "top_p": 0.5}),
    ask(
        "b",
        0.01,
        after="a",
        body={
            "messages": [
                {"role": "user", "content": "one?"},
                {"role": "assistant", "content": "as recorded"},
                {"role": "user", "content": "two?"},
            ]
        },
    ),
]


@pytest.mark.parametrize(("history", "said"), [("recorded", "as recorded"), ("engine", "onetwo")])
def test_a_turn_carries_the_recorded_history_or_the_engines_own_answer(history: str, said: str) -> None:
    engine = Engine(answers(*answer("one two", 5, 2)))
    got = asyncio.run(talked(history, engine, TEXTS))
    assert [one.failure for one in got] == [None, None]
    first, second = bodies(engine)
    assert first == [{"role": "user", "content": "one?"}]
    assert [one["content"] for one in second] == ["one?", said, "two?"]
    body = json.loads(engine.asked[0].body)
    assert (body["top_p"], body["max_tokens"], body["stream"], body["seed"]) == (0.5, 2, True, 1)


def test_a_turn_without_text_goes_on_from_the_prompt_and_answer_before_it() -> None:
    engine = Engine(answers(*answer("one two", 48, 2)))
    listed = [
        ask("a", 0.0, prompt_tokens=48, blocks=(1, 2, 3), block_tokens=16),
        ask("b", 0.0, after="a", prompt_tokens=90, blocks=(1, 2, 3, 4, 5, 6), block_tokens=16, shared=48),
    ]
    asyncio.run(talked("engine", engine, listed))
    first, second = bodies(engine)
    assert second[0] == first[0] and second[1]["content"] == "onetwo"
    assert len(first[0]["content"].split()) == 48 and len(second[2]["content"].split()) == 90 - 48 - 2


def test_every_ending_is_counted_by_what_it_was() -> None:
    async def script(peer: Peer) -> None:
        what = json.loads(peer.body)["messages"][0]["content"]
        if what == "busy":
            await peer.send(json_answer(b'{"error":{}}', "503 Service Unavailable"))
        elif what == "cut":
            await peer.send(*answer("one two", 5, 2)[:2])
            peer.reset()
        else:
            await peer.send(*answer("one two", 5, 2))

    listed = [
        ask(str(n), 0.0, body={"messages": [{"role": "user", "content": what}]})
        for n, what in enumerate(("busy", "cut", "fine", "busy"))
    ]
    got = asyncio.run(talked("recorded", Engine(script), listed))
    assert Counter(one.failure for one in got) == {"status 503": 2, "cut": 1, None: 1}
