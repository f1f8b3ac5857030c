"""What does each arm cost?  Money, GPU time and energy for each token, from what was recorded."""
