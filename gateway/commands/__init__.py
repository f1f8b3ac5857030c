"""What each command of the command line does, and what it prints."""
