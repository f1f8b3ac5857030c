"""The openai SDK's other endpoints pass: embeddings, sound both ways, files, a realtime session."""

import asyncio
import base64
import json
import os
import re
from array import array
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.clients.conftest import Sdk
from tests.clients.stage import KEY, Stage, until
from tests.support import Engine, Peer, answers, chunk, json_answer

FIXTURES = Path(__file__).parent / "fixtures"
SOUND = bytes(range(256)) * 700  # is no text in any encoding, and holds what looks like line ends


def asked(engine: Engine) -> Peer:
    [peer] = engine.asked
    return peer


@pytest.mark.parametrize("encoding", [None, "float"])
def test_embeddings_of_vllm_are_read(sdk: Sdk, engine: Engine, encoding: str | None) -> None:
    """Left alone the SDK asks for base64, to which vLLM answers in kind."""
    body = (FIXTURES / f"embeddings_{encoding or 'base64'}.json").read_bytes()
    engine.script = answers(json_answer(body))
    more = {"encoding_format": encoding} if encoding else {}
    got = sdk.ask(lambda client: client.embeddings.create(model="scripted", input="hi", **more))
    told = json.loads(body)["data"][0]["embedding"]
    if encoding is None:
        assert json.loads(asked(engine).body)["encoding_format"] == "base64"
        told = list(array("f", base64.b64decode(told)))
    assert got.data[0].embedding == pytest.approx(told)
    assert asked(engine).line == "POST /v1/embeddings HTTP/1.1"


@pytest.mark.parametrize("size", [0, 10_000, 12_000_000], ids=["empty", "small", "beyond what is read"])
def test_an_upload_arrives_byte_for_byte(sdk: Sdk, engine: Engine, size: int) -> None:
    sound = os.urandom(size)
    engine.script = answers(json_answer(b'{"text":"heard"}'))
    got = sdk.ask(
        lambda client: client.audio.transcriptions.create(
            model="scripted", file=("take 1.wav", sound, "audio/wav"), language="de", temperature=0.5
        )
    )
    assert got.text == "heard"
    kind = next(value for name, value in asked(engine).headers if name.lower() == "content-type")
    boundary = re.fullmatch(r"multipart/form-data; boundary=(\S+)", kind)
    assert boundary
    parts = asked(engine).body.split(b"--" + boundary[1].encode())
    fields = dict(part.strip(b"\r\n").partition(b"\r\n\r\n")[::2] for part in parts[1:-1])
    assert {head: value for head, value in fields.items() if b"file" not in head} == {
        b'Content-Disposition: form-data; name="model"': b"scripted",
        b'Content-Disposition: form-data; name="language"': b"de",
        b'Content-Disposition: form-data; name="temperature"': b"0.5",
    }
    assert b"\r\n\r\n" + sound + b"\r\n--" + boundary[1].encode() in asked(engine).body


def test_speech_is_the_bytes_the_engine_sent(sdk: Sdk, engine: Engine) -> None:
    async def script(peer: Peer) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nTransfer-Encoding: chunked\r\n\r\n"
        pieces = [chunk(SOUND[at : at + 7_001]) for at in range(0, len(SOUND), 7_001)]
        await peer.send(head, *pieces, b"0\r\n\r\n")

    engine.script = script
    got = sdk.ask(lambda client: client.audio.speech.create(model="scripted", voice="alloy", input="hi"))
    assert got.content == SOUND and got.response.headers["content-type"] == "audio/mpeg"


def test_a_request_of_any_method_passes(sdk: Sdk, engine: Engine) -> None:
    """Paths that name no model go to the first fleet; this one is asked by the SDK's raw calls."""
    engine.script = answers(json_answer(b'{"deleted":true}'))
    got = sdk.ask(lambda client: client.post("/rerank", body={"model": "scripted"}, cast_to=object))
    assert got == {"deleted": True}


@pytest.mark.filterwarnings(
    "ignore:connect\\(\\) must be used as a context manager:DeprecationWarning"
)  # by the SDK
def test_a_realtime_session_of_the_blocking_client(stage: Stage) -> None:
    with (
        openai.OpenAI(base_url=f"{stage.url}/v1", api_key=KEY) as client,
        client.realtime.connect(model="spoken") as connection,
    ):
        begun: Any = connection.recv()
        assert begun.type == "session.created" and begun.session.asked == "/v1/realtime?model=spoken"
        connection.response.create()
        said: list[Any] = [connection.recv() for _ in range(4)]
        assert "".join(event.delta for event in said[:3]) == "one two three"
        assert said[3].type == "response.done"
    until(stage.is_free)


def test_a_realtime_session_of_the_waiting_client(stage: Stage) -> None:
    async def go() -> None:
        async with (
            openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key=KEY) as client,
            client.realtime.connect(model="spoken") as connection,
        ):
            assert (await connection.recv()).type == "session.created"
            for _ in range(2):
                await connection.response.create()
                types = [(await connection.recv()).type for _ in range(4)]
                assert types == ["response.output_text.delta"] * 3 + ["response.done"]

    asyncio.run(go())
    until(stage.is_free)
