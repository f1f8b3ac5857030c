"""What is known of links is found again, until more is learned than fits."""

from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.nodes import UNKNOWN, Nodes, Table
from routing.bridge.paths import Path
from tests.routing.bridge.test_paths import chain_of

links = st.integers(1, 2**64 - 1)


@given(st.dictionaries(links, st.integers(0, 2**32 - 1), max_size=400), st.sets(links, max_size=20))
def test_a_table_holds_what_was_put_and_nothing_else(put: dict[int, int], others: set[int]) -> None:
    table = Table()
    for link, tokens in put.items():
        table.put(link, 0, 0, UNKNOWN, tokens, 0)
    assert table.size == len(put)
    for link, tokens in put.items():
        assert table.tokens[table.find(link)] == tokens
    for link in others - put.keys():
        assert table.find(link) == -1


def put_all(nodes: Nodes, chain: list[int]) -> None:
    nodes.room()
    number = nodes.young.keep(Path(None, 0, chain_of([1])))
    for link in chain[nodes.known(chain) :]:
        nodes.young.put(link, number, 0, UNKNOWN, 1, 0)


@given(st.integers(1, 60), st.integers(0, 60))
def test_as_much_of_a_chain_is_known_as_was_put(length: int, put: int) -> None:
    chain, nodes = list(range(1, length + 1)), Nodes(1000)
    put_all(nodes, chain[:put])
    assert nodes.known(chain) == min(put, length)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=60))
def test_what_is_used_stays_and_all_is_bounded(uses: list[tuple[int, int]]) -> None:
    """One conversation is used between all others, which are more than fit."""
    nodes, hot = Nodes(40), [10**6 + i for i in range(4)]
    put_all(nodes, hot)
    for turn, (other, length) in enumerate(uses):
        put_all(nodes, [10_000 * (turn + 1) + 100 * other + i for i in range(length)])
        assert nodes.known(hot) == len(hot)
        assert len(nodes) <= 40 + 2 * 6


def test_what_was_not_used_for_long_is_forgotten() -> None:
    nodes = Nodes(8)
    put_all(nodes, [1, 2])
    for start in range(100, 1000, 100):
        put_all(nodes, [start + i for i in range(4)])
    assert nodes.known([1, 2]) == 0
    nodes.clear()
    assert not len(nodes)
