"""A small Kubernetes API server: EndpointSlices of one namespace, listed in pages and watched, over TLS."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

PATH = "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices"
SERVICE = {"kubernetes.io/service-name": "vllm"}


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for localhost and its key."""
    cert, key = folder / "ca.crt", folder / "ca.key"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    argv = ["openssl", *words, *names, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(argv, check=True, capture_output=True)
    return cert, key


def endpoint(address: str, pod: str | None = None, **conditions: bool) -> dict[str, Any]:
    one: dict[str, Any] = {"addresses": [address], "conditions": conditions}
    return one if pod is None else {**one, "targetRef": {"kind": "Pod", "uid": pod}}


@dataclass
class ApiServer:
    """`put` and `remove` change slices and tell all who watch."""

    token: str = "first"
    version: int = 100
    slices: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    oldest: int = 0  # what happened before is forgotten: 410
    page: int = 1
    lists: int = 0
    watches: int = 0
    refused: int = 0
    fail: int | None = None  # answer everything with this status
    url: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _lines: list[web.StreamResponse] = field(default_factory=list)

    def put(
        self,
        name: str,
        *endpoints: dict[str, Any],
        port: int = 8000,
    ) -> None:
        known = name in self.slices
        self.slices[name] = {
            "metadata": {"name": name, "labels": SERVICE},
            "addressType": "IPv4",
            "endpoints": list(endpoints),
            "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        }
        self._happened("MODIFIED" if known else "ADDED", self.slices[name])

    def remove(self, name: str) -> None:
        self._happened("DELETED", self.slices.pop(name))

    def bookmark(self) -> None:
        self._happened("BOOKMARK", {"metadata": {}})

    def forget(self) -> None:
        """History up to now is compacted, and all watches are cut."""
        self.version += 10
        self.oldest = self.version
        self.cut()

    def expire(self) -> None:
        """Tell all who watch that what they know is too old."""
        status = {"metadata": {}, "kind": "Status", "code": 410, "message": "too old resource version"}
        self._happened("ERROR", status)
        self.oldest = self.version

    def cut(self) -> None:
        for response in self._lines:
            transport = response._req.transport if response._req is not None else None
            if transport is not None:
                transport.abort()

    def _happened(self, kind: str, it: dict[str, Any]) -> None:
        self.version += 1
        it = json.loads(json.dumps(it))
        it["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, {"type": kind, "object": it}))
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            self.refused += 1
            return web.json_response({"kind": "Status", "message": "Unauthorized", "code": 401}, status=401)
        if self.fail is not None:
            return web.json_response(
                {"kind": "Status", "message": "not now", "code": self.fail}, status=self.fail
            )
        assert request.query["labelSelector"] == "kubernetes.io/service-name=vllm"
        return await (self._watch(request) if request.query.get("watch") else self._list(request))

    async def _list(self, request: web.Request) -> web.Response:
        self.lists += 1
        start = int(request.query.get("continue", "0"))
        names = sorted(self.slices)
        more = str(start + self.page) if start + self.page < len(names) else ""
        items = [self.slices[name] for name in names[start : start + self.page]]
        metadata = {"resourceVersion": str(self.version), "continue": more}
        return web.json_response({"kind": "EndpointSliceList", "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.watches += 1
        after = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if after < self.oldest:
            gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        self._lines.append(response)
        try:
            while True:
                changed = self._changed
                for version, event in list(self.history):
                    if version > after:
                        after = version
                        text = json.dumps(event).encode() + b"\n"
                        await response.write(text[: len(text) // 2])  # events come in pieces
                        await response.write(text[len(text) // 2 :])
                await changed.wait()
        finally:
            self._lines.remove(response)


@asynccontextmanager
async def api_server(folder: Path, server: ApiServer) -> AsyncIterator[ApiServer]:
    """Serve over TLS until the end."""
    cert, key = certificate(folder)
    (folder / "token").write_text(server.token)
    (folder / "namespace").write_text("models\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    app = web.Application()
    app.router.add_get(PATH, server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        server.url = f"https://localhost:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
