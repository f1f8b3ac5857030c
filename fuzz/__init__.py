"""Fuzzing of everything that reads bytes from outside: the laws, the seeds, and bounded runs."""
