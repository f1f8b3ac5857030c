"""What holds for every test: how one with a body is called, that none is hurried, none left to chance."""

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

# A slow or busy machine is no failure: pytest's own timeout ends what hangs.  Nor is chance: each run tries
# the same examples; `pytest --hypothesis-profile=explore` tries others.
settings.register_profile("settled", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("settled")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay to the end: the garbage collector looks at what they make, and not at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Short text is read in the id as it is.

    Anything else, such as a gzip member with its instant, may differ between the processes that run the suite
    side by side, which refuse to begin when their lists differ.
    """
    if not isinstance(val, bytes):
        return None
    return None if len(val) <= 24 and val.isascii() and val.decode().isprintable() else argname
