"""Fleets whose engines have roles: which are refused, in which words, and what workers are told of others."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.load import ConfigError, load
from gateway.processes.compose import compose
from gateway.processes.handover import to_json, worker_from_json
from gateway.spec import SplitSpec

P = {"url": "http://p:1", "role": "prefill"}
D = {"url": "http://d:1", "role": "decode"}
B = {"url": "http://b:1"}
SGLANG = {"kind": "sglang"}
NEEDED = "too, or no roles: a prompt's KV needs both ends, found"

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "only prefill": (
        {"engines": [P]},
        f"fleets[0].engines: expected an engine with role decode {NEEDED} role prefill only",
    ),
    "only decode": (
        {"engines": [D]},
        f"fleets[0].engines: expected an engine with role prefill {NEEDED} role decode only",
    ),
    "an SGLang engine without a role is no half of a pair": (
        {"engines": [{**P, **SGLANG}, {**B, **SGLANG}]},
        f"fleets[0].engines: expected an engine with role decode {NEEDED} role prefill only",
    ),
    "engines that cannot hand over": (
        {"engines": [P, {**D, "kind": "llamacpp"}]},
        'fleets[0].engines[1].kind: expected vllm or sglang, where engines have roles, found "llamacpp"',
    ),
    "engines that do not understand one another": (
        {"engines": [{**P, "kind": "vllm"}, {**D, **SGLANG}]},
        "fleets[0].engines[1].kind: expected vllm, as the fleet hands over KV its way, "
        'where engines have roles, found "sglang"',
    ),
    "a split of nobody": (
        {"engines": [B], "split": {"min_bytes": 10}},
        "fleets[0].split: expected engines with role prefill and decode, or no split, "
        "found no engine with a role",
    ),
    "short prompts that nobody takes": (
        {"engines": [P, D], "split": {"style": "sglang", "min_bytes": 10}},
        "fleets[0].split.min_bytes: expected 0, or an engine with role both: SGLang's decode engines take "
        "no prompt whole, found 10",
    ),
    "places at an engine": (
        {"engines": [P, {**D, "concurrency": 5}]},
        "fleets[0].engines[1].concurrency: expected nothing where engines have roles: set the fleet's "
        "concurrency, found 5",
    ),
    "places at each engine": (
        {"engines": [P, D], "engine_concurrency": 5},
        "fleets[0].engine_concurrency: expected nothing where engines have roles: set the fleet's "
        "concurrency, found 5",
    ),
    "a role that is none": (
        {"engines": [{**P, "role": "prefil"}]},
        'fleets[0].engines[0].role: expected one of prefill, decode, both, found "prefil"; '
        "did you mean prefill?",
    ),
}


def loaded(tmp_path: Path, fleet: dict[str, Any]) -> Any:
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump({"fleets": [fleet]}))
    return load(file, {}, {})


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_split_is_refused_with_file_key_and_remedy(tmp_path: Path, name: str) -> None:
    fleet, text = REFUSED[name]
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, fleet)
    said = str(refused.value).replace(f"{tmp_path}/", "")
    assert said.startswith("a.yaml:")
    assert said.partition(": ")[2] == text


TAKEN: dict[str, tuple[dict[str, Any], SplitSpec | None]] = {
    "no roles": ({"engines": [B]}, None),
    "both halves": ({"engines": [P, D]}, SplitSpec()),
    "one that does both beside one that decodes": ({"engines": [D, B]}, SplitSpec()),
    "halves that are found": ({"engines": [P], "discover": {"file": "x", "role": "decode"}}, SplitSpec()),
    "all settings": (
        {
            "engines": [{**P, "bootstrap_port": 9000}, D, B],
            "split": {"style": "sglang", "min_bytes": 5, "decode": {"name": "round_robin"}},
        },
        SplitSpec("sglang", 5, "round_robin"),
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_workers_are_told_of_roles_where_there_are_some(tmp_path: Path, name: str) -> None:
    fleet, split = TAKEN[name]
    told = compose(loaded(tmp_path, fleet), secret=bytes(32), run_dir="r", version="v")
    spec = worker_from_json(to_json(told.workers[0])).fleets[0]
    assert spec.split == split
    given = [one for one in fleet["engines"] if isinstance(one, dict)]
    assert [engine.role for engine in spec.engines] == [one.get("role", "both") for one in given]
    assert [engine.bootstrap_port for engine in spec.engines] == [
        one.get("bootstrap_port", 8998) for one in given
    ]
