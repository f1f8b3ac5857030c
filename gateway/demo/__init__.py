"""`shadowlane demo`: who plays, on which stage, and what happens."""
