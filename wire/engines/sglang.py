"""SGLang: /health runs a generation (about a second on CPU), /ping does not."""

from wire.dialect import Dialect

DIALECT = Dialect(probe_path="/ping", takes_cache_salt=True, tells_token_ids_whole=True)
