"""What the operator may write about limits: time, bytes, connections."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from config.strict import Bytes, Count, Seconds, Strict, number


class Limits(Strict):
    """What one request, one client and one engine may take; of connections, in each worker."""

    body_bytes: Bytes = Field(default=128 << 20, description="A larger request body is refused with 413.")
    read_bytes: Bytes = Field(
        default=8 << 20, description="A larger body is relayed without being read for its prefix."
    )
    head_bytes: Bytes = Field(default=65_536, description="A larger request head is refused with 431.")
    connect_timeout_s: Seconds = Field(
        default=5.0, description="An engine must accept a connection within this."
    )
    first_token_timeout_s: Seconds = Field(
        default=600.0, description="An engine must begin to answer within this."
    )
    idle_timeout_s: Seconds = Field(
        default=120.0, description="Silence within an answer or a request ends it."
    )
    drain_s: Seconds = Field(default=30.0, description="Requests in flight may end within this at a stop.")
    drain_delay_s: Annotated[float, BeforeValidator(number), Field(ge=0, le=3600, allow_inf_nan=False)] = (
        Field(
            default=0.0,
            description="At a stop, not ready but serving for this long, until all balancers know; in"
            " Kubernetes 5.",
        )
    )
    leaving_s: Seconds = Field(
        default=600.0, description="Requests at an engine that a reload takes out may end within this."
    )
    retries: Annotated[Count, Field(ge=0, le=16)] = Field(
        default=2, description="Further engines tried when one refuses before its first event."
    )
    retry_share: Annotated[float, BeforeValidator(number), Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.2, description="Retries of all requests together, as a share of the last seconds' traffic."
    )
    retry_per_s: Annotated[float, BeforeValidator(number), Field(ge=0, le=1e6, allow_inf_nan=False)] = Field(
        default=10.0, description="Retries a second that a worker may make besides, however little traffic."
    )
    retry_wait_s: Annotated[float, BeforeValidator(number), Field(ge=0, le=60, allow_inf_nan=False)] = Field(
        default=2.0,
        description="A request that every engine refused waits up to this for one that named a time"
        " (Retry-After).",
    )
    hold_head_ms: Annotated[float, BeforeValidator(number), Field(ge=0, le=60_000, allow_inf_nan=False)] = (
        Field(
            default=250.0,
            description="An answer's head waits this long for the first event, which may be a refusal.",
        )
    )
    connections: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        default=16_384,
        description="Clients connected to a worker at once; the next is told 503. Never more than half of"
        " the process's file descriptors (ulimit -n) less 32: each may need one towards an engine too.",
    )
    connections_per_ip: Annotated[Count, Field(ge=0, le=1_000_000)] = Field(
        default=0,
        description="Connections from one address (IPv6: one /64) to a worker; the next is told 429. 0 does"
        " not count: behind a load balancer all clients come from a few addresses.",
    )
    engine_connections: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(
        default=4_096, description="Connections of a worker to one engine, idle ones included."
    )
    engine_idle_s: Annotated[Seconds, Field(le=3600)] = Field(
        default=4.0,
        description="An idle connection to an engine is closed after this, unless its Keep-Alive header"
        " promises another time. uvicorn closes after 5 s: stay below the engine's own.",
    )
    resolve_s: Seconds = Field(
        default=30.0,
        description="Engines' host names are looked up again after this, and when no connection is had.",
    )
    handshake_timeout_s: Seconds = Field(
        default=10.0, description="A client must finish its TLS handshake within this."
    )
    head_timeout_s: Seconds = Field(
        default=10.0, description="A request's head must be whole this long after its first byte, else 408."
    )
    keep_alive_s: Seconds = Field(
        default=75.0, description="A client's connection on which nothing is asked is closed after this."
    )
    body_timeout_s: Seconds = Field(
        default=20.0, description="Over each such span an unfinished body must bring body_bytes_per_s."
    )
    body_bytes_per_s: Annotated[Count, Field(ge=0, le=1 << 40)] = Field(
        default=240, description="A body that comes more slowly is ended with 408; 0: one that stands still."
    )
    uploads_bytes: Bytes = Field(
        default=1 << 30,
        description="What a worker holds of unfinished bodies; above it the largest are told 503.",
    )
