"""What engines count of their own work, read from their pages; a page that is none says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.metrics import EngineMetrics
from wire.counted import NOTHING, Counted, counted

VLLM = b"""# TYPE vllm:num_requests_running gauge
vllm:estimated_flops_per_gpu_total{engine="0",model_name="m"} 6.0e+12
vllm:estimated_read_bytes_per_gpu_total{engine="0",model_name="m"} 2.0e+10
vllm:estimated_write_bytes_per_gpu_total{engine="0",model_name="m"} 1.0e+10
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:num_preemptions_total{engine="0",model_name="m"} 5.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 531.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 531.0
vllm:prompt_tokens_cached_total{engine="0",model_name="m"} 31.0
vllm:generation_tokens_total{engine="0",model_name="m"} 113.0
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="m"} 90.0
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 111.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 644.0
"""
SGLANG = b"""sglang:num_running_reqs{model_name="m",pp_rank="0",tp_rank="0"} 5.0
sglang:num_running_reqs{model_name="m",pp_rank="0",tp_rank="1"} 5.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 2.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.25
sglang:num_retracted_reqs{model_name="m",tp_rank="0"} 1.0
sglang:prompt_tokens_total{is_streaming="true",model_name="m"} 400.0
sglang:prompt_tokens_total{is_streaming="false",model_name="m"} 175.0
sglang:realtime_tokens_total{mode="prefill_compute",model_name="m",tp_rank="0"} 233.0
sglang:realtime_tokens_total{mode="decode",model_name="m",tp_rank="0"} 118.0
sglang:realtime_tokens_total{mode="decode",model_name="m",tp_rank="1"} 118.0
sglang:realtime_tokens_total{mode="prefill_cache",model_name="m",tp_rank="0"} 342.0
sglang:cuda_graph_passes_total{mode="prefill_none",model_name="m",tp_rank="0"} 26.0
sglang:cuda_graph_passes_total{mode="decode_none",model_name="m",tp_rank="0"} 116.0
"""
LLAMACPP = b"""llamacpp:prompt_tokens_total 91
llamacpp:prompt_tokens_cached_total 366
llamacpp:tokens_predicted_total 182
llamacpp:n_decode_total 178
llamacpp:requests_processing 2
llamacpp:requests_deferred 7
"""


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (VLLM, Counted("vllm", 7.0, 2.0, 0.625, 5.0, None, 111.0, 500.0, 113.0, 6e12, 3e10)),
        (SGLANG, Counted("sglang", 5.0, 2.0, 0.25, None, 1.0, 142.0, 233.0, 118.0)),
        (LLAMACPP, Counted("llamacpp", 2.0, 7.0, None, None, None, 178.0, 91.0, 182.0)),
        (b'vllm:estimated_flops_per_gpu_total{engine="0"} 0.0\n', Counted("vllm")),
        (b"vllm:num_requests_running -1\nvllm:num_requests_waiting 1e400\n", NOTHING),
        (b"<html>404</html>", NOTHING),
        (b"", NOTHING),
    ],
)
def test_each_kind_is_read_in_its_own_words(page: bytes, said: Counted) -> None:
    assert counted(page) == said


def test_what_the_emulator_counts_is_read_as_vllms() -> None:
    metrics = EngineMetrics("m")
    metrics.prompt_tokens, metrics.prompt_tokens_cached, metrics.generation_tokens = 900, 300, 50
    for _ in range(7):
        metrics.iteration_tokens.observe(100)
    page = metrics.text(
        running=3, waiting=1, usage=0.5, queried=0, hits=0, loaded=0, preemptions=4, cache_config={}
    )
    assert counted(page.encode()) == Counted("vllm", 3.0, 1.0, 0.5, 4.0, None, 7.0, 600.0, 50.0)


def test_what_is_not_known_is_left_out_of_what_is_sent() -> None:
    assert counted(LLAMACPP).to_map().keys() == {
        "kind", "running", "queued", "steps", "computed_tokens", "generated_tokens"
    }  # fmt: skip


@given(st.binary(max_size=200), st.sampled_from([VLLM, SGLANG, LLAMACPP]), st.integers(0, 900))
def test_no_page_makes_it_fail(junk: bytes, page: bytes, at: int) -> None:
    found = counted(page[:at] + junk + page[at:])
    assert all(value >= 0.0 for name, value in found.to_map().items() if name != "kind")
