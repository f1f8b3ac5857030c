"""Where engines say that they publish, as real ones say it, and as no honest one would."""

import json
from typing import Any

import pytest

from gateway.kv.sources import SGLANG, VLLM, Source, configured, host_of, replay_of, told
from gateway.kv.spec import KvEngine, KvSpec, binds, from_json, says_anything, to_json
from gateway.spec import EventsSpec

HOST = "10.0.0.5"
# vLLM 0.32.0's own answer, but for its ports
VLLM_032 = {
    "0": {
        "enable_kv_cache_events": True, "publisher": "zmq", "endpoint": "tcp://*:5557",
        "replay_endpoint": "tcp://*:5558", "buffer_steps": 10000, "hwm": 100000, "max_queue_size": 100000,
        "topic": "kv-events",
    }
}  # fmt: skip
AT = {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557, "block_size": 64}


def said(path: str, answer: Any) -> list[Source]:
    return told({path: (200, json.dumps(answer).encode())}, HOST)


def test_vllm_tells_by_rank_or_in_a_list() -> None:
    at = Source(0, "tcp://10.0.0.5:5557", "tcp://10.0.0.5:5558", "kv-events")
    assert said(VLLM, VLLM_032) == [at]
    entry = {"data_parallel_rank": 0, "endpoint": "tcp://*:5557", "replay_endpoint": None, "topic": ""}
    assert said(VLLM, [entry]) == [Source(0, "tcp://10.0.0.5:5557")]
    second = {**entry, "data_parallel_rank": 1, "endpoint": "tcp://10.0.0.9:6000"}
    assert said(VLLM, [entry, second]) == [Source(0, "tcp://10.0.0.5:5557"), Source(1, "tcp://10.0.0.9:6000")]
    assert (
        said(VLLM, {}) == said(VLLM, []) == said(VLLM, {"0": {"publisher": "null", "endpoint": None}}) == []
    )


def test_ranks_told_with_one_endpoint_are_on_the_ports_from_there_on() -> None:
    two = {"0": VLLM_032["0"], "1": VLLM_032["0"]}
    assert said(VLLM, two)[1] == Source(1, "tcp://10.0.0.5:5558", "tcp://10.0.0.5:5559", "kv-events")


def test_sglang_tells_base_ports() -> None:
    assert said(SGLANG, {"kv_events": AT}) == [Source(0, "tcp://10.0.0.5:5557")]
    more = {
        **AT,
        "dp_size": 2,
        "topic": "kv",
        "load_endpoint_port_base": 5560,
        "replay_endpoint_port_base": 5558,
    }
    assert said(SGLANG, {"kv_events": more})[1] == Source(
        1, "tcp://10.0.0.5:5558", "tcp://10.0.0.5:5559", "kv", "tcp://10.0.0.5:5561"
    )
    assert (
        said(SGLANG, {"kv_events": {**AT, "endpoint_host": "10.1.1.1"}})[0].publish == "tcp://10.1.1.1:5557"
    )
    assert said(SGLANG, {"kv_events": None}) == []


@pytest.mark.parametrize(
    "answer",
    [
        None, 7, "x", [None], [[]], [{}], {"x": {}}, {"0": 7}, {"kv_events": []},
        {"0": {"endpoint": "tcp://*:0"}},
        {"0": {"endpoint": "inproc://x"}}, {"0": {"endpoint": "tcp://*:70000"}}, [{"endpoint": 7}],
        {"kv_events": {"publisher": "zmq"}}, {"kv_events": {**AT, "endpoint_port_base": "x"}},
        {"-1": VLLM_032["0"]}, {"99999999": VLLM_032["0"]}, {"kv_events": {**AT, "dp_size": "2"}},
    ],
)  # fmt: skip
def test_what_is_no_place_is_none(answer: Any) -> None:
    assert said(VLLM, answer) == said(SGLANG, answer) == []


def test_a_socket_file_is_only_that_of_an_engine_on_this_machine() -> None:
    answer = json.dumps({"0": {"endpoint": "ipc:///run/kv"}}).encode()
    assert [one.publish for one in told({VLLM: (200, answer)}, "127.0.0.1")] == ["ipc:///run/kv"]
    assert told({VLLM: (200, answer)}, HOST) == []


def test_an_answer_of_an_error_is_none_and_ranks_have_an_end() -> None:
    assert told({VLLM: (404, json.dumps(VLLM_032).encode()), SGLANG: (200, b"{")}, HOST) == []
    assert len(said(SGLANG, {"kv_events": {**AT, "dp_size": 10**9}})) == 64


def test_what_is_configured_has_the_engines_host_and_a_port_for_each_rank() -> None:
    spec = EventsSpec(publish="tcp://{host}:5557", replay="tcp://{host}:5567", ranks=2, topic="kv@{host}")
    assert configured(spec, "[fd00::7]") == [
        Source(0, "tcp://[fd00::7]:5557", "tcp://[fd00::7]:5567", "kv@[fd00::7]"),
        Source(1, "tcp://[fd00::7]:5558", "tcp://[fd00::7]:5568", "kv@[fd00::7]"),
    ]
    assert configured(EventsSpec(publish="ipc:///run/kv", ranks=2), HOST)[1].publish == "ipc:///run/kv_dp1"
    assert configured(EventsSpec(), HOST) == []
    assert [replay_of(spec, "a", rank) for rank in (0, 1)] == ["tcp://a:5567", "tcp://a:5568"]
    assert replay_of(EventsSpec(bind="tcp://*:5557"), "a", 0) is None


def test_hosts_are_written_as_zeromq_writes_them() -> None:
    assert [host_of(url) for url in ("http://a:1", "http://[fd00::7]:8000", "unix:///run/x.sock")] == [
        "a", "[fd00::7]", "127.0.0.1",
    ]  # fmt: skip


def test_a_spec_is_the_same_after_it_was_handed_over() -> None:
    engine = KvEngine(3, "http://a:1", "vllm", EventsSpec(bind="tcp://*:5557"), "m", "key")
    spec = KvSpec("/run", (engine,))
    assert from_json(to_json(spec)) == spec and "key" not in repr(spec)
    assert binds(spec.engines) == {"tcp://*:5557": [engine]} and says_anything(spec)
    assert not says_anything(KvSpec("/run", (KvEngine(3, "http://a:1", "tgi", EventsSpec()),)))
