"""Commands in a configuration: split as a shell would, and what no process can be started with is told."""

import pytest
from pydantic import BaseModel, ValidationError

from config.golden import Golden
from config.record import Record
from config.turns import Turns

COMMANDS: list[tuple[type[BaseModel], str]] = [
    (Golden, "command"),
    (Record, "redact_command"),
    (Turns, "switch"),
]
each_command = pytest.mark.parametrize(("where", "name"), COMMANDS)


@each_command
def test_a_text_is_its_words_and_a_list_is_as_it_is(where: type[BaseModel], name: str) -> None:
    assert getattr(where(**{name: "mark --of 'two words'"}), name) == ("mark", "--of", "two words")
    assert getattr(where(**{name: ("mark", "two words")}), name) == ("mark", "two words")


@each_command
@pytest.mark.parametrize(
    ("written", "said"),
    [("mark 'open", "a command whose quotes are closed"), ("mark \0", "a command without a NUL character")],
)
def test_what_no_process_is_started_with_is_told(
    where: type[BaseModel], name: str, written: str, said: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        where(**{name: written})
    assert said in str(refused.value)
