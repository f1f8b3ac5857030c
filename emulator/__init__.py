"""An LLM engine without a GPU that behaves like vLLM.

Pure inside: `text` and `generation` (what it says), `kv_cache` and `scheduler` (what it holds and when it
says it). Around them `engine` (one task that steps the scheduler on the clock) and an aiohttp server that
speaks vLLM's HTTP API, metrics and KV events. `emulator.server.start` runs one in this process, `python
-m emulator` in its own.
"""
