"""A worker's certificates: read at its start, at a reload, and when their files change."""

import asyncio
from collections.abc import Iterable, MutableMapping
from typing import Any

from gateway.spec import WorkerSpec
from wire.tls import BadTls, ClientTls, Kept, ServerTls, kept_client, kept_server

_LOOK_EVERY_S = 2.0


class Certificates:
    """The contexts for clients and engines; one for each way of trusting, however many engines share it."""

    def __init__(self, spec: WorkerSpec, counts: MutableMapping[tuple[str, ...], int], log: Any) -> None:
        """Raises BadTls."""
        self._counts = counts
        self._log = log
        self._spec: ServerTls | None = None
        self.listener: Kept | None = None  # None: clients speak plain HTTP
        self._engines: dict[ClientTls, Kept] = {}
        self.renew(spec)

    def check(self, spec: WorkerSpec) -> None:
        """Try what `renew` would do.  Raises BadTls."""
        if (spec.tls is None) != (self.listener is None):
            raise BadTls("tls towards clients is switched on or off by a restart only")
        check(spec)

    def renew(self, spec: WorkerSpec) -> None:
        """Serve by `spec` from now on.  Raises BadTls; then nothing has changed."""
        listener = self.listener
        if spec.tls is not None and spec.tls != self._spec:
            listener = kept_server(spec.tls)
            if self.listener is not None:
                self.listener.becomes(listener)
                listener = self.listener
        engines = {tls: self._engines.get(tls) or kept_client(tls) for tls in _of_engines(spec)}
        self._spec, self.listener, self._engines = spec.tls, listener, engines

    def towards(self, url: str, tls: ClientTls | None) -> Kept | None:
        """What a pool towards this engine connects with."""
        if not url.startswith("https:"):
            return None
        wanted = tls or ClientTls()
        if wanted not in self._engines:
            self._engines[wanted] = kept_client(wanted)
        return self._engines[wanted]

    def look(self) -> None:
        """Read the files again; what is bad is told and counted, and the former kept."""
        for kept in (*((self.listener,) if self.listener else ()), *self._engines.values()):
            try:
                if not kept.look():
                    continue
            except BadTls as error:
                self._counts[("tls_reloads", "bad_files")] += 1
                self._log.error("new TLS files refused; the former stay in use", why=str(error))
            else:
                self._counts[("tls_reloads", "renewed")] += 1
                self._log.info("TLS files renewed", files=kept.files)

    async def watch(self) -> None:
        """Look every two seconds, for ever."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self.look()


def check(spec: WorkerSpec) -> None:
    """Try all TLS files a worker would use.  Raises BadTls."""
    if spec.tls is not None:
        kept_server(spec.tls)
    for tls in _of_engines(spec):
        kept_client(tls)


def _of_engines(spec: WorkerSpec) -> Iterable[ClientTls]:
    engines = (engine for fleet in spec.fleets for engine in fleet.engines)
    return {engine.tls or ClientTls(): None for engine in engines if engine.url.startswith("https:")}
