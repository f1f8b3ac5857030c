"""vLLM's own endpoints: health, models, tokenizer, metrics, cache."""

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from emulator.asks import Reader
from emulator.engine import Engine
from emulator.kv_events import KvEvents
from emulator.refusals import bad_value, missing
from emulator.text import UnknownToken

VERSION = "0.32.0"
SERVER = {"server": "uvicorn"}


def json_answer(value: Any, status: int = 200) -> web.Response:
    """A JSON response."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", headers=SERVER
    )


class NativeApi:
    """Answers what does not generate.  `created` is the model's timestamp, `load` the requests in flight."""

    def __init__(
        self, engine: Engine, reader: Reader, created: int, load: Callable[[], int], events: KvEvents | None
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._created = created
        self._load = load
        self._events = events

    async def health(self, request: web.BaseRequest) -> web.Response:
        """Alive."""
        return web.Response(headers=SERVER)

    async def version(self, request: web.BaseRequest) -> web.Response:
        """The vLLM version whose behaviour this follows."""
        return json_answer({"version": VERSION})

    async def load(self, request: web.BaseRequest) -> web.Response:
        """Requests being answered."""
        return json_answer({"server_load": self._load()})

    async def models(self, request: web.BaseRequest) -> web.Response:
        """The served names."""
        params = self._engine.params
        permission = {
            "id": "modelperm-emulated",
            "object": "model_permission",
            "created": self._created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "vllm",
                "root": params.model,
                "parent": None,
                "max_model_len": params.max_model_len,
                "permission": [permission],
            }
            for name in (params.model, *params.aliases)
        ]
        return json_answer({"object": "list", "data": cards})

    async def tokenize(self, request: web.BaseRequest) -> web.Response:
        """Token ids of a prompt or of messages."""
        body = self._reader.json(await request.content.read())
        tokenizer = self._engine.tokenizer
        if "messages" in body:
            tokens = self._reader.chat_prompt(body)
        elif isinstance(body.get("prompt"), str):
            tokens = list(tokenizer.encode(body["prompt"]))
        else:
            raise missing("prompt", body)
        strings = [tokenizer.token_text(token) for token in tokens] if body.get("return_token_strs") else None
        limit = self._engine.params.max_model_len
        return json_answer(
            {"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": strings}
        )

    async def detokenize(self, request: web.BaseRequest) -> web.Response:
        """The text of token ids."""
        body = self._reader.json(await request.content.read())
        tokens = body.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise missing("tokens", body)
        try:
            return json_answer({"prompt": self._engine.tokenizer.decode(tokens)})
        except UnknownToken as error:
            raise bad_value("tokens", "token ids", str(error)) from None

    async def count_tokens(self, request: web.BaseRequest) -> web.Response:
        """/v1/messages/count_tokens."""
        count = len(self._reader.messages_prompt(self._reader.json(await request.content.read())))
        return json_answer({"input_tokens": count, "context_management": {"original_input_tokens": count}})

    async def reset_prefix_cache(self, request: web.BaseRequest) -> web.Response:
        """Forget every prefix, unless requests run."""
        return json_answer({"success": self._engine.reset_prefix_cache()})

    async def kv_event_sources(self, request: web.BaseRequest) -> web.Response:
        """Where KV events are published, by data-parallel rank; nothing when they are not."""
        return json_answer({} if self._events is None else self._events.sources())

    async def server_info(self, request: web.BaseRequest) -> web.Response:
        """SGLang's, with where it publishes; vLLM has no such path."""
        if self._events is None or not self._events.is_sglang:
            return json_answer({"detail": "Not Found"}, 404)
        params = self._engine.params
        return json_answer({"model_path": params.model, "kv_events": self._events.described()})

    async def metrics(self, request: web.BaseRequest) -> web.Response:
        """Prometheus text."""
        engine, params = self._engine, self._engine.params
        scheduler = engine.scheduler
        text = engine.metrics.text(
            running=scheduler.running, waiting=scheduler.waiting, usage=scheduler.cache.usage,
            queried=scheduler.queried_tokens, hits=scheduler.hit_tokens, loaded=scheduler.loaded_tokens,
            preemptions=scheduler.preemptions,
            cache_config={
                "block_size": str(params.block_size), "num_gpu_blocks": str(params.num_blocks),
                "enable_prefix_caching": str(params.prefix_caching), "cache_dtype": "auto",
                "kv_cache_size_tokens": str(params.num_blocks * params.block_size),
            },
        )  # fmt: skip
        headers = {**SERVER, "content-type": "text/plain; version=1.0.0; charset=utf-8"}
        return web.Response(body=text.encode(), headers=headers)
