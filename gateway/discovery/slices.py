"""Which engines do a Service's EndpointSlices name?  Pure: JSON in, URLs out.

As discovery.k8s.io/v1 has it: an unknown readiness counts as ready, a terminating pod as not, and a pod with
an address of each family, which is in two slices, is one engine (its IPv4 address is used).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.discovery.source import NoAnswer, url


def urls(slices: Iterable[Mapping[str, Any]], scheme: str, port: str | int | None) -> frozenset[str]:
    """The engines' URLs.  NoAnswer when a slice has several ports and none was chosen."""
    by_pod: dict[str, tuple[bool, str]] = {}
    for one in slices:
        is_six = one.get("addressType") == "IPv6"
        if one.get("addressType") not in ("IPv4", "IPv6"):
            continue
        number = _port(one, port)
        if number is None:
            continue
        for pod, host in _ready(one):
            found = (is_six, url(scheme, host, number))
            by_pod[pod] = min(found, by_pod.get(pod, found))
    return frozenset(found for _is_six, found in by_pod.values())


def _ready(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each pod that serves, and its address."""
    for endpoint in one.get("endpoints") or ():
        conditions = endpoint.get("conditions") or {}
        addresses = endpoint.get("addresses") or ()
        if conditions.get("ready") is False or conditions.get("terminating") is True or not addresses:
            continue
        pod = (endpoint.get("targetRef") or {}).get("uid")
        yield str(pod or addresses[0]), str(addresses[0])


def _port(one: Mapping[str, Any], wanted: str | int | None) -> int | None:
    """The slice's port of that name or number; None where it has none."""
    ports = [
        port for port in one.get("ports") or () if port.get("port") and port.get("protocol") in (None, "TCP")
    ]
    if isinstance(wanted, int):
        return wanted
    if wanted is not None:
        return next((int(port["port"]) for port in ports if port.get("name") == wanted), None)
    if len(ports) > 1:
        names = ", ".join(str(port.get("name")) for port in ports)
        raise NoAnswer(f"the Service has the ports {names}: say which under kubernetes.port")
    return int(ports[0]["port"]) if ports else None
