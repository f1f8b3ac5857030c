"""vLLM: /health asks the engine core without generating."""

from wire.dialect import Dialect

DIALECT = Dialect(takes_cache_salt=True, tells_token_ids=True)
