"""Traffic written down: what of a request is kept, in which files, and the process that writes them."""
