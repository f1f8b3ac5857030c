"""Golden requests: what is asked of all arms alike, because the right answer is known."""
