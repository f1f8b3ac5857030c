"""Turns paired answers into measures, and measures into verdicts with stated certainty.

Readers turn an answer's bytes into a `Transcript`, `measure` turns a pair of answers into a `PairRecord`
without text, and a `Trial` turns records into a ranking. None of that does I/O or reads a clock: the same
records give the same ranking. `process`, `store`, `report` and `web` are the shell around it.
"""
