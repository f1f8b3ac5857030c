"""routing/policies."""
