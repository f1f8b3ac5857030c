"""What mutation begins with and puts in: real answers, known probes, plain requests, and their words."""

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

from fuzz import events
from gateway.decode_body import zstd
from tests.wire.probes import ANSWERS, HIDDEN, HIDDEN_ANSWER, OVERLONG_ANSWERS, REQUESTS

_FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "analysis" / "fixtures"
_BODIES = [
    b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null}]}',
    b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":[{"x":1}]}',
    b'{"model":"m","prompt":"once upon","max_tokens":4}',
    b'{"model":"m","prompt":[[1,2],[3]],"n":2}',
    b'{"model":"m","input":[{"role":"user","content":"a"}],"instructions":"b","previous_response_id":"r"}',
    b'{"model":"m","system":"s","messages":[{"role":"user","content":"a"}],"max_tokens":5}',
    b'{"text":"a","sampling_params":{"max_new_tokens":3}}',
    b'{"a":"\\"","model":"a","mod\\u0065l":"b"}',
]
_FORM = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n\0\r\n--b\r\n'
    b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n--b--\r\n'
)
_TARGETS = [
    b"POST /v1/chat/completions?x=%2F",
    b"GET /v1/models/a%2Fb",
    b"POST /v1/..%2fpause",
    b"POST /v1/x/..;/y",
]


def seeds(target: str) -> list[bytes]:
    """The beginnings of a target's corpus, in the form the target takes."""
    if target == "request_reader":
        return [b"\x07\x40" + probe + HIDDEN for probe in REQUESTS.values()]
    if target == "response_reader":
        return [
            b"\x07\x40" + answer + HIDDEN_ANSWER for answer in (*ANSWERS.values(), *OVERLONG_ANSWERS.values())
        ]
    if target in ("sse_readers", "first_event"):
        files = sorted([*_FIXTURES.rglob("*.sse"), *_FIXTURES.rglob("*.body")])
        return [b"\x10\x90" + bytes([at % 6]) + file.read_bytes()[-900:] for at, file in enumerate(files)]
    if target == "handshakes":
        agreed = b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x02hi"
        answers = [agreed, b"HTTP/1.1 100 C\r\n\r\n" + agreed, *ANSWERS.values(), *OVERLONG_ANSWERS.values()]
        return [b"\x07\x40" + answer for answer in answers]
    if target == "coded_bodies":
        coders: list[Callable[[bytes], bytes]] = [gzip.compress, zlib.compress, zstd.compress]
        return [bytes([at, 0]) + coder(body) for at, coder in enumerate(coders) for body in _BODIES]
    if target == "queries":
        return [b"?model=a", b"v1/realtime?x=1&mode%6c=a+b&model=%2f", b"?a&&b=;model=x", b"?model"]
    if target == "model_in_form":
        return [_FORM, _FORM.replace(b"model", b"file"), _FORM[:-20], _FORM * 2]
    if target == "paths":
        return _TARGETS
    if target in events.TARGETS:
        return events.seeds(target)
    return [bytes([at % 7]) * (target == "prompt_reader") + body for at, body in enumerate(_BODIES)]


def words(target: str) -> list[bytes]:
    """What inputs of a target are made of: a dictionary for those who mutate."""
    if target == "model_in_form":
        return _OF_FORMS
    if target in events.TARGETS:
        return events.WORDS_OF
    return _HTTP if target in ("request_reader", "response_reader", "handshakes") else _JSON


_HTTP = [
    b"POST /v1/x HTTP/1.1\r\n", b"GET / HTTP/1.0\r\n", b"Host: x\r\n", b"Content-Length: 5\r\n", b"hello",
    b"Transfer-Encoding: chunked\r\n", b"\r\n", b"\r\n\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b";ext=1",
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n",
    b"Expect: 100-continue\r\n", b"Connection: upgrade\r\n", b" ", b"\t", b"\n", b"\r", b"\0", b":", b"+",
]  # fmt: skip
_OF_FORMS = [
    b"--b", b"--b--", b"\r\n", b"\r\n\r\n", b'Content-Disposition: form-data; name="model"', b"name=model",
    b'; filename="x"',
    b"content-type: text/plain", b'"', b"\\", b"model", b"whisper", b"\n", b"\0", b":", b";",
]  # fmt: skip
_JSON = [
    b'{"model":"m",', b'"model":', b'"messages":[', b'{"role":"user","content":"hi"}', b'"stream":true',
    b'"prompt":', b'"input":', b'"choices":[{"index":0,"delta":{"content":"x"}}]', b'"usage":{', b"data: ",
    b"data: [DONE]\n\n", b"\n\n", b"\r\n\r\n", b"event: error\n", b": ping\n\n", b'"error":{"code":503}',
    b"\\", b'"', b"{", b"}", b"[", b"]", b",", b"\\u006d", b"\\ud800", b"null", b"1e999", b"-0",
    b"\xef\xbb\xbf", b'"tool_calls":[{"index":0,"function":{"arguments":"{"}}]', b'"finish_reason":"stop"',
    b"..", b"%2e", b"%2f", b"/v1/", b"/chat/completions", b"GET ", b"POST ", b"?", b"#", b"\\..", b";",
]  # fmt: skip
