"""analysis/web."""
