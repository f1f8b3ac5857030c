"""A probe's question that got no answer is asked again: it is no refusal, and no other template."""

import asyncio
import json
from collections.abc import Callable

import pytest

from routing.bridge.probe import steps
from tests.gateway.bridge.test_school import asked, on_loop, schooling, written
from tests.support import Engine, Peer, json_answer, until

FAILURES = {
    "closed": b"",
    "late": json_answer(b"{}", "503 Service Unavailable"),
    "full": json_answer(b"{}", "429 Too Many Requests"),
    "gone": json_answer(b"{}", "502 Bad Gateway"),
}
BODIES = len({repr(body) for step in steps() for body in (step.before, step.after)})


def failing(fails: Callable[[int], bool], failure: bytes) -> Engine:
    """It tells ids, but of the questions whose number is one of those that fail; tools it refuses."""
    count = 0

    async def script(peer: Peer) -> None:
        nonlocal count
        count += 1
        body = json.loads(peer.body)
        if fails(count):
            await peer.send(failure)
            peer.close()
        elif "tools" in body:
            await peer.send(
                json_answer(b'{"message":"the template has no tools"}', "500 Internal Server Error")
            )
        else:
            await peer.send(json_answer(json.dumps({"tokens": written(body["messages"])}).encode()))

    return Engine(script, teaches=True)


async def printed(fails: Callable[[int], bool], failure: bytes) -> int:
    """What the first template that is told was named by."""
    engine = failing(fails, failure)
    await engine.start()
    async with schooling(probe_s=0.01) as there:
        worker = await there.worker(engine.url)
        await until(lambda: bool(worker.templates))
    await engine.stop()
    return worker.templates[0].print


@on_loop
async def test_whichever_question_is_not_answered_the_template_has_the_same_name() -> None:
    names = [await printed(lambda count: False, b"")]
    for number, failure in zip(range(1, 5 + BODIES, 3), list(FAILURES.values()) * BODIES, strict=False):
        names.append(await printed(lambda count, number=number: count == number, failure))  # type: ignore[misc]
    assert len(names) > 6 and len(set(names)) == 1


@pytest.mark.parametrize("failure", FAILURES.values(), ids=list(FAILURES))
@on_loop
async def test_what_was_learned_stays_while_questions_are_not_answered(failure: bytes) -> None:
    failed, off = 0, True

    def fails(count: int) -> bool:
        nonlocal failed
        failed += not off and count % 3 == 0
        return not off and count % 3 == 0

    engine = failing(fails, failure)
    await engine.start()
    async with schooling(probe_s=0.01) as there:
        worker = await there.worker(engine.url)
        await until(lambda: bool(worker.templates))
        worker.link.tell(asked())
        await until(lambda: len(worker.learned) == 1)
        off = False
        await until(lambda: failed > 20)
        off = True
        asked_before = len(engine.asked)
        await until(
            lambda: len(engine.asked) > asked_before + 4 * BODIES
        )  # it probes on, and all is answered
        late = await there.worker(engine.url)
        await until(lambda: late.learned == worker.learned)
        assert len(worker.templates) == 1 and late.templates == worker.templates
    await engine.stop()


@on_loop
async def test_an_answer_in_pieces_is_one_answer_and_one_that_is_cut_is_none() -> None:
    cut = [False]

    async def script(peer: Peer) -> None:
        body = json.loads(peer.body)
        answer = json_answer(json.dumps({"tokens": written(body["messages"])}).encode())
        for part in (
            (answer[:-40], answer[-40:-20]) if cut[0] else (answer[:-40], answer[-40:-20], answer[-20:])
        ):
            await peer.send(part)
            await peer.writer.drain()
            await asyncio.sleep(0.002)  # its own read at the other side
        if cut[0]:
            peer.close()

    engine = Engine(script, teaches=True)
    await engine.start()
    async with schooling(probe_s=0.01) as there:
        worker = await there.worker(engine.url)
        await until(lambda: bool(worker.templates))
        worker.link.tell(asked())
        await until(lambda: len(worker.learned) == 1)
        cut[0] = True
        asked_before = len(engine.asked)
        await until(lambda: len(engine.asked) > asked_before + 20)
        cut[0] = False
        asked_before = len(engine.asked)
        await until(lambda: len(engine.asked) > asked_before + 2 * BODIES)
        assert len(worker.templates) == 1
    await engine.stop()
