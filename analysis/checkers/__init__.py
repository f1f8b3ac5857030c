"""Is an answer to a golden request right?  One way to tell a file: `Params`, a class, `build(params)`."""
