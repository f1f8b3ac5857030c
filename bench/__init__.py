"""Benchmarks: each prints a table and the ratio that matters.  Claims about speed come from here only."""
