"""What do these engines answer on their own paths?  For the command line and the start, not for traffic."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from gateway.fleets.detect import PROBES
from wire.tls import BadTls, ClientTls, client_context

_MOST_BYTES = 4 << 20  # Dynamo's and SGLang's metrics are about 0.1 MB


@dataclass(frozen=True, slots=True)
class Place:
    """Where to ask, with which key, and how an https:// place is believed."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What came back: path -> (status, body).  `error` says why nothing did, None where something did."""

    answers: Mapping[str, tuple[int, bytes]]
    error: str | None


def ask_all(places: Sequence[Place], timeout_s: float, paths: Sequence[str] = PROBES) -> list[Heard]:
    """Ask every place all `paths`, all at once; the answers in the order of `places`."""

    async def asked() -> list[Heard]:
        return await asyncio.gather(*(ask(place, timeout_s, paths) for place in places))

    return asyncio.run(asked())


async def ask(place: Place, timeout_s: float, paths: Sequence[str]) -> Heard:
    """Ask one place all `paths`."""
    headers = {} if place.api_key is None else {"authorization": f"Bearer {place.api_key}"}
    base = place.url
    connector: aiohttp.BaseConnector
    if base.startswith("unix://"):
        connector, base = aiohttp.UnixConnector(base.removeprefix("unix://"), limit=4), "http://localhost"
    else:
        try:
            context = client_context(place.tls or ClientTls()) if base.startswith("https:") else True
        except BadTls as error:
            return Heard({}, str(error))
        # few: a small engine is not to be swamped by questions
        connector = aiohttp.TCPConnector(limit=4, ssl=context)
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:
        name = None if place.tls is None else place.tls.server_name
        found = await asyncio.gather(*(_get(session, base + path, name) for path in paths))
    answers = {path: one for path, one in zip(paths, found, strict=True) if not isinstance(one, str)}
    errors = [one for one in found if isinstance(one, str)]
    return Heard(answers, errors[0] if errors and not answers else None)


async def _get(session: aiohttp.ClientSession, url: str, server_name: str | None) -> tuple[int, bytes] | str:
    try:
        async with session.get(url, allow_redirects=False, server_hostname=server_name) as response:
            body = bytearray()
            async for piece in response.content.iter_chunked(1 << 16):
                body += piece
                if len(body) > _MOST_BYTES:
                    break
            return response.status, bytes(body)
    except TimeoutError:
        return "no answer in time"
    except aiohttp.ClientConnectorCertificateError as error:
        return f"its certificate is not trusted: {error.certificate_error}"
    except aiohttp.ClientConnectorDNSError:
        return "its name cannot be resolved"
    except aiohttp.ClientConnectorError as error:
        refused = isinstance(error.os_error, ConnectionRefusedError)
        return "connection refused" if refused else str(error.os_error)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return str(error) or type(error).__name__
