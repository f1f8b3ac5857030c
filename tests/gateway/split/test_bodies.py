"""What each engine of a pair is sent, word for word, and which requests are no pair's."""

import json
from typing import Any

import pytest

from gateway.split import bodies
from gateway.split.splice import read

ASKED = (
    b'{"model": "m", "messages": [{"role":"user","content":"max_tokens"}],  "stream":true,\n'
    b' "stream_options":{"include_usage":true}, "max_completion_tokens":900, "min_tokens":5, "seed":1}'
)


def test_the_one_that_prefills_is_asked_for_a_token_and_to_keep_the_kv() -> None:
    assert bodies.to_prefill(read(ASKED)) == (
        b'{"model": "m", "messages": [{"role":"user","content":"max_tokens"}],  "stream":false,\n'
        b' "max_completion_tokens":1, "seed":1,"max_tokens":1,'
        b'"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,'
        b'"remote_block_ids":null,"remote_host":null,"remote_port":null}}'
    )


def test_the_one_that_decodes_is_asked_all_the_client_asked_and_told_where_the_kv_lies() -> None:
    said = b'{"remote_block_ids": [[1,2]],"x":1.50}'
    assert bodies.handed(read(ASKED), said) == ASKED[:-1] + b',"kv_transfer_params":' + said + b"}"
    assert bodies.handed(read(ASKED), None) == ASKED


@pytest.mark.parametrize("field", bodies.OURS)
def test_what_a_client_says_of_other_engines_reaches_none(field: str) -> None:
    body = json.dumps({"model": "m", "prompt": "p", field: {"remote_host": "evil"}}).encode()
    rooms = iter(range(9))
    sent = {
        "whole": bodies.whole(read(body)),
        "prefill": bodies.to_prefill(read(body)),
        "decode": bodies.handed(read(body), b'{"a":1}'),
        "computed again": bodies.handed(read(body), None),
        "both": bodies.meeting("/v1/completions", read(body), "h", 1, lambda: next(rooms)),
    }
    assert [name for name, text in sent.items() if b"evil" in text] == []


MET: dict[str, tuple[str, dict[str, Any], Any]] = {
    "one": ("/v1/chat/completions", {"messages": []}, 0),
    "n answers": ("/v1/chat/completions", {"messages": [], "n": 3}, [0, 1, 2]),
    "one prompt": ("/v1/completions", {"prompt": "p"}, 0),
    "one prompt in a list": ("/v1/completions", {"prompt": ["p"]}, [0]),
    "two prompts": ("/v1/completions", {"prompt": ["p", "q"]}, [0, 1]),
    "tokens": ("/v1/completions", {"prompt": [1, 2, 3]}, 0),
    "two prompts of tokens": ("/generate", {"input_ids": [[1, 2], [3]]}, [0, 1]),
    "two texts": ("/generate", {"text": ["a", "b"]}, [0, 1]),
    "no prompt": ("/generate", {"text": []}, 0),
}


@pytest.mark.parametrize("name", MET)
def test_every_sequence_has_a_room_of_its_own(name: str) -> None:
    path, body, rooms = MET[name]
    numbers = iter(range(9))
    sent = json.loads(bodies.meeting(path, read(json.dumps(body).encode()), "h", 8998, lambda: next(numbers)))
    count = len(rooms) if isinstance(rooms, list) else None
    assert sent == body | {
        "bootstrap_room": rooms,
        "bootstrap_host": "h" if count is None else ["h"] * count,
        "bootstrap_port": 8998 if count is None else [8998] * count,
    }


ANSWERS: dict[bytes, bytes | None] = {
    b'{"id":"x","kv_transfer_params": {"a": 1.0}}': b'{"a": 1.0}',
    b'{"kv_transfer_params":null}': None,
    b'{"kv_transfer_params":{}}': None,
    b'{"kv_transfer_params":"x"}': None,
    b'{"id":1}': None,
    b"": None,
    b"[]": None,
    b"\xff": None,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_where_the_kv_lies_is_taken_as_it_is_written(answer: bytes) -> None:
    assert bodies.transfer_of(answer) == ANSWERS[answer]


ONE: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({}, True),
    "one answer": ({"n": 1, "best_of": None}, True),
    "answers": ({"n": 2}, False),
    "the best of": ({"best_of": 4}, False),
    "beams": ({"use_beam_search": True}, False),
    "no beams": ({"use_beam_search": False}, True),
    "the prompt again": ({"echo": True}, False),
    "the prompt's own log probabilities": ({"prompt_logprobs": 1}, False),
    "prompts": ({"prompt": ["a", "b"]}, False),
    "tokens": ({"prompt": [1, 2]}, True),
    "prompts of tokens": ({"prompt": [[1], [2]]}, False),
}


@pytest.mark.parametrize("name", ONE)
def test_only_one_sequence_of_which_the_answer_is_wanted_is_split(name: str) -> None:
    body, is_one = ONE[name]
    assert bodies.is_one_sequence(read(json.dumps({"model": "m", **body}).encode())) is is_one
