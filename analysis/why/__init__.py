"""Why is an arm as fast as it is, and what could be tried?  A diagnosis with its evidence."""
