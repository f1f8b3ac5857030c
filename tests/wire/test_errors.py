"""What a log says of an error holds none of the data the error was about."""

import pytest

from wire.errors import told


@pytest.mark.parametrize("broken", [b"sk-SECRET\xff", b"a prompt \xc3"])
def test_the_text_that_could_not_be_read_is_not_told(broken: bytes) -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        broken.decode()
    said = told(caught.value)
    assert said.startswith("UnicodeDecodeError: ") and "SECRET" not in said and "prompt" not in said


def test_nor_the_text_that_could_not_be_written() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "my secret\ud800".encode()
    assert "secret" not in told(caught.value)


def test_other_errors_say_what_they_are_and_are_short() -> None:
    assert told(OSError(111, "refused")) == "ConnectionRefusedError: [Errno 111] refused"
    assert len(told(ValueError("x" * 10_000))) == 300
