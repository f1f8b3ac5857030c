"""What do engines publish of their KV caches, and how does every worker come to know it?

One process (`process`) finds out where each engine publishes (`sources`), listens there (`subscription`,
`replay`, `drain`), and writes what it hears into memory that the workers map (`memory`).  What it means is
decided in `routing/events`.
"""
