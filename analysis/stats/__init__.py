"""The statistics of pairs, pure: contrasts, windows, dependence, confidence sequences, percentiles."""
