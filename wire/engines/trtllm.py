"""TensorRT-LLM's trtllm-serve: unknown request fields are refused."""

from wire.dialect import Dialect

DIALECT = Dialect(metrics_path="/prometheus/metrics")
