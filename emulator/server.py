"""The engine as a server: routes, readiness, start and stop."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

from aiohttp import hdrs, web

from emulator.asks import Reader
from emulator.engine import Engine
from emulator.handover import Handover
from emulator.kv_events import KvEvents
from emulator.native_api import SERVER, NativeApi, json_answer
from emulator.openai_api import CHAT, COMPLETIONS, GENERATE, MESSAGES, RESPONSES, GenerationApi
from emulator.params import EngineParams
from emulator.refusals import Refusal
from wire.tasks import Tasks

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_SHUTDOWN_S = 1.0


class Running:
    """A started engine.  `close()` fails what is under way, as a dying vLLM does, and waits for the end."""

    def __init__(
        self,
        engine: Engine,
        url: str,
        port: int,
        runner: web.ServerRunner,
        tasks: Tasks,
        events: KvEvents | None,
        handover: Handover,
    ) -> None:
        self.handover = handover
        self.engine = engine
        self.url = url
        self.port = port
        self.events = events
        self._runner = runner
        self._tasks = tasks

    async def close(self) -> None:
        """Stop listening, fail what is under way, free every socket."""
        self.engine.fail_all()
        await self._runner.cleanup()
        await self.handover.close()
        await self._tasks.cancel()
        if self.events is not None:
            self.events.close()


class Router:
    """Hands a request to the handler of its path and method, in vLLM's way of saying no."""

    def __init__(
        self, routes: dict[str, dict[str, Handler]], ready: Callable[[], bool], api_key: str
    ) -> None:
        self._routes = routes
        self._authorization = f"Bearer {api_key}" if api_key else None
        self._ready = ready

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer `request`."""
        if not self._ready():
            return web.Response(status=503, headers=SERVER)
        methods = self._routes.get(request.path)
        if methods is None:
            return json_answer({"detail": "Not Found"}, 404)
        handler = methods.get(request.method)
        if handler is None:
            refused = json_answer({"detail": "Method Not Allowed"}, 405)
            refused.headers["allow"] = ", ".join(methods)
            return refused
        if not self._allowed(request):
            return json_answer({"error": "Unauthorized"}, 401)
        if hdrs.EXPECT in request.headers and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            return await handler(request)
        except Refusal as refusal:
            return json_answer(refusal.error, refusal.status)

    def _allowed(self, request: web.BaseRequest) -> bool:
        if self._authorization is None or not request.path.startswith("/v1"):
            return True
        return request.headers.get(hdrs.AUTHORIZATION) == self._authorization


async def start(params: EngineParams, host: str = "127.0.0.1", port: int = 0) -> Running:
    """Start an engine that listens on `host`:`port` (0 = any free port).  OSError if it cannot."""
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    events = None
    if params.kv_events_port is not None:
        events = KvEvents(host, params)
    engine = Engine(params, time.monotonic_ns, None if events is None else events.publish)
    reader = Reader(params, engine.tokenizer)
    handover = Handover(engine, host, bound)
    generation = GenerationApi(engine, reader, handover)
    created = int(datetime.now(UTC).timestamp())
    native = NativeApi(engine, reader, created, lambda: generation.in_flight, events)
    ready_ns = time.monotonic_ns() + int(params.start_delay_s * 1e9)
    router = Router(
        _routes(generation, native) | handover.routes, lambda: time.monotonic_ns() >= ready_ns, params.api_key
    )
    server = web.Server(
        router, handler_cancellation=True, keepalive_timeout=params.keep_alive_s, access_log=None
    )
    runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_S)
    tasks = Tasks()
    try:
        await runner.setup()
        await web.SockSite(runner, listener, backlog=1024).start()
    except BaseException:
        listener.close()
        raise
    tasks.spawn(engine.run(), name="engine")
    if events is not None:
        tasks.spawn(events.serve_replays(), name="kv event replays")
        if events.is_sglang:
            tasks.spawn(events.tell_load(engine.load), name="load")
    authority = f"[{host}]" if ":" in host else host
    return Running(engine, f"http://{authority}:{bound}", bound, runner, tasks, events, handover)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener


def _routes(generation: GenerationApi, native: NativeApi) -> dict[str, dict[str, Handler]]:
    return {
        "/v1/chat/completions": {"POST": partial(generation.serve, CHAT)},
        "/v1/completions": {"POST": partial(generation.serve, COMPLETIONS)},
        "/inference/v1/generate": {"POST": partial(generation.serve, GENERATE)},
        "/v1/responses": {"POST": partial(generation.serve, RESPONSES)},
        "/v1/messages": {"POST": partial(generation.serve, MESSAGES)},
        "/v1/messages/count_tokens": {"POST": native.count_tokens},
        "/v1/models": {"GET": native.models},
        "/health": {"GET": native.health},
        "/ping": {"GET": native.health, "POST": native.health},
        "/version": {"GET": native.version},
        "/load": {"GET": native.load},
        "/tokenize": {"POST": native.tokenize},
        "/detokenize": {"POST": native.detokenize},
        "/metrics": {"GET": native.metrics},
        "/reset_prefix_cache": {"POST": native.reset_prefix_cache},
        "/kv_event_sources": {"GET": native.kv_event_sources},
        "/server_info": {"GET": native.server_info},
    }


async def serve(
    params: EngineParams, host: str, port: int, stop: asyncio.Event, announce: Callable[[Running], None]
) -> None:
    """Run until `stop` is set; `announce` is called once it listens."""
    running = await start(params, host, port)
    try:
        announce(running)
        await stop.wait()
    finally:
        await running.close()
