"""Which engine should answer this request, and why.

`prompt.read` names a request's beginnings without a tokenizer, `index.PrefixIndex` remembers which engine was
sent which beginning, a policy weighs that against live load, and `router.Router` does the three in one
synchronous call. Pure: no clock, no I/O, no event loop; instants, randomness and the secret are arguments.
"""
