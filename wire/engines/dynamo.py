"""NVIDIA Dynamo's frontend: /health stays healthy without workers, /v1/models does not."""

from wire.dialect import Dialect

DIALECT = Dialect(probe_path="/v1/models")
