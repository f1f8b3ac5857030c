"""Which golden requests does an experiment ask?"""

import msgspec

from config.complaint import Complaint
from config.golden import Golden
from config.schema import Config
from mirror.spec import GoldenItem, GoldenSpec

# What reads the files is imported where there are some: it knows every way to check an answer.


def golden_of(said: Golden | None) -> GoldenSpec | None:
    """What the mirror is told.  ValueError or OSError where a file cannot be read."""
    if said is None:
        return None
    from gateway.golden.read import SHIPPED, read_golden

    items = read_golden(SHIPPED) if said.shipped else []
    for file in said.files:
        items += read_golden(file, said.command)
    kept = items if said.run_code else [item for item in items if not _is_code(item)]
    unique = {item.id: item for item in reversed(kept)}  # the first of those with one id
    chosen = [item for item in kept if unique[item.id] is item][: said.requests]
    return GoldenSpec(said.every, tuple(chosen), said.max_tokens)


def complaints(config: Config) -> list[Complaint]:
    """Every file of golden requests that cannot be used, and why.  `source` is left to the loader."""
    found = []
    for at, experiment in enumerate(config.experiments):
        said = experiment.golden
        if said is None:
            continue
        from gateway.golden.read import read_golden

        place = ("experiments", at, "golden")
        for number, file in enumerate(said.files):
            try:
                read_golden(file, said.command)
            except (OSError, ValueError) as error:
                expected = "a file of golden requests, of GSM8K or of HumanEval"
                found.append(Complaint("", (*place, "files", number), expected, str(file), str(error)))
    return found


def _is_code(item: GoldenItem) -> bool:
    return bool(msgspec.json.decode(item.check)["kind"] == "code")
