"""What the operator may write about engines that are looked up while the gateway runs."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from config import address
from config.strict import Count, Strict, expected

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")


def _host(value: str) -> str:
    if not re.match(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})\Z", value):
        raise expected("a host name such as vllm.models.svc.cluster.local, without a port")
    return value.lower()


def _label(value: str) -> str:
    if not _LABEL.match(value):
        raise expected("a name as Kubernetes writes it: small letters, digits and dashes, 63 at most")
    return value


def _api(value: str) -> str:
    try:
        return address.engine_url(value)
    except address.BadAddress:
        raise expected("the URL of the API server, such as https://kubernetes.default.svc") from None


def _server(value: str) -> str:
    try:
        found = address.listen(value)
    except address.BadAddress:
        found = None
    if found is None or not re.match(r"[0-9.]+\Z|.*:", found.host):
        raise expected("ADDRESS:PORT of a DNS server, such as 10.0.0.2:53 or [fd00::2]:53")
    return str(found)


Host = Annotated[str, AfterValidator(_host)]
Label = Annotated[str, AfterValidator(_label)]
Port = Annotated[Count, Field(ge=1, le=65_535)]
Scheme = Literal["http", "https"]


class DnsSource(Strict):
    """A name whose addresses are the engines; asked again when its time to live ends or an engine is lost."""

    name: Host = Field(description="The name; in Kubernetes that of a headless Service.")
    port: Port | None = Field(default=None, description="The engines' port; SRV records bring their own.")
    record: Literal["address", "srv"] = Field(
        default="address", description="What is asked for: A and AAAA, or SRV records."
    )
    scheme: Scheme = Field(default="http", description="How the engines are spoken to.")
    server: Annotated[str, AfterValidator(_server)] | None = Field(
        default=None, description="The DNS server; left out, the system's."
    )


class KubernetesSource(Strict):
    """A Service whose ready pods are the engines, by its EndpointSlices."""

    service: Label = Field(description="The Service's name.")
    namespace: Label | None = Field(default=None, description="Its namespace; left out, the pod's own.")
    port: Annotated[str, AfterValidator(_label)] | Port | None = Field(
        default=None, description="The port's name or number; left out, the slice's only one."
    )
    scheme: Scheme = Field(default="http", description="How the engines are spoken to.")
    api: Annotated[str, AfterValidator(_api)] = Field(
        default="https://kubernetes.default.svc", description="The API server."
    )
    token_file: Path = Field(
        default=SERVICE_ACCOUNT / "token",
        description="The token, read again for each request: it is rotated.",
    )
    ca_file: Path = Field(
        default=SERVICE_ACCOUNT / "ca.crt", description="Whom to trust to be the API server."
    )
