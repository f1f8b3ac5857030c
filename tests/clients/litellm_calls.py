"""Asks through litellm in each of its ways and prints a JSON line for each: litellm_calls.py URL."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import litellm

litellm.suppress_debug_info = True
URL = sys.argv[1]
OPENAI = {"api_base": f"{URL}/v1", "api_key": "x", "num_retries": 0, "max_retries": 0}
MESSAGES = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
CHAT = {"model": "openai/emulated", **MESSAGES, **OPENAI}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def say(name: str, text: str, usage: Any) -> None:
    """Tell of an answer."""
    told = {"prompt": usage.prompt_tokens, "output": usage.completion_tokens}
    sys.stdout.write(json.dumps({"call": name, "text": text, **told}) + "\n")


def whole(name: str, call: Callable[..., Any], **asked: Any) -> None:
    """Ask for an answer in one piece."""
    answer = call(**asked)
    choice = answer.choices[0]
    say(name, choice.text if hasattr(choice, "text") else choice.message.content, answer.usage)


def streamed(name: str, **asked: Any) -> None:
    """Ask for a stream, and have litellm put it together."""
    chunks = list(litellm.completion(**asked, **STREAM))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    usage = next(chunk.usage for chunk in reversed(chunks) if getattr(chunk, "usage", None))
    say(name, text, usage)


async def waiting() -> None:
    """The same, by its coroutines."""
    chunks = [chunk async for chunk in await litellm.acompletion(**CHAT, **STREAM)]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    say("async stream", text, chunks[-1].usage)


def refused(name: str, **changed: Any) -> None:
    """Ask for what cannot be had, and tell the exception."""
    try:
        litellm.completion(**CHAT | changed)
    except Exception as error:
        sys.stdout.write(json.dumps({"call": name, "error": type(error).__name__}) + "\n")


whole("chat", litellm.completion, **CHAT)
streamed("chat stream", **CHAT)
asyncio.run(waiting())
whole("vllm", litellm.completion, **CHAT | {"model": "hosted_vllm/emulated"})
whole("messages", litellm.completion, model="anthropic/emulated", api_base=URL, api_key="x", **MESSAGES)
prompt = {"model": "text-completion-openai/emulated", "prompt": "Once", "max_tokens": 8}
whole("completion", litellm.text_completion, **prompt, **OPENAI)
refused("unknown model", model="openai/made-up")
refused("bad parameter", temperature=-1)
refused("no engine", model="openai/dead")
