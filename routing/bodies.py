"""What of each kind of request body names its prompt.

Only these fields are decoded; whatever else a body holds is skipped without becoming objects. `Raw` fields
are taken as the JSON they are: any type is welcome, since the engine, not the gateway, judges the request. A
`Raw` that is absent is falsy.
"""

from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import astuple

Fields = dict[str, Raw]
"""A content part, a block or an item of any API, whatever it has. Refuses at once a list of anything else."""


class Message(Struct, gc=False):
    role: str = ""
    content: str | list[Fields] | None = None
    name: Raw = Raw()
    tool_calls: Raw = Raw()
    tool_call_id: Raw = Raw()
    function_call: Raw = Raw()
    reasoning: Raw = Raw()
    reasoning_content: Raw = Raw()


class Head(Struct, gc=False):
    """What every body may say: who answers, under which salt, and how."""

    model: str | None = None
    stream: Raw = Raw()
    cache_salt: Raw = Raw()
    extra_key: Raw = Raw()  # SGLang's salt
    lora_path: Raw = Raw()
    prompt_cache_key: Raw = Raw()  # OpenAI's, and vLLM's for a session
    session_id: Raw = Raw()
    add_special_tokens: Raw = Raw()
    truncate_prompt_tokens: Raw = Raw()


class Chat(Head, gc=False):
    """/v1/chat/completions and /v1/messages."""

    messages: list[Message] = []
    system: Raw = Raw()
    tools: Raw = Raw()
    documents: Raw = Raw()
    functions: Raw = Raw()
    chat_template: Raw = Raw()
    chat_template_kwargs: Raw = Raw()
    reasoning_effort: Raw = Raw()
    thinking: Raw = Raw()
    tool_choice: Raw = Raw()
    add_generation_prompt: Raw = Raw()
    continue_final_message: Raw = Raw()
    mm_processor_kwargs: Raw = Raw()
    max_tokens: Raw = Raw()
    max_completion_tokens: Raw = Raw()


class Responses(Head, gc=False):
    """/v1/responses."""

    input: str | list[Fields] | None = None
    instructions: Raw = Raw()
    previous_response_id: Raw = Raw()
    tools: Raw = Raw()
    reasoning: Raw = Raw()
    max_output_tokens: Raw = Raw()


class Sampling(Struct, gc=False):
    max_new_tokens: Raw = Raw()
    max_tokens: Raw = Raw()


class Plain(Head, gc=False):
    """A prompt as it is, text or token ids: /v1/completions, llama.cpp's /completion, and every /generate."""

    prompt: Raw = Raw()
    text: Raw = Raw()
    inputs: Raw = Raw()
    input_ids: Raw = Raw()
    token_ids: Raw = Raw()
    suffix: Raw = Raw()
    image_data: Raw = Raw()
    max_tokens: Raw = Raw()
    n_predict: Raw = Raw()
    sampling_params: Sampling | None = None  # SGLang
    parameters: Sampling | None = None  # TGI


class Loose(Struct, gc=False):
    """The least a body must be: an object. For bodies of unknown paths and unexpected shapes.

    What `Head` has, with a model of any type: what sets tenants apart does so in every body.
    """

    model: Raw = Raw()
    stream: Raw = Raw()
    cache_salt: Raw = Raw()
    extra_key: Raw = Raw()
    lora_path: Raw = Raw()
    prompt_cache_key: Raw = Raw()
    session_id: Raw = Raw()
    add_special_tokens: Raw = Raw()
    truncate_prompt_tokens: Raw = Raw()
    max_tokens: Raw = Raw()


chat: Decoder[Chat] = Decoder(Chat)
responses: Decoder[Responses] = Decoder(Responses)
plain: Decoder[Plain] = Decoder(Plain)
loose: Decoder[Loose] = Decoder(Loose)
parts: Decoder[list[Fields]] = Decoder(list[Fields])
string: Decoder[str] = Decoder(str)


# Most bodies hold but a model, messages and what bounds the answer, most messages but a role and a content:
# to take all fields at once (`msgspec.structs.astuple`) and compare costs a fifth of looking at each.
RARE_OF_HEAD = slice(2, len(Head.__struct_fields__))  # behind model and stream
RARE_OF_CHAT = slice(len(Head.__struct_fields__) + 1, -2)  # behind messages, before what bounds the answer
RARE_OF_MESSAGE = slice(2, None)  # behind role and content
NO_HEAD: tuple[Any, ...] = astuple(Head())[RARE_OF_HEAD]
NO_CHAT: tuple[Any, ...] = astuple(Chat())[RARE_OF_CHAT]
NO_MESSAGE: tuple[Any, ...] = astuple(Message())[RARE_OF_MESSAGE]
