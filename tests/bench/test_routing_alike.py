"""What Dynamo's own selection service counted and chose, request by request, is what `dynamo_cost` does.

The steps were kept from one run beside the program (`bench.routing.selection`, ai-dynamo 1.6.1), whose
requests began and ended in any order.
"""

from collections import Counter
from pathlib import Path

from bench.routing.selection import Ended, Sent, heard, read

STEPS = read(Path(__file__).parent / "captured" / "dynamo_selection.jsonl")


def test_of_all_that_dynamos_service_counted_and_chose_nothing_differs() -> None:
    found = heard(STEPS)
    assert found.total() == 2 * 120
    assert not [words for words in found if "DIFFERENT" in words], found


def test_the_kept_requests_end_out_of_order() -> None:
    flying: list[int] = []
    places = Counter[bool]()
    for step in STEPS:
        if isinstance(step, Sent):
            flying.append(step.request)
        elif isinstance(step, Ended):
            places[flying.index(step.request) == 0] += 1
            flying.remove(step.request)
    assert places[False] > 4 * places[True]
