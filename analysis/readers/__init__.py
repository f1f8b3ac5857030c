"""Readers of answers, one protocol a file: PATHS, `Params`, a class and `build(params) -> Reader`."""
