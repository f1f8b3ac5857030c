"""Production's requests ask for their own token ids where the operator wants it, and no client sees that."""

import asyncio
import json
import re
from array import array
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.along import asking
from gateway.bridge.frames import Copied, Ids
from routing.types import Prompt
from tests.gateway.bridge.test_foretold import MODEL, SYSTEM, body, engine, metrics, until
from tests.gateway.bridge.test_lessons import SAID, taught
from tests.gateway.whole import serving, with_engines
from tests.routing.bridge.model import prompt_of
from tests.support import ask, post

ASKS = {"tokenize": False, "copies": False, "ask_production": True}


def talk(number: int, turn: int) -> bytes:
    said = [{"role": "system", "content": SYSTEM}]
    for at in range(turn + 1):
        said.append({"role": "user", "content": f"{number} and {at}: " + "why? " * 120})
        said.append({"role": "assistant", "content": f"Because of {number} {at}. " * 20})
    return json.dumps({**json.loads(body(said[:-1])), "temperature": 0}).encode()


def unnamed(answer: bytes) -> bytes:
    """An answer without what differs each time."""
    return re.sub(rb'"(id|created)":("[^"]*"|\d+)', b"", answer)


def test_production_teaches_and_the_client_has_the_bytes_it_would_have_had(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        there = await engine(stack)
        fleet = {"model": MODEL, "engines": [{"url": there.url, "kind": "vllm"}], "learn": ASKS}
        async with serving(tmp_path, {"fleets": [fleet]}) as whole:
            port = int(there.url.rpartition(":")[2])
            for warm in range(300):  # its blocks' size is known from the first that it stores
                await ask(whole.port, post(body([{"role": "user", "content": f"warm {warm} " * 100}])))
                if (await metrics(whole)).get(("learned_prompts", ""), 0):
                    break
                await asyncio.sleep(0.1)
            for turn in range(3):
                before = (await metrics(whole))["learned_prompts", ""]
                for number in range(3):
                    came = await ask(whole.port, post(talk(number, turn)))
                    directly = await ask(port, post(talk(number, turn)))
                    assert came.is_whole and b'token_ids":[' not in came.body
                    # The second finds more of it in the cache, and says so.
                    ours, theirs = (
                        re.sub(rb'"prompt_tokens_details":\{[^}]*\}', b"", one.text)
                        for one in (came, directly)
                    )
                    assert unnamed(ours) == unnamed(theirs)
                await until(whole, lambda found, least=before + 3: found["learned_prompts", ""] >= least)  # type: ignore[misc]
            found = await metrics(whole)
            assert found["found_tokens", ""] > 0.5 * found["cached_tokens", ""]

    with_engines(run)


@dataclass
class _There:
    id: int
    kind: str


def there(id: int, kind: str = "vllm") -> Any:
    """An engine."""
    return _There(id, kind)


@dataclass
class Asking:
    """What is known of a request when it is sent."""

    prompt: Prompt
    body: bytes
    ask: Any
    fleet: Any
    id: bytes = b"r1"
    received_ns: int = 1
    packed: Any = None
    legs: Any = None


@dataclass
class Named:
    path: str


@dataclass
class At:
    path: Named


def streamed() -> Prompt:
    prompt = prompt_of(SAID)
    prompt.stream = True
    return prompt


def relayed(lessons: Any, **changes: Any) -> Any:
    @dataclass
    class Fleet:
        lessons: Any

    given = {"prompt": streamed(), "body": b'{"messages": []}', "ask": At(Named("/v1/chat/completions"))}
    one = Asking(**{**given, "fleet": Fleet(lessons), **changes})
    lessons.held(one.prompt)
    return one


def test_it_is_asked_of_streams_of_what_is_new_and_only_where_the_operator_wants_it() -> None:
    wants = taught(production=True)
    assert wants.lessons.wants_along(relayed(wants.lessons), there(1))
    assert not taught().lessons.wants_along(relayed(taught().lessons), there(1))
    whole = prompt_of(SAID)
    assert not wants.lessons.wants_along(relayed(wants.lessons, prompt=whole), there(1))
    assert not wants.lessons.wants_along(relayed(wants.lessons, packed=object()), there(1))
    assert not wants.lessons.wants_along(relayed(wants.lessons, ask=At(Named("/v1/messages"))), there(1))
    assert not wants.lessons.wants_along(relayed(wants.lessons, body=b"{}" * (1 << 17)), there(1))
    for kind in ("sglang", "openai", "auto"):
        assert not wants.lessons.wants_along(relayed(wants.lessons), there(1, kind))
    wants.lessons.cannot_sift(1)
    assert not wants.lessons.wants_along(relayed(wants.lessons), there(1))
    assert wants.lessons.wants_along(relayed(wants.lessons), there(2))


def test_what_is_asked_along_is_not_asked_again_and_its_ids_are_told() -> None:
    one = taught(production=True)
    relay: Any = relayed(one.lessons)
    assert one.lessons.wants_along(relay, there(1))
    one.lessons.sent_prompt(relay.prompt, 1, "/v1/chat/completions", relay.body, 0.0)
    assert one.told == []
    one.lessons.told_along(relay, b"[1,2]")
    copied, ids = one.told
    assert isinstance(copied, Copied) and isinstance(ids, Ids)
    assert copied.id == ids.id and ids.text == b"[1,2]" and ids.body == relay.body
    assert copied.chain == array("Q", relay.prompt.chain).tobytes()


def test_the_question_is_all_that_is_added_to_a_body() -> None:
    for said in (b'{"messages": [] }', b'{"a":"}"}\n', b'{"a":{"b":1}}'):
        asked = asking(said)
        assert asked == said.rstrip()[:-1] + b',"return_token_ids":true}' + said[len(said.rstrip()) :]
        assert json.loads(asked) == {**json.loads(said), "return_token_ids": True}


def test_no_question_is_put_where_the_client_asks_itself_or_another_answer_would_come() -> None:
    for said in (b'{"return_token_ids": false}', b'{"echo": true}', b"[1]", b""):
        assert asking(said) == b""
