"""Metrics pages: ranks of data parallelism add up, others repeat themselves; what is none says nothing."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.series import label, series

RANKS = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:cache_config_info{block_size="32",engine="1"} 1.0
"""
REPEATED = b"""sglang:num_running_reqs{pp_rank="0",tp_rank="0"} 5.0
sglang:num_running_reqs{pp_rank="0",tp_rank="1"} 6.0
sglang:num_running_reqs{dp_rank="1",tp_rank="1"} 1.0
sglang:prompt_tokens_total{is_streaming="true"} 400.0
sglang:prompt_tokens_total{is_streaming="false"} 175.0
sglang:realtime_tokens_total{mode="decode",tp_rank="0"} 118.0
sglang:realtime_tokens_total{mode="decode",dp_rank="1"} 2.0
"""


def test_ranks_of_data_parallelism_are_added_up_and_shares_averaged() -> None:
    said = series(RANKS, 1e15)
    assert (said.kind, said.running, said.queued, said.kv_usage) == ("vllm", 7.0, None, 0.625)
    assert said.values(b"num_requests_running") == [3.0, 4.0]
    assert dict(said.cache_config) == {b"1": b'block_size="32",engine="1"'}


def test_other_ranks_say_the_same_once_more_and_parts_are_told_apart() -> None:
    said = series(REPEATED, 1e15)
    assert (said.kind, said.running) == ("sglang", 7.0)
    assert said.total(b"prompt_tokens_total") == 575.0
    assert said.part(b"realtime_tokens_total", b"decode") == 120.0
    assert said.part(b"realtime_tokens_total", b"prefill_compute") is None


def test_the_first_name_that_is_there_speaks() -> None:
    page = b"vllm:token_usage 0.25\nvllm:gpu_cache_usage_perc 0.5\n"
    assert series(page, 1e15).kv_usage == 0.5
    assert series(page, 1e15).total(b"queue_size", b"token_usage") == 0.25


@pytest.mark.parametrize("number", [b"-1", b"1e400", b"1e15", b"NaN", b"1.2.3"])
def test_what_is_no_measurement_is_not_read(number: bytes) -> None:
    said = series(b"vllm:num_requests_running " + number + b"\n", 1e15)
    assert said.kind is None and said.running is None


def test_how_large_a_number_may_be_is_the_callers_to_say() -> None:
    page = b"vllm:estimated_flops_per_gpu_total 6e20\n"
    assert series(page, 1e30).total(b"estimated_flops_per_gpu_total") == 6e20
    assert series(page, 1e15).kind is None


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_around_a_page_leave_its_numbers_numbers(noise: bytes) -> None:
    said = series(noise + b"\nvllm:num_requests_running 1\n" + noise, 1e15)
    assert said.running is not None and said.running >= 1.0
    assert said.kv_usage is None or 0.0 <= said.kv_usage <= 1.0


@given(st.lists(st.sampled_from([b'engine="', b'"', b",", b"x", b'dp_rank="', b"engine", b"="]), max_size=14))
def test_a_label_is_found_as_a_pattern_would(parts: list[bytes]) -> None:
    labels = b"".join(parts)
    told = re.search(rb'(?:^|,)engine="([^"]*)"', labels)
    assert label(labels, b"engine") == (told and told[1])


def test_a_page_of_endless_ranks_is_read_to_a_bound_and_one_of_endless_labels_not_at_all() -> None:
    ranks = b"".join(b'vllm:num_requests_waiting{engine="%d"} 1\n' % rank for rank in range(100_000))
    assert series(ranks, 1e15).queued == 4096
    assert series(b"vllm:num_requests_waiting{" + b"," * 9000 + b"} 1\n", 1e15).queued is None
    assert series(b"vllm:num_requests_waiting{" + b"," * 8000 + b"} 1\n", 1e15).queued == 1
