"""What of an answer tells of its tokens, in every API's words.

What is decoded cannot be compiled (docs/decisions/0006), so it stands apart.
"""

from typing import Final

import msgspec

Count = int | float | None


class Details(msgspec.Struct, gc=False):
    cached_tokens: Count = None


class Told(msgspec.Struct, gc=False):
    """`usage` in every API's words, SGLang's `meta_info`, TGI's `details` and llama.cpp's `timings`."""

    prompt_tokens: Count = None
    completion_tokens: Count = None
    input_tokens: Count = None
    output_tokens: Count = None
    cached_tokens: Count = None
    prompt_tokens_details: Details | None = None
    input_tokens_details: Details | None = None
    cache_read_input_tokens: Count = None
    cache_creation_input_tokens: Count = None
    generated_tokens: Count = None
    cache_n: Count = None
    prompt_n: Count = None
    predicted_n: Count = None


class Inner(msgspec.Struct, gc=False):
    usage: Told | None = None


class Top(msgspec.Struct, gc=False):
    """Only what most answers have: the fewer fields, the less there is to fill in."""

    usage: Told | None = None


class Answer(msgspec.Struct, gc=False):
    """The places where counts stand: at the top, in Responses' `response`, in Messages' `message`."""

    usage: Told | None = None
    response: Inner | None = None
    message: Inner | None = None
    meta_info: Told | None = None
    details: Told | None = None
    timings: Told | None = None


decode: Final = msgspec.json.Decoder(Answer).decode
decode_top: Final = msgspec.json.Decoder(Top).decode
decode_told: Final = msgspec.json.Decoder(Told).decode
decode_batch: Final = msgspec.json.Decoder(list[Answer]).decode
