"""Anything else with OpenAI's API: only /v1/models can be counted on."""

from wire.dialect import Dialect

DIALECT = Dialect(probe_path="/v1/models")
