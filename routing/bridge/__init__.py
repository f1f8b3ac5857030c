"""From a prompt's text to the KV blocks an engine makes of it, learned off the path and without a tokenizer.

`paths` keeps block chains, `nodes` what is known at each link of a text chain, `learner` learns and answers.
`probe` tells which chat templates may be learned from at all, `novelty` which prompts are worth it.
"""
