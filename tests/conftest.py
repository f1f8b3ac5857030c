"""What holds for every test: what one is called when its parameter is a body, and that none is hurried."""

from hypothesis import settings

# A slow or busy machine is no failure: pytest's own timeout ends what hangs.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Short text is read in the id as it is.

    Anything else, such as a gzip member with its instant, may differ between the processes that run the suite
    side by side, which refuse to begin when their lists differ.
    """
    if not isinstance(val, bytes):
        return None
    return None if len(val) <= 24 and val.isascii() and val.decode().isprintable() else argname
