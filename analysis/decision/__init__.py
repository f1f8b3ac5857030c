"""Which candidate should run, if any?  Gates, then a front with certainty, then the user's weights."""
