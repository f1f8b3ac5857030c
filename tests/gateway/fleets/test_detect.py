"""Which engine it is, from recorded answers of real ones."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleets.detect import PROBES, describe, kind_of

FIXTURES = Path(__file__).parents[1] / "fixtures"


def recorded(engine: str) -> dict[str, tuple[int, bytes]]:
    """path -> (status, body) as `engine` answered."""
    answers = json.loads((FIXTURES / f"answers_{engine}.json").read_text())
    return {path: (status, body.encode()) for path, (status, body) in answers.items()}


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("llamacpp", "llamacpp"),
        ("dynamo", "dynamo"),
        ("tfserve", "openai"),
    ],
)
def test_a_recorded_engine_is_recognised(engine: str, kind: str) -> None:
    assert kind_of(recorded(engine)) == kind


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp", "dynamo"])
@pytest.mark.parametrize("lost", PROBES)
def test_one_answer_less_does_not_change_the_kind(engine: str, lost: str) -> None:
    answers = recorded(engine)
    answers.pop(lost, None)
    assert kind_of(answers) == engine


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp", "dynamo"])
def test_the_list_of_models_alone_is_enough(engine: str) -> None:
    assert kind_of({"/v1/models": recorded(engine)["/v1/models"]}) == engine


def test_what_was_recorded_nowhere_is_recognised_by_its_documented_answers() -> None:
    tgi = {"/info": (200, b'{"model_id": "m", "max_total_tokens": 2048, "version": "3.3.4"}')}
    assert (kind_of(tgi), describe(tgi).version) == ("tgi", "3.3.4")
    trtllm = {
        "/version": (200, b'{"version": "1.2.0"}'),
        "/metrics": (200, b"[]"),
        "/prometheus/metrics": (200, b"# TYPE trtllm_num_requests_running gauge\n"),
    }
    assert (kind_of(trtllm), describe(trtllm).version) == ("trtllm", "1.2.0")


def test_a_frontend_that_passes_on_its_engines_metrics_is_the_frontend() -> None:
    text = b"# TYPE vllm:num_requests_running gauge\n# TYPE dynamo_frontend_active_requests gauge\n"
    assert kind_of({"/metrics": (200, text)}) == "dynamo"


@given(
    st.dictionaries(
        st.sampled_from(PROBES),
        st.tuples(
            st.sampled_from([200, 404, 500]),
            st.binary(max_size=40)
            | st.sampled_from([b"[]", b"{}", b"null", b'{"data": 3}', b'{"data": [3, {"id": 4}]}', b"1e999"]),
        ),
    )
)
def test_no_answer_is_too_strange(answers: dict[str, tuple[int, bytes]]) -> None:
    assert describe(answers).kind in {"vllm", "sglang", "llamacpp", "tgi", "trtllm", "dynamo", "openai"}


def test_vllm_tells_its_version_its_models_and_its_caching() -> None:
    found = describe(recorded("vllm"))
    assert (found.version, found.models, found.max_model_len) == ("0.32.0", ("tiny",), 2048)
    assert (found.prefix_caching, found.cached_tokens, found.kv_events) == (True, "metrics", None)
    sources = {"/kv_event_sources": (200, b'{"sources": [{"endpoint": "tcp://*:5557"}]}')}
    assert describe({**recorded("vllm"), **sources}).kv_events == "tcp://*:5557"


def test_sglang_tells_its_version_its_caching_and_where_it_publishes() -> None:
    found = describe(recorded("sglang"))
    assert (found.version, found.models, found.prefix_caching) == ("0.5.23", ("tiny",), True)
    assert found.kv_events is None
    told = {
        "model_path": "m",
        "kv_events": {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557},
    }
    assert describe({"/server_info": (200, json.dumps(told).encode())}).kv_events == "tcp://*:5557"
