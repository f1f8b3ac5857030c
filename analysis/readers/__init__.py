"""analysis/readers."""
