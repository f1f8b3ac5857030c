"""Who gets which GPU: never one that production has, that anything uses, or that another of ours holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.launch.gpus import SPARE_BYTES, Gpu, NoRoom, Wanted, choose

GIB = 1 << 30


def gpu(index: int, **more: Any) -> Gpu:
    told = {"name": "H100", "memory_used_bytes": 0, "memory_total_bytes": 80 * GIB, **more}
    return Gpu(index=index, uuid=f"GPU-{index}", **told)


def chosen(gpus: list[Gpu], wanted: Wanted, production: set[str] = frozenset(), **held: str) -> Any:  # type: ignore[assignment]
    owners = {f"GPU-{name.removeprefix('gpu')}": whose for name, whose in held.items()}
    found = choose(gpus, wanted, production=production, held=owners)
    return found.why if isinstance(found, NoRoom) else [one.index for one in found]


gpus_there = st.lists(
    st.tuples(
        st.sampled_from(["H100", "A100"]),
        st.sampled_from([0, SPARE_BYTES, SPARE_BYTES + 1, 70 * GIB]),
        st.sampled_from([(), (4242,)]),
        st.sampled_from([None, "it does not answer"]),
    ),
    max_size=8,
).map(
    lambda told: [
        gpu(n, name=name, memory_used_bytes=used, processes=processes, unusable=unusable)
        for n, (name, used, processes, unusable) in enumerate(told)
    ]
)


@given(
    gpus=gpus_there,
    wanted=st.integers(0, 4),
    production=st.sets(st.sampled_from([str(n) for n in range(8)] + [f"GPU-{n}" for n in range(8)])),
    held=st.sets(st.integers(0, 7)),
)
def test_whoever_gets_gpus_gets_as_many_as_it_wants_of_one_model_and_none_that_is_used(
    gpus: list[Gpu], wanted: int, production: set[str], held: set[int]
) -> None:
    owners = {f"GPU-{n}": "t/x" for n in held}
    found = choose(gpus, Wanted(wanted), production=production, held=owners)

    def is_free(one: Gpu) -> bool:
        used = one.processes or one.memory_used_bytes > SPARE_BYTES or one.unusable
        return not (used or one.uuid in owners or {one.uuid, str(one.index)} & production)

    if isinstance(found, NoRoom):
        for model in ("H100", "A100"):
            assert sum(one.name == model and is_free(one) for one in gpus) < wanted
        assert found.why
    else:
        assert len(set(found)) == wanted
        assert all(map(is_free, found))
        assert len({one.name for one in found}) <= 1


@pytest.mark.parametrize(
    ("gpus", "wanted", "said"),
    [
        ([gpu(0, processes=(7, 8))], Wanted(1), "GPU 0: process 7, 8 is on it"),
        ([gpu(0, memory_used_bytes=3 * GIB)], Wanted(1), "GPU 0: 3.0 GiB in use"),
        ([gpu(0, unusable="it is cut into instances (MIG)")], Wanted(1), "instances (MIG)"),
        ([gpu(0)], Wanted(2), "2 free GPUs wanted, 1 of 1 free"),
        ([gpu(0), gpu(1, name="A100")], Wanted(2), "2 free GPUs of one model wanted, 2 of 2 free"),
        ([], Wanted(1), "1 free GPU wanted, 0 of 0 free"),
        ([gpu(0)], Wanted(1, ("GPU-9",)), "there is no GPU GPU-9 here"),
        ([gpu(0, processes=(7,))], Wanted(1, ("0",)), "GPU 0: process 7 is on it"),
    ],
)
def test_who_gets_none_is_told_what_is_in_the_way(gpus: list[Gpu], wanted: Wanted, said: str) -> None:
    assert said in chosen(gpus, wanted)


def test_gpus_of_production_are_left_alone_though_nothing_runs_there() -> None:
    assert chosen([gpu(0), gpu(1)], Wanted(1), {"0"}) == [1]
    assert "GPU 1: production's" in chosen([gpu(1)], Wanted(1), {"GPU-1"})


def test_two_engines_of_ours_never_share_one() -> None:
    assert chosen([gpu(0), gpu(1)], Wanted(1), gpu0="t/control") == [1]
    assert "GPU 0: t/control's" in chosen([gpu(0)], Wanted(1), gpu0="t/control")


def test_an_arm_gets_the_model_that_its_experiment_has_already() -> None:
    there = [gpu(0), gpu(1), gpu(2, name="A100")]
    assert chosen(there, Wanted(1)) == [0]
    assert chosen(there, Wanted(1, liked=("A100",))) == [2]
    assert chosen(there, Wanted(2, liked=("A100",))) == [0, 1]  # better another one than none


def test_gpus_that_are_named_are_had_in_that_order_or_not_at_all() -> None:
    there = [gpu(n) for n in range(4)]
    assert chosen(there, Wanted(2, ("3", "GPU-1"))) == [3, 1]
    assert "GPU 1: t/x's" in chosen(there, Wanted(2, ("3", "GPU-1")), gpu1="t/x")
