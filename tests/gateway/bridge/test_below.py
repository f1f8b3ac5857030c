"""A whole gateway before an engine with a tier in its host's memory: what is there is foretold and found."""

from contextlib import AsyncExitStack
from pathlib import Path

from tests.gateway.bridge.test_foretold import MODEL, engine, talks, until
from tests.gateway.whole import serving, with_engines


def test_what_is_loaded_from_the_hosts_memory_is_foretold_told_apart_and_found(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        one = await engine(stack, num_blocks=200, max_model_len=3200, host_blocks=4000)
        async with serving(tmp_path, {"fleets": [{"model": MODEL, "engines": [one.url]}]}) as whole:
            await until(whole, lambda found: found.get(("kv_state", "EXACT"), 0) == 1)
            await talks(whole, workers=1, count=6, turns=3)
            found = await until(whole, lambda found: found.get(("kv_blocks_below", "host"), 0) > 0)
            assert found["kv_blocks_below", "host"] > found["kv_blocks", ""]
            foretold = found["foretold_below_tokens", "host"]
            assert foretold > 0 and ("foretold_below_tokens", "store") not in found
            assert found["found_below_tokens", ""] == foretold, "the host had room for all"
            high = [name for name, n in found.items() if name[0] == "foretold_error" and n and name[1] > "0"]
            assert not high and found["foretold_trusted", ""] == 1
            assert ("kv_ignored", "other") not in found

    with_engines(run)
