"""A new configuration is served by whole, or not at all."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

import routing.policies
from gateway.fleets.lineup import Lineup
from gateway.fleets.loads import LoadTable
from gateway.spec import EngineSpec, FleetSpec, LimitsSpec, SplitSpec
from wire.tasks import Tasks
from wire.upstream import Pool

PICKY = '''
"""A plug-in that looks when it is told where to, and does not like what it sees."""

from dataclasses import dataclass

from routing.policies.least_load import LeastLoad


@dataclass(frozen=True, slots=True)
class Params:
    pass


class Picky(LeastLoad):
    def watch(self, flying):
        raise KeyError("not what I was built for")


def build(params):
    return Picky()
'''


@pytest.fixture(autouse=True)
def picky(tmp_path: Path) -> Iterator[None]:
    """It is there as any plug-in is: as a file."""
    (tmp_path / "picky.py").write_text(PICKY)
    routing.policies.__path__.append(str(tmp_path))
    yield
    routing.policies.__path__.remove(str(tmp_path))
    sys.modules.pop("routing.policies.picky", None)


def no_pool(spec: EngineSpec, limits: LimitsSpec) -> Pool:
    raise AssertionError("no fleet here has engines")


def lineup(tmp_path: Path) -> Lineup:
    loads = LoadTable.create(tmp_path / "loads", 1, 0)
    tasks = Tasks(lambda name, error: None)
    return Lineup(loads, loads.row(0), no_pool, tasks, structlog.get_logger())


def fleet(model: str, **fields: Any) -> FleetSpec:
    return FleetSpec(model, (model,), True, (), **fields)


SPLIT = SplitSpec("vllm", 0)
KEPT = fleet("kept", split=SPLIT)


@pytest.mark.parametrize(
    "changed",
    [
        replace(KEPT, policy="picky"),
        replace(KEPT, split=replace(SPLIT, policy="picky")),
        replace(KEPT, score=(("picky", {}),), score_share=1.0),
    ],
    ids=["policy", "decode", "score"],
)
def test_a_policy_that_raises_as_it_is_told_where_to_look_changes_nothing(
    tmp_path: Path, changed: FleetSpec
) -> None:
    served = lineup(tmp_path)
    before = served.renew([KEPT, fleet("other")], LimitsSpec(), 0, first=True)
    there = [(one, one.spec, one.router, one.split, one.shadow) for one in before.fleets]
    with pytest.raises(KeyError):
        served.renew([fleet("new"), fleet("other", policy="round_robin"), changed], LimitsSpec(), 1)
    assert served.fleets is before
    assert [(one, one.spec, one.router, one.split, one.shadow) for one in served.fleets.fleets] == there
    after = served.renew([fleet("new"), replace(KEPT, policy="round_robin")], LimitsSpec(), 2)
    assert [one.spec.model for one in after.fleets] == ["new", "kept"]
    assert after.fleets[1] is there[0][0] and after.fleets[1].router is not there[0][2]


def test_the_share_that_is_explained_is_that_of_the_last_config_that_was_not_refused(tmp_path: Path) -> None:
    served = lineup(tmp_path)
    assert served.renew([KEPT], LimitsSpec(), 0, first=True, explained=0.25).explained == 0.25
    with pytest.raises(KeyError):
        served.renew([replace(KEPT, policy="picky")], LimitsSpec(), 1, explained=1.0)
    served._serve(served.fleets.fleets)  # as when an engine has gone
    assert served.fleets.explained == 0.25
    assert served.renew([KEPT], LimitsSpec(), 2, explained=0.5).explained == 0.5
