"""Token ids asked for along with requests to real vLLM: learned from, and no client sees them."""

import json
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.servers import HERE, free_port, started, vllm
from tests.e2e.test_foretold import flags

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

LEARN = {"tokenize": False, "copies": False, "ask_production": True}


def posted(url: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        whole: bytes = answer.read()
        return whole


def compared(answer: bytes) -> list[Any]:
    """Which fields there are, the text, how many tokens: how they are cut into events is chance."""
    events = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith(b"data: {")]
    text = "".join(one["choices"][0]["delta"].get("content") or "" for one in events if one["choices"])
    names = {name for one in events for name in one}
    names |= {f"choice {name}" for one in events if one["choices"] for name in one["choices"][0]}
    ids = [one.get("prompt_token_ids") for one in events]
    ids += [one["choices"][0].get("token_ids") for one in events if one["choices"]]
    return [sorted(names), text, events[-1]["usage"]["completion_tokens"], set(map(str, ids))]


def figure(admin: str, name: str) -> float:
    with urllib.request.urlopen(admin + "/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(n) for n in re.findall(rf"^shadowlane_{name}(?:_total)?\{{.*\}} (\S+)$", text, re.M))


def test_production_teaches_by_its_own_ids_and_clients_see_what_they_would_have_seen(tmp_path: Path) -> None:
    port, admin_port = free_port(), free_port()
    said: list[dict[str, str]] = [{"role": "system", "content": "Ships wait for the tide. " * 30}]
    with vllm(tmp_path, *flags()) as engine:
        settings = {
            "listen": f"127.0.0.1:{port}",
            "admin": f"127.0.0.1:{admin_port}",
            "state_dir": str(tmp_path / "state"),
            "fleets": [{"model": "tiny", "engines": [engine], "learn": LEARN}],
        }
        (tmp_path / "a.yaml").write_text(json.dumps(settings))
        admin, url = f"http://127.0.0.1:{admin_port}", f"http://127.0.0.1:{port}"
        serve = [sys.executable, "-P", "-m", "gateway.cli", "serve", "-c", str(tmp_path / "a.yaml")]
        env = {"PYTHONPATH": str(HERE.parents[1])}
        with started(serve, env, tmp_path / "s.log", admin + "/readyz", 180):
            deadline_s = time.monotonic() + 120
            for turn in range(100):
                said.append({"role": "user", "content": f"Turn {turn}: " + "where do they lie? " * 15})
                body = {"model": "tiny", "messages": said, "max_tokens": 4, "temperature": 0, "stream": True}
                body["stream_options"] = {"include_usage": True}
                before = figure(admin, "learned_prompts")
                ours, theirs = posted(url, body), posted(engine, body)
                assert compared(ours) == compared(theirs) and compared(ours)[3] == {"None"}
                said.append({"role": "assistant", "content": f"At berth {turn}. " * 10})
                if figure(admin, "learned_prompts") > 3 or time.monotonic() > deadline_s:
                    break
                until_s = (
                    time.monotonic() + 5
                )  # the first prompts come before it is known how large blocks are
                while figure(admin, "learned_prompts") <= before and time.monotonic() < until_s:
                    time.sleep(0.2)
                said = said[:1] if len(said) > 12 else said
            assert figure(admin, "learned_prompts") > 3
            assert figure(admin, "foretold_error") > 0
