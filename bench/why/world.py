"""An emulated engine under a scene, in virtual time, and what would be recorded of it.

Queue, batch, KV cache and preemptions are the emulator's own.  Its GPU is made up here: it runs kernels while
a step lasts, its tensor cores mostly with prompts, its memory mostly with single tokens.
"""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from analysis.why.engines import Reading
from bench.why.faults import Scene
from emulator.kv_cache import KvCache
from emulator.pace import Pace
from emulator.scheduler import Scheduler, Sequence

S: Final = 1_000_000_000
ARM: Final = "candidate"
_STALLS_NS: Final = 10 * S


class Run:
    """One scene for some seconds.  `looks` gives, each second, a reading of the engine and one of the GPU."""

    def __init__(self, scene: Scene, seed: int) -> None:
        params, self._scene = scene.params, scene
        self._rng = Random(seed)
        self._cache = KvCache(params.num_blocks, params.block_size, prefix_caching=False)
        self._scheduler: Scheduler[Sequence] = Scheduler(params, self._cache, Pace(params, Random(seed + 1)))
        self._pace = params
        self._coming: deque[tuple[int, Sequence]] = deque()  # on the way to the engine
        self._kept_out: list[Sequence] = []  # at the engine, and not let in
        self._asked_ns: dict[int, int] = {}  # of requests in flight, when they were sent
        self._going: deque[tuple[int, int]] = deque()  # answers on the way back: when they come, who
        self._done_ns = 0
        self._steps = self._computed = self._generated = 0
        self._next_ns = 0
        self._number = 0
        self._busy_ns = self._tensor_ns = self._memory_ns = 0.0

    def looks(self, seconds: int, warm_s: int = 20) -> Iterator[tuple[Reading, dict[str, Any]]]:
        """After `warm_s` for queues and cache to fill."""
        now_ns = 0
        look_ns = warm_s * S
        while look_ns <= (warm_s + seconds) * S:
            self._arrive(now_ns)
            duration_ns = self._step(now_ns)
            now_ns += duration_ns + int(self._scene.host_ms * 1e6) if duration_ns else S // 100
            while now_ns >= look_ns and look_ns <= (warm_s + seconds) * S:
                yield self._look(look_ns)
                look_ns += S

    def _arrive(self, now_ns: int) -> None:
        scene = self._scene
        while self._next_ns <= now_ns:
            prompt, output = self._rng.randint(*scene.prompt), self._rng.randint(*scene.output)
            lease = self._cache.lease(range(prompt + output), str(self._number))
            sequence = Sequence(lease, prompt, output, self._next_ns)
            self._asked_ns[id(sequence)] = self._next_ns
            self._coming.append((self._next_ns + int(scene.way_s * S), sequence))
            self._number += 1
            self._next_ns += int(self._rng.expovariate(scene.rate) * S) + 1
        while self._coming and self._coming[0][0] <= now_ns:
            self._kept_out.append(self._coming.popleft()[1])
        if now_ns % _STALLS_NS >= scene.stalled * _STALLS_NS:
            for sequence in self._kept_out:
                self._scheduler.add(sequence)
            self._kept_out.clear()
        while self._going and self._going[0][0] <= now_ns:
            came_ns, sent_ns = self._going.popleft()
            self._done_ns += came_ns - sent_ns

    def _step(self, now_ns: int) -> int:
        if not self._scheduler.has_work:
            return 0
        result = self._scheduler.step(now_ns)
        for sequence in result.finished:
            came_ns = now_ns + result.duration_ns + int(self._scene.way_s * S)
            self._going.append((came_ns, self._asked_ns.pop(id(sequence))))
        self._steps += result.batch > 0
        self._computed += result.prefill_tokens
        self._generated += len(result.emitted)
        prefill_ms = self._pace.ms_per_prefill_token * result.prefill_tokens
        single_ms = self._pace.base_ms + self._pace.ms_per_seq * result.batch
        share = prefill_ms / (prefill_ms + single_ms)
        self._busy_ns += result.duration_ns
        self._tensor_ns += result.duration_ns * (0.75 * share + 0.15 * (1.0 - share))
        self._memory_ns += result.duration_ns * (0.3 * share + 0.8 * (1.0 - share))
        return result.duration_ns

    def _look(self, at_ns: int) -> tuple[Reading, dict[str, Any]]:
        scheduler, scene, rng = self._scheduler, self._scene, self._rng
        flying = sum(at_ns - sent_ns for sent_ns in self._asked_ns.values())
        flying += sum(min(at_ns, came_ns) - sent_ns for came_ns, sent_ns in self._going)
        said = {
            "running": float(scheduler.running),
            "queued": float(scheduler.waiting + len(self._kept_out)),
            "kv_usage": 1.0 - self._cache.free_blocks / self._cache.num_blocks,
            "preemptions": float(scheduler.preemptions),
            "steps": float(self._steps),
            "computed_tokens": float(self._computed),
            "generated_tokens": float(self._generated),
        }
        late_ms = rng.uniform(60.0, 400.0) if rng.random() < scene.late else rng.expovariate(1.0)
        shares = [min(1.0, part / S) for part in (self._busy_ns, self._tensor_ns, self._memory_ns)]
        busy, tensor, memory = (min(1.0, max(0.0, share * rng.gauss(1.0, 0.05))) for share in shares)
        self._busy_ns = self._tensor_ns = self._memory_ns = 0.0
        gpu = {"uuid": "GPU-0", "utilisation": busy, "memory_busy": memory, "tensor_busy": tensor}
        return (
            Reading(ARM, at_ns, late_ms, self._done_ns + flying, "vllm", said),
            {"arm": ARM, "at_ns": at_ns, "source": "made up", "gpus": [gpu]},
        )
