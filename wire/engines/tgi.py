"""Text Generation Inference."""

from wire.dialect import Dialect

DIALECT = Dialect()
