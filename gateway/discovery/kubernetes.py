"""Engines by the EndpointSlices of a Kubernetes Service: listed once, then watched for changes."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from gateway.discovery import slices
from gateway.discovery.source import NoAnswer
from gateway.discovery.spec import KubernetesSpec

_PAGE = 500
_WATCH_S = 300  # the server ends a watch after this; it then goes on where it was
_SILENT_S = 330.0  # and when it does not, the line is dead
_ANSWER_S = 15.0
_PAUSE_S = 0.2  # between two requests: a server that ends each at once must not be asked without end
_MOST_EVENT_BYTES = 16 << 20


class _Gone(Exception):
    """What happened since the last answer is no longer known there: begin with a new list."""


class KubernetesSource:
    """Source of one Service."""

    most_delay_s = 30.0

    def __init__(self, spec: KubernetesSpec) -> None:
        self._spec = spec

    async def watch(self, again: asyncio.Event) -> AsyncIterator[frozenset[str]]:
        """See `source.Source`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_ANSWER_S, sock_read=_SILENT_S)
        connector = aiohttp.TCPConnector(ssl=self._trust())
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            while True:
                try:
                    held, version = await self._list(http)
                    yield self._urls(held)
                    while True:  # until the server says `_Gone`
                        await asyncio.sleep(_PAUSE_S)
                        async for event in self._events(http, version):
                            version = self._apply(event, held) or version
                            if event["type"] != "BOOKMARK":
                                yield self._urls(held)
                except _Gone:
                    await asyncio.sleep(_PAUSE_S)
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    raise NoAnswer(f"{self._spec.api}: {str(error) or type(error).__name__}") from None
                except (KeyError, TypeError, ValueError) as error:
                    raise NoAnswer(f"{self._spec.api} answered what is not understood: {error!r}") from None

    def _urls(self, held: dict[str, Any]) -> frozenset[str]:
        return slices.urls(held.values(), self._spec.scheme, self._spec.port)

    def _trust(self) -> ssl.SSLContext | bool:
        if not self._spec.api.startswith("https:"):
            return False
        try:
            return ssl.create_default_context(cafile=self._spec.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise NoAnswer(f"{self._spec.ca_file} holds no certificate: {error}") from None

    async def _list(self, http: aiohttp.ClientSession) -> tuple[dict[str, Any], str]:
        """All slices by name, and the version after which to watch."""
        held: dict[str, Any] = {}
        more = ""
        while True:
            query = {"limit": str(_PAGE), **({"continue": more} if more else {})}
            async with asyncio.timeout(_ANSWER_S), self._get(http, query) as response:
                await _check(response)
                page = json.loads(await response.read())
            for one in page["items"]:
                held[one["metadata"]["name"]] = one
            more = page["metadata"].get("continue") or ""
            if not more:
                return held, str(page["metadata"]["resourceVersion"])

    async def _events(self, http: aiohttp.ClientSession, version: str) -> AsyncIterator[dict[str, Any]]:
        """What happens after `version`, until the server ends the watch."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_S),
        }
        async with self._get(http, query) as response:
            await _check(response)
            waiting = b""
            async for piece in response.content.iter_any():
                *lines, waiting = (waiting + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
                if len(waiting) > _MOST_EVENT_BYTES:
                    raise NoAnswer(f"{self._spec.api} sent an event of more than {_MOST_EVENT_BYTES} bytes")

    def _apply(self, event: dict[str, Any], held: dict[str, Any]) -> str | None:
        """Bring `held` up to date; the version that is known now."""
        kind, it = event["type"], event["object"]
        if kind == "ERROR":
            if it.get("code") == 410:
                raise _Gone
            raise NoAnswer(f"{self._spec.api} ended the watch: {it.get('message')}")
        if kind == "DELETED":
            held.pop(it["metadata"]["name"], None)
        elif kind in ("ADDED", "MODIFIED"):
            held[it["metadata"]["name"]] = it
        version: str | None = it["metadata"].get("resourceVersion")
        return version

    def _get(self, http: aiohttp.ClientSession, query: dict[str, str]) -> Any:
        spec = self._spec
        token = _text(spec.token_file)  # each time: the kubelet renews it
        namespace = spec.namespace or _text(str(Path(spec.token_file).with_name("namespace")))
        return http.get(
            f"{spec.api}/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
            params={"labelSelector": f"kubernetes.io/service-name={spec.service}", **query},
            headers={"authorization": f"Bearer {token}", "accept": "application/json"},
            allow_redirects=False,
        )


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status == 410:
        raise _Gone
    if response.status != 200:
        said = (await response.content.read(4096)).decode("utf-8", "replace")
        try:
            said = str(json.loads(said)["message"])
        except (ValueError, KeyError, TypeError):
            said = said[:200]
        raise NoAnswer(f"the API server answered {response.status}: {said}")


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise NoAnswer(f"{path} cannot be read: {error.strerror}") from None
