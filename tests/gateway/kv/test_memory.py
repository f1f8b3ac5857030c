"""The memory between the process that reads events and the workers: files that grow, loads that pass."""

from pathlib import Path
from random import Random

from gateway.fleets.fleet import Engine, Fleet
from gateway.kv.loads import FRESH_NS, look
from gateway.kv.memory import Tables, clear_board, create_board, open_board, open_known
from gateway.spec import EngineSpec, FleetSpec
from routing.events.board import Load, State
from routing.events.book import Book
from routing.index import PrefixIndex
from routing.policies import least_load
from routing.router import Router

RNG = Random(3)


def book(run_dir: Path) -> Book:
    board = open_board(run_dir)
    assert board is not None
    made = Book(board, Tables(run_dir).new, lambda: RNG.getrandbits(64))
    made.beat(1)
    return made


def test_a_table_that_grows_is_found_by_its_readers_and_the_past_ones_go(tmp_path: Path) -> None:
    create_board(tmp_path)
    writer, readers = book(tmp_path), [open_known(tmp_path), open_known(tmp_path)]
    marked = writer.open(5, 0)
    chain = [RNG.getrandbits(64) for _ in range(30_000)]
    for count in (1, 100, 10_000, 30_000):
        for name in chain[:count]:
            marked.add(name)
        marked.tell(State.EXACT, 16, 0, count)
        for reader in readers:
            assert reader is not None
            reader.look(2)
            assert reader.match(chain, 16) == {5: count}
    assert len(list(tmp_path.glob("kv-table-*.bin"))) <= 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("kv-*"))


def test_workers_forget_when_the_writer_is_gone_and_follow_the_next(tmp_path: Path) -> None:
    create_board(tmp_path)
    marked, reader = book(tmp_path).open(5, 0), open_known(tmp_path)
    assert reader is not None
    marked.add(7)
    marked.tell(State.EXACT, 16, 0, 1)
    reader.look(2)
    assert reader.match([7], 16) == {5: 1}
    clear_board(tmp_path)
    reader.look(2)
    assert reader.match([7], 16) == {} and reader.block_sizes() == {}
    marked = book(tmp_path).open(6, 0)
    marked.add(8)
    marked.tell(State.EXACT, 16, 0, 1)
    reader.look(2)
    assert reader.match([8], 16) == {6: 1} and reader.match([7], 16) == {6: 0}


def test_without_a_board_nothing_is_known(tmp_path: Path) -> None:
    assert open_known(tmp_path) is None and open_board(tmp_path) is None
    clear_board(tmp_path)


def test_what_engines_say_of_their_load_is_seen_by_routing_while_it_is_fresh(tmp_path: Path) -> None:
    create_board(tmp_path)
    writer, reader = book(tmp_path), open_known(tmp_path)
    assert reader is not None
    specs = (EngineSpec(0, "http://a:1"), EngineSpec(1, "http://b:1"))
    router = Router(least_load.build(least_load.Params()), PrefixIndex(), Random(1))
    engines = tuple(Engine(spec, up=True) for spec in specs)
    fleets = [Fleet(FleetSpec(None, (), True, specs), engines, router)]
    at_ns = 10 * FRESH_NS
    writer.beat(at_ns)
    marked = writer.open(1, 0)
    marked.tell(State.EXACT, 32, 0, 0)
    marked.say_load(Load(at_ns, 3, 2, 500, 2000, 40))
    look(reader, fleets, at_ns + 1)
    load = engines[1].load
    assert (load.running, load.queued, load.prefill_tokens) == (3, 2, 40)
    assert (load.kv_usage, load.kv_tokens, load.block_tokens) == (0.25, 2000, 32)
    assert engines[0].load.running is None
    look(reader, fleets, at_ns + 2 * FRESH_NS)
    assert (load.running, load.queued, load.kv_usage) == (None, None, None) and load.kv_tokens == 2000
