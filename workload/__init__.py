"""What traffic looks like: when conversations arrive, what they say, and how they are sent.

`prompts` and `arrivals` synthesise traffic from a random generator they are handed; `traces` reads recorded
traffic out of files; `send` runs conversations against a server over HTTP and counts how each request ended.
"""
