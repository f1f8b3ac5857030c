"""Which engine is this?  Answers of its own paths turned into a kind, a version and what it offers."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Harmless GETs.  (TensorRT-LLM's /kv_cache_events is left out: reading it drains it.)
PROBES = (
    "/v1/models", "/health", "/version", "/metrics", "/server_info", "/get_server_info", "/get_model_info",
    "/props", "/info", "/prometheus/metrics", "/kv_event_sources",
)  # fmt: skip

Answers = Mapping[str, tuple[int, bytes]]  # path -> (status, body); a path that gave no answer is left out

_SGLANG_PATHS = ("/server_info", "/get_server_info", "/get_model_info")
_TGI_FIELDS = {"max_total_tokens", "max_concurrent_requests", "docker_label"}
# kind -> a text its metrics contain, at the beginning of a line
_METRICS = {
    "dynamo": "dynamo_frontend_",
    "sglang": "sglang:",
    "llamacpp": "llamacpp:",
    "tgi": "tgi_",
    "trtllm": "trtllm_",
    "vllm": "vllm:",
}
_HALVES = {"prefill": "prefill", "decode": "decode", "null": "both"}
_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "nvidia": "dynamo",
    "tensorrt_llm": "trtllm",
}


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine says of itself.  None: it does not say."""

    kind: str
    version: str | None
    models: tuple[str, ...]
    max_model_len: int | None
    prefix_caching: bool | None
    cached_tokens: str | None  # how to see them: in the usage of responses, in the metrics
    kv_events: str | None  # where they are published
    metrics: bool
    half: str | None = None  # of a pair, as SGLang was started: prefill, decode or both
    bootstrap_port: int | None = None  # where such a pair meets


def kind_of(answers: Answers) -> str:
    """The kind: vllm, sglang, llamacpp, tgi, trtllm, dynamo, or openai for any other with that API.

    What only one engine has decides first, what several have last: a frontend such as Dynamo passes on the
    metrics of the engines behind it, and TensorRT-LLM answers /version like vLLM.
    """
    text = _metrics(answers)
    if _has_series(text, _METRICS["dynamo"]) or b"dyn://" in _body(answers, "/health"):
        return "dynamo"
    if "default_generation_settings" in _object(answers, "/props"):
        return "llamacpp"
    if any("model_path" in _object(answers, path) for path in _SGLANG_PATHS):
        return "sglang"
    if not _TGI_FIELDS.isdisjoint(_object(answers, "/info")):
        return "tgi"
    for kind, series in _METRICS.items():
        if _has_series(text, series):
            return kind
    for model in _models(answers):
        owner = _OWNERS.get(str(model.get("owned_by", "")).lower())
        if owner is not None:
            return owner
    return "vllm" if isinstance(_object(answers, "/version").get("version"), str) else "openai"


def describe(answers: Answers) -> Engine:
    """All that can be told from the answers to `PROBES`."""
    kind = kind_of(answers)
    server = _object(answers, "/server_info") or _object(answers, "/get_server_info")
    text = _metrics(answers)
    models = _models(answers)
    lengths = [model[key] for model in models for key in ("max_model_len", "context_window") if key in model]
    return Engine(
        kind=kind,
        version=_version(kind, answers, server),
        models=tuple(str(model["id"]) for model in models),
        max_model_len=next((length for length in lengths if isinstance(length, int)), None),
        prefix_caching=_prefix_caching(kind, text, server),
        cached_tokens=_cached_tokens(kind, text, server),
        kv_events=_kv_events(kind, answers, server),
        metrics=any(_has_series(text, series) for series in _METRICS.values()),
        half=_HALVES.get(str(server.get("disaggregation_mode"))) if kind == "sglang" else None,
        bootstrap_port=port if isinstance(port := server.get("disaggregation_bootstrap_port"), int) else None,
    )


def _version(kind: str, answers: Answers, server: Mapping[str, Any]) -> str | None:
    found = {
        "sglang": server.get("version"),
        "tgi": _object(answers, "/info").get("version"),
        "llamacpp": _object(answers, "/props").get("build_info"),
    }.get(kind, _object(answers, "/version").get("version"))
    return found if isinstance(found, str) and found else None


def _prefix_caching(kind: str, text: str, server: Mapping[str, Any]) -> bool | None:
    if kind == "vllm":
        found = re.search(r'enable_prefix_caching="(True|False)"', text)
        return None if found is None else found[1] == "True"
    if kind == "sglang" and isinstance(server.get("disable_radix_cache"), bool):
        return not server["disable_radix_cache"]
    return True if kind == "llamacpp" else None


def _cached_tokens(kind: str, text: str, server: Mapping[str, Any]) -> str | None:
    if kind == "sglang":
        if server.get("enable_cache_report"):
            return "usage"
        return "metrics" if "sglang:cached_tokens" in text else None
    names = {"vllm": "vllm:prompt_tokens_cached", "llamacpp": "llamacpp:prompt_tokens_cached"}
    return "metrics" if kind in names and names[kind] in text else None


def _kv_events(kind: str, answers: Answers, server: Mapping[str, Any]) -> str | None:
    if kind == "vllm":
        status, body = answers.get("/kv_event_sources", (0, b""))
        endpoints = re.findall(rb"tcp://[^\"\s,\]}]+", body) if status == 200 else []
        return ", ".join(endpoint.decode(errors="replace") for endpoint in endpoints) or None
    events = server.get("kv_events")
    if kind == "sglang" and isinstance(events, dict) and events.get("publisher"):
        return f"tcp://{events.get('endpoint_host', '*')}:{events.get('endpoint_port_base', '?')}"
    return None


def _metrics(answers: Answers) -> str:
    bodies = (_body(answers, path) for path in ("/metrics", "/prometheus/metrics"))
    return "\n".join(body.decode(errors="replace") for body in bodies)


def _has_series(text: str, prefix: str) -> bool:
    return text.startswith(prefix) or f"\n{prefix}" in text or f"# TYPE {prefix}" in text


def _models(answers: Answers) -> list[Mapping[str, Any]]:
    listed = _object(answers, "/v1/models").get("data")
    if not isinstance(listed, list):
        return []
    return [one for one in listed if isinstance(one, dict) and "id" in one]


def _object(answers: Answers, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(_body(answers, path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _body(answers: Answers, path: str) -> bytes:
    status, body = answers.get(path, (0, b""))
    return body if status == 200 else b""
