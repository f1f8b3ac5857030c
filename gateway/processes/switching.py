"""How is a pause carried to the processes that copy?  The supervisor's part: it hears, remembers and tells.

It is with the supervisor because that lives while any worker does: a pause needs neither the shadow process
nor, when a brake or the configuration asks for it, the analysis.  A process is told in its channel, before
its first instruction or within milliseconds, and says when it has obeyed.  No method waits; instants are
monotonic nanoseconds.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from config.schema import Config
from gateway.processes.children import Child, Stage
from gateway.processes.conductor import Staff
from gateway.processes.experiments import brakes_of
from gateway.processes.rollout import ANALYSIS, LAUNCH
from mirror.brakes import Trip
from mirror.switch import Setting, Switch
from mirror.switched import told

KINDS: Final = frozenset({"pause", "resume", "tripped", "switched"})
FILE: Final = ".paused"  # no experiment can be called so
_OBEYS: Final = (Stage.WORKER, Stage.SHADOW)
_ANSWERS: Final = 32


class Switching:
    """One deployment's pauses.  Those by hand are kept in `file`, so that a restart does not end them."""

    def __init__(self, file: Path, log: Any) -> None:
        self._file = file
        self._log = log
        self._switch = Switch()
        self._config: Config | None = None
        self._staff: Staff | None = None
        self._living: dict[str, Stage] = {}
        self._number = 0
        self._paused: frozenset[str] = frozenset()
        self._halted: frozenset[str] = frozenset()  # whose launched engines are ended meanwhile
        self._obeyed: dict[str, int] = {}  # the last word each process has obeyed
        self._unsent: set[str] = set()
        self._answers: dict[str, dict[str, Any]] = {}  # to who asked: what came of it

    def conduct(self, staff: Staff) -> None:
        """Tell these processes from now on."""
        self._staff = staff

    def remember(self, now_ns: int) -> None:
        """Read which experiments were paused by hand when the gateway last ran."""
        try:
            found = json.loads(self._file.read_text())
            halted = found.get("halted", ())
            for name, why in found["paused"].items():
                self._switch.pause(str(name), now_ns, str(why), halts=name in halted)
            self._halted = self._switch.halted
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._log.error(
                "which experiments are paused cannot be read", file=str(self._file), why=str(error)
            )

    def configure(self, config: Config, now_ns: int) -> None:
        """This configuration is the newest; nothing is done when it is the one before."""
        if config is self._config:
            return
        self._config = config
        settings = {one.name: Setting(one.paused, brakes_of(one)) for one in config.experiments}
        self._switch.configure(settings, now_ns)
        self._changed()

    def greeting(self, child: Child) -> list[tuple[str, bytes]]:
        """What a process is to hear before all else."""
        if child.name == LAUNCH:
            return [("halted", self._halted_told())]
        return [("switch", told(self._number, self._paused))] if child.stage in _OBEYS else []

    def started(self, child: Child) -> None:
        """A process lives, and was greeted."""
        self._living[child.name] = child.stage
        if child.name == ANALYSIS:
            self._tell_state()

    def died(self, child: Child) -> None:
        """A process is gone."""
        self._living.pop(child.name, None)
        self._obeyed.pop(child.name, None)
        self._unsent.discard(child.name)
        self._tell_state()

    def heard(self, child: str, kind: str, body: bytes, now_ns: int) -> None:
        """A child said one of KINDS."""
        said = json.loads(body)
        if kind == "switched":
            self._obeyed[child] = int(said["number"])
            self._tell_state()
        elif kind == "tripped":
            self._tripped(child, str(said["experiment"]), Trip(**said["trip"]), now_ns)
        else:
            self._asked(kind, said, now_ns)

    def look(self, now_ns: int) -> None:
        """Let go what was held long enough; call it now and then."""
        for name in self._switch.look(now_ns):
            self._log.info(
                "experiment goes on: what paused it has not been seen for a while", experiment=name
            )
        self._changed()
        if self._staff is not None:
            for name in list(self._unsent):
                if self._tell(name):
                    self._unsent.discard(name)
            self._tell_halted()

    def due_in_s(self, now_ns: int) -> float | None:
        """Seconds until `look` has something; None: only when somebody says something."""
        due_ns = self._switch.due_ns()
        return None if due_ns is None else max(0.0, (due_ns - now_ns) / 1e9)

    def _tripped(self, child: str, name: str, trip: Trip, now_ns: int) -> None:
        if self._switch.trip(name, trip, now_ns):
            pause = self._switch.paused[name]
            self._log.warning(
                "experiment pauses itself",
                experiment=name,
                said_by=child,
                reason=trip.reason,
                detail=trip.detail,
                remedy=trip.remedy,
                resumes_in_s=None if pause.until_ns is None else round((pause.until_ns - now_ns) / 1e9),
            )
        self._changed(also_if=True)

    def _asked(self, kind: str, said: Mapping[str, Any], now_ns: int) -> None:
        names = [str(name) for name in said["names"]] if said["names"] else list(self._switch.settings)
        answer: dict[str, Any] = {"names": names, "error": None, "code": None}
        if unknown := self._switch.unknown(names):
            there = ", ".join(self._switch.settings) or "none"
            answer["error"] = f"no such experiment: {', '.join(unknown)}; there are: {there}"
            answer["code"] = "experiment_not_found"
        else:
            for name in names:
                if kind == "pause":
                    halts = said.get("stop_engines") is True
                    self._switch.pause(name, now_ns, str(said.get("why") or ""), halts=halts)
                else:
                    self._switch.resume(name, now_ns)
            self._log.warning(f"experiments {kind}d by hand", experiments=names)
            self._write()
            fixed = [name for name in names if name in self._switch.paused] if kind == "resume" else []
            if fixed:
                answer["error"] = f"{', '.join(fixed)}: " + self._switch.paused[fixed[0]].remedy
                answer["code"] = "paused_by_config"
        self._answers = dict([*self._answers.items(), (str(said["token"]), answer)][-_ANSWERS:])
        self._changed(also_if=True)

    def _changed(self, *, also_if: bool = False) -> None:
        """Tell everybody who must obey, if anybody must do something else than before."""
        self._tell_halted()
        paused = frozenset(self._switch.paused)
        if paused != self._paused:
            self._paused = paused
            self._number += 1
            for name, stage in self._living.items():
                if stage in _OBEYS and not self._tell(name):
                    self._unsent.add(name)
        elif not also_if:
            return
        self._tell_state()

    def _tell(self, name: str) -> bool:
        return self._staff is not None and self._staff.tell(name, "switch", told(self._number, self._paused))

    def _tell_halted(self) -> None:
        """Have the launching process end engines, or start them again; it is told until it hears."""
        if self._halted != self._switch.halted and self._staff is not None:
            before, self._halted = self._halted, self._switch.halted
            if LAUNCH in self._living and not self._staff.tell(LAUNCH, "halted", self._halted_told()):
                self._halted = before

    def _halted_told(self) -> bytes:
        return json.dumps(sorted(self._halted)).encode()

    @property
    def _behind(self) -> list[str]:
        """Who has not said yet that it obeys."""
        return sorted(
            name
            for name, stage in self._living.items()
            if stage in _OBEYS and self._obeyed.get(name, 0) < self._number
        )

    def _tell_state(self) -> None:
        if self._staff is None:
            return
        trips: dict[str, dict[str, int]] = {}
        for (name, reason), n in self._switch.trips.items():
            trips.setdefault(name, {})[reason] = n
        pauses = {
            name: {
                "reason": pause.reason,
                "detail": pause.detail,
                "remedy": pause.remedy,
                "since_ns": pause.since_ns,
                "until_ns": pause.until_ns,
                "halts": pause.halts,
            }
            for name, pause in self._switch.paused.items()
        }
        state = {"paused": pauses, "trips": trips, "behind": self._behind, "answers": self._answers}
        self._staff.tell(ANALYSIS, "switches", json.dumps(state).encode())

    def _write(self) -> None:
        """Keep the pauses by hand; one that cannot be kept holds all the same, until the gateway ends."""
        half = self._file.with_name(f".{self._file.name}.half")
        try:
            half.write_text(
                json.dumps({"paused": self._switch.by_hand, "halted": sorted(self._switch.halted)})
            )
            os.replace(half, self._file)
        except OSError as error:
            self._log.error(
                "pauses by hand cannot be written down: they end with this run",
                file=str(self._file),
                why=error.strerror,
            )
