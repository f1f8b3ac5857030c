"""What `prompt.read` makes of bodies as clients send them, and of bodies nobody should send."""

import json
from itertools import pairwise
from typing import Any

import pytest

from routing import bodies
from routing.prompt import Unreadable, read
from routing.types import Prompt

DEEP = 3_000_000
KEY = b"k"
CHAT = "/v1/chat/completions"


def ask(path: str, **body: Any) -> Prompt:
    return read(path, json.dumps(body).encode(), KEY)


HI: list[dict[str, Any]] = [{"role": "user", "content": "Say hi."}]
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Paris?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "w"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "sunny"},
    {"role": "assistant", "content": "Sunny."},
    {"role": "user", "content": [{"type": "text", "text": "And here?"}]},
]
BLOCKS: list[dict[str, Any]] = [
    {"role": "user", "content": "List the files."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "ls will do", "signature": "c2ln"},
            {"type": "tool_use", "id": "t1", "name": "sh", "input": {"cmd": "ls"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}]},
]
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "List the files."}]},
    {"type": "function_call", "call_id": "1", "name": "sh", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "a.py"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a.py"}]},
    {"role": "user", "content": "Thanks."},
]


@pytest.mark.parametrize(
    ("path", "body", "links", "turns", "stream", "max_tokens"),
    [
        ("/v1/chat/completions", {"messages": HI, "max_tokens": 4}, 1, 0, False, 4),
        ("/v1/chat/completions", {"messages": TALK, "stream": True}, 6, 2, True, None),
        ("/v1/chat/completions?a=b", {"messages": TALK, "max_completion_tokens": 7}, 6, 2, False, 7),
        ("/v1/chat/completions", {"messages": TALK, "tools": [{"type": "function"}]}, 7, 2, False, None),
        ("/v1/chat/completions", {"messages": []}, 0, 0, False, None),
        ("/v1/chat/completions", {}, 0, 0, False, None),
        ("/v1/messages", {"messages": BLOCKS, "system": "Be brief.", "max_tokens": 9}, 4, 1, False, 9),
        ("/v1/messages", {"messages": BLOCKS, "system": [{"type": "text", "text": "x"}]}, 4, 1, False, None),
        ("/v1/responses", {"input": "Say hi.", "max_output_tokens": 3, "stream": True}, 1, 0, True, 3),
        ("/v1/responses", {"input": ITEMS, "instructions": "Be brief."}, 6, 1, False, None),
        ("/v1/responses", {"input": "On.", "previous_response_id": "r1"}, 1, 1, False, None),
        ("/v1/completions", {"prompt": "The capital of", "max_tokens": 8}, 1, 0, False, 8),
        ("/v1/completions", {"prompt": "x" * 5000}, 5, 0, False, None),
        ("/v1/completions", {"prompt": ["One", "Two"], "stream": True}, 1, 0, True, None),
        ("/v1/completions", {"prompt": [10, 20, 30, 40]}, 1, 0, False, None),
        ("/v1/completions", {"prompt": [[10, 20], [30]]}, 1, 0, False, None),
        ("/completion", {"prompt": "The capital of", "n_predict": 4}, 1, 0, False, 4),
        ("/generate", {"text": "import os", "sampling_params": {"max_new_tokens": 4}}, 1, 0, False, 4),
        ("/generate", {"input_ids": [10, 20], "stream": True}, 1, 0, True, None),
        ("/generate", {"inputs": "hello", "parameters": {"max_new_tokens": 5}}, 1, 0, False, 5),
        ("/v1/embeddings", {"input": "hi"}, 1, 0, False, None),
        ("/v1/rerank", {"query": "hi", "documents": ["a", "b"]}, 1, 0, False, None),
    ],
)
def test_what_is_read(
    path: str, body: dict[str, Any], links: int, turns: int, stream: bool, max_tokens: int | None
) -> None:
    prompt = ask(path, model="tiny", **body)
    assert (len(prompt.chain), prompt.turns, prompt.stream, prompt.max_tokens) == (
        links,
        turns,
        stream,
        max_tokens,
    )
    assert prompt.model == "tiny"


def test_each_kind_of_body_grows_by_its_own_turns() -> None:
    for path, field, said in (
        ("/v1/chat/completions", "messages", TALK),
        ("/v1/messages", "messages", BLOCKS),
        ("/v1/responses", "input", ITEMS),
    ):
        chains = [ask(path, **{field: said[:n]}).chain for n in range(1, len(said) + 1)]
        assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(chains))
    growing = [ask("/v1/completions", prompt="x" * n).chain for n in (1000, 2047, 9000)]
    assert growing[2][0] == growing[1][0] != growing[0][0]


def test_token_ids_share_their_beginning() -> None:
    ids = list(range(1000, 2000))
    one, other = ask("/v1/completions", prompt=[*ids, 1]), ask("/v1/completions", prompt=[*ids, 2])
    assert one.chain[:-1] == other.chain[:-1]
    assert one.chain[-1] != other.chain[-1]


def test_cache_marks_that_move_from_turn_to_turn_change_nothing() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    plain: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}, BLOCKS[1], BLOCKS[2]]
    marked: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Hello", **mark}]},
        {"role": "assistant", "content": [BLOCKS[1]["content"][0], {**BLOCKS[1]["content"][1], **mark}]},
        {"role": "user", "content": [{**BLOCKS[2]["content"][0], **mark}]},
    ]
    assert ask("/v1/messages", messages=plain).chain == ask("/v1/messages", messages=marked).chain


def test_images_are_told_apart_by_what_they_show_and_count_little() -> None:
    def show(url: str) -> Prompt:
        image = {"type": "image_url", "image_url": {"url": url}}
        return ask("/v1/chat/completions", messages=[{"role": "user", "content": [image]}])

    one, other = (
        show("data:image/png;base64," + "A" * 100_000),
        show("data:image/png;base64," + "B" * 100_000),
    )
    assert one.chain != other.chain
    assert one.ends[-1] < 100


def test_an_unexpected_type_is_left_to_the_engine_to_judge() -> None:
    for path, body in (
        ("/v1/chat/completions", {"messages": "hello"}),
        ("/v1/chat/completions", {"messages": [{"role": 5, "content": "x"}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": {"a": 1}}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": ["bare"]}]}),
        ("/v1/messages", {"messages": [], "system": [1]}),
        ("/v1/responses", {"input": {"a": 1}}),
        ("/v1/responses", {"input": [1]}),
        ("/generate", {"text": "x", "sampling_params": [{"n": 1}]}),
    ):
        prompt = ask(path, model="m", stream=True, max_tokens=5, **body)
        assert (prompt.model, prompt.stream, prompt.max_tokens, len(prompt.chain)) == ("m", True, 5, 1)


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [
        ("12", 12),
        ("12.0", 12),
        ("-1", None),
        ("9" * 5000, None),
        ("1e400", None),
        ("[1]", None),
        ("null", None),
    ],
)
def test_max_tokens_is_a_count_or_unknown(max_tokens: str, expected: int | None) -> None:
    body = f'{{"messages":[],"max_tokens":{max_tokens}}}'.encode()
    assert read("/v1/chat/completions", body, KEY).max_tokens == expected


@pytest.mark.parametrize("stream", ["true", "1", '"true"', '"True"'])
def test_stream_is_read_as_engines_read_it(stream: str) -> None:
    body = f'{{"messages":[],"stream":{stream}}}'.encode()
    assert read("/v1/chat/completions", body, KEY).stream


def test_a_byte_order_mark_and_half_a_surrogate_pair_are_read() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    assert read(CHAT, b"\xef\xbb\xbf" + body, KEY) == read(CHAT, body, KEY)
    for half in (b"\\ud83d", b"\\uDE00", b"\\ude00\\ud83d", b"\\ud83d\\ud83d\\ude00", b"\\ud83dx"):
        talk = body.replace(b"hi", b"hi " + half).replace(b"}]", b'},{"role":"assistant","content":"!"}]')
        cut = read(CHAT, talk, KEY)
        assert (cut.model, cut.turns, len(cut.chain)) == ("m", 1, 2)


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/generate", "/v2/x"]
)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b'{"model": ', "not JSON"),
        (b"\x00", "not JSON"),
        (b"{} {}", "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not JSON"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b'"x"', "not an object"),
        (b'{"model": 5}', "`model`"),
        (b'{"model": ["m"]}', "`model`"),
        (b'{"model": "\xff"}', "`model`"),
        # Python 3.14 reads as deep as its stack allows, the ones before it a thousand levels.
        (b'{"x": ' + b"[" * DEEP + b"]" * DEEP + b"}", "nested"),
        (b'{"messages": [{"content": [' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"]}]}", "nested"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(path: str, body: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read(path, body, KEY)


COUNTLESS = "{" * 20_001


def test_what_any_body_may_say_is_read_of_one_that_is_taken_as_it_is_too() -> None:
    assert bodies.Head.__struct_fields__[0] == "model"  # whose type is another there
    assert set(bodies.Head.__struct_fields__) < set(bodies.Loose.__struct_fields__)


@pytest.mark.parametrize("field", ["cache_salt", "extra_key", "lora_path"])
@pytest.mark.parametrize("text", ["x", "x" * 70_000, COUNTLESS + "x" * 70_000, ":" * 200_001])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/v1/completions", "/of/no/api"])
def test_two_salts_share_no_link_however_large_and_braced_a_body_is(path: str, text: str, field: str) -> None:
    prompts = [
        ask(path, model="m", messages=[{"role": "user", "content": text}], prompt=text, input=text, **salt)
        for salt in ({}, {field: "tenant-a"}, {field: "tenant-b"})
    ]
    assert all(prompt.chain for prompt in prompts)
    assert len({link for prompt in prompts for link in prompt.chain}) == sum(len(p.chain) for p in prompts)
    assert len({prompt.root for prompt in prompts}) == 3


def test_a_session_is_the_same_however_large_and_braced_a_body_is() -> None:
    for field in ("prompt_cache_key", "session_id"):
        few, many = (
            ask(CHAT, messages=[*HI, {"content": text}], **{field: "s"}) for text in ("", COUNTLESS * 4)
        )
        assert few.session == many.session != 0
        assert (few.is_raw, many.is_raw) == (False, True)


@pytest.mark.parametrize(
    "many",
    [b'{"role":"user"},' * 30_000, b'{"content":[{' + b'"a":1,' * 250_000 + b'"b":1}]},'],
)
def test_a_long_body_of_countless_objects_or_fields_is_taken_as_it_is(many: bytes) -> None:
    body = b'{"model":"m","messages":[' + many + b"{}]}"
    prompt = read(CHAT, body, KEY)
    assert (prompt.model, len(prompt.chain)) == ("m", -(-len(body) // 1024))
