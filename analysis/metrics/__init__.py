"""How do two answers to one request differ?  One metric a file: `Params`, a class, `build(params)`."""
