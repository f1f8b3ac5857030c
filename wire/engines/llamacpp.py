"""llama.cpp's server: /health is 503 while the model loads."""

from wire.dialect import Dialect

DIALECT = Dialect()
