"""What does `shadowlane check` say?  Every engine and arm of a config asked, and what is missing at each."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TextIO

from analysis.embedder import Embedder, NoVectors
from analysis.scrub import trial
from config.schema import Arm, Candidate, Config, Engine, Experiment
from config.tls import EngineTls
from gateway.discovery import spec as discovery
from gateway.fleets.detect import Engine as Found
from gateway.fleets.detect import describe, kind_of
from gateway.fleets.probe import Heard, Place, ask_all
from gateway.launch.composed import gpus_wanted
from gateway.launch.nvml import Nvml
from gateway.launch.reading import Hardware, NoHardware
from gateway.processes.amplified import complaints
from gateway.processes.embedders import embedders_of
from gateway.processes.tls import engine_tls, listen_tls
from gateway.recording.unrecorded import unrecorded
from wire.plain import plain
from wire.tls import BadTls, server_context

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One engine of the config: its role, whom to ask, what the config says of it.

    `models` are the names requests may come with, `model` the one the engine is sent instead; `loras` are
    those of adapters, which are sent as they come.
    `is_asked_as_us`: it never sees a client's own key.
    """

    role: str
    place: Place
    kind: str
    model: str | None
    models: tuple[str, ...]
    is_asked_as_us: bool
    half: str = "both"  # prefill or decode, where engines have roles
    bootstrap_port: int | None = None
    loras: tuple[str, ...] = ()


def check(
    config: Config, out: TextIO | None = None, *, timeout_s: float = _TIMEOUT_S, source: str = "settings"
) -> int:
    """Ask every engine, print a paragraph for each, and give the exit status.

    0 when all can be reached, 1 when one cannot, refuses the key it is asked with or does not serve the model
    it is asked for, a server of embeddings gives none, or a command cannot be run, 2 when clients' TLS cannot
    be served, a recording to be replayed is not there, or an experiment of the configuration (which is from
    `source`) would be unfair to an arm of its kind.
    """
    stream = sys.stdout if out is None else out
    try:
        if (shown := listen_tls(config.tls)) is not None:
            server_context(shown)
    except BadTls as error:
        stream.write(f"tls: {error}\n")
        return 2
    if unheard := list(unrecorded(config)):
        stream.write("\n".join(unheard) + "\n")
        return 2
    asked = list(everyone(config))
    heard = ask_all([one.place for one in asked], timeout_s)
    for one, answer in zip(asked, heard, strict=True):
        stream.write(plain("\n".join(paragraph(one, answer))) + "\n\n")
    for looked in discovery.sources(config).sources:
        stream.write(f"engines of {looked.told}  (fleet {looked.fleet})\n")
        stream.write("  not asked: they are looked up when the gateway runs\n\n")
    unusable = 0
    for said, why in (*launched(config), *embedding(config, timeout_s), *redacting(config)):
        stream.write(plain(f"{said}\n"))
        unusable += why is not None
    unreached = sum(answer.error is not None for answer in heard)
    refusing = sum(refuses(one, answer) for one, answer in zip(asked, heard, strict=True))
    lacking = sum(bool(unserved(one, answer)) for one, answer in zip(asked, heard, strict=True))
    engines = f"{len(asked)} engine{'s' if len(asked) != 1 else ''}"
    if not asked:
        stream.write("no engine to ask: all are looked up\n")
    else:
        said = f"{unreached} not reachable" if unreached else "all reachable"
        said += f", {refusing} of them refusing the api_key" if refusing else ""
        said += f", {lacking} of them not serving the model" if lacking else ""
        stream.write(f"{engines}: {said}\n")
    kinds = {
        one.place.url: kind_of(answer.answers)
        for one, answer in zip(asked, heard, strict=True)
        if answer.error is None
    }
    if unfair := list(complaints(config, kinds, source)):
        stream.write(plain("\n".join(map(str, unfair))) + "\n")
        return 2
    return 1 if unreached or refusing or lacking or unusable else 0


def refuses(asked: Asked, heard: Heard) -> bool:
    """Whether it will turn requests away for the key they come with, or for want of one.

    Without an `api_key` clients' own keys reach production, and are between them and the engine.
    """
    status, _body = heard.answers.get(_MODELS, (0, ""))
    return status in _REFUSED and asked.is_asked_as_us


def unserved(asked: Asked, heard: Heard) -> list[str]:
    """The models that it will be asked for and answers with an error, as it serves others.

    What lists none may serve any, and some answer whatever they are asked for.
    """
    if heard.error is not None:
        return []
    found = describe(heard.answers)
    return [] if found.kind in _SERVES_ANY_NAME else _absent(asked, found)


def _absent(asked: Asked, found: Found) -> list[str]:
    wanted = (asked.model,) if asked.model is not None else asked.models
    return [name for name in wanted if found.models and name not in found.models]


def everyone(config: Config) -> Iterator[Asked]:
    """Every engine and arm of `config`, production first."""
    for fleet in config.fleets:
        names = () if fleet.model is None else (fleet.model,)
        for engine in fleet.engines:
            role = f"fleet {fleet.model or '(any model)'}"
            place = _place(engine.url, engine, engine.tls or fleet.tls)
            ours = bool(config.keys) or engine.api_key is not None
            role += "" if engine.role == "both" else f", {engine.role}"
            port = engine.bootstrap_port if engine.role == "prefill" else None
            yield Asked(role, place, engine.kind, engine.model, names, ours, engine.role, port, fleet.loras)
    for experiment in config.experiments:
        fleet = config.fleet_of(experiment)
        names = () if fleet.model is None else (fleet.model,)
        for role, arm in _arms(experiment):
            if arm.launch is None:
                yield Asked(role, _place(arm.engine, arm, arm.tls), "auto", arm.model, names, True)


def launched(
    config: Config, open_hardware: Callable[[], Hardware] = Nvml
) -> Iterator[tuple[str, str | None]]:
    """A paragraph on each engine that is to be launched, and why its command cannot be run, if so.

    That no GPU is here is said, and no failure: the gateway may run elsewhere, and waits for one.
    """
    found_none = ""
    for experiment in config.experiments:
        for role, arm in _arms(experiment):
            if arm.launch is None:
                continue
            program = arm.launch.command[0]
            found = shutil.which(program, path=arm.launch.env.get("PATH"))
            why = None if found is not None else f"there is no program {program} to be run here"
            said = (
                f"  not reachable: {why}" if why else f"  not asked: {found} is started when the gateway runs"
            )
            if gpus_wanted(arm):
                found_none = found_none or _no_gpu(open_hardware)
                said += f"\n  missing: {found_none}; gpus: 0 starts it without" if found_none else ""
            yield f"launched  ({role})\n{said}\n", why


def _no_gpu(open_hardware: Callable[[], Hardware]) -> str:
    try:
        open_hardware()
    except NoHardware as error:
        return f"a GPU here: {error}"
    return ""


def embedding(config: Config, timeout_s: float) -> Iterator[tuple[str, str | None]]:
    """A paragraph on each server of embeddings, asked of two words of ours, and why it gives none, if so."""
    for spec in embedders_of(config):
        asked = Embedder(replace(spec, timeout_s=min(spec.timeout_s, timeout_s)))
        try:
            found = asked.vectors(("one", "two"))
            said, why = f"reachable: {spec.model} gives {len(found['one'])} numbers a text", None
        except NoVectors as error:
            why = str(error)
            said = f"no embeddings of {spec.model}: {why}"
        finally:
            asked.close()
        yield f"{spec.url}  ({spec.experiment}: similarity)\n  {said}\n", why


def redacting(config: Config) -> Iterator[tuple[str, str | None]]:
    """A paragraph on each command that redacts, tried with a text of ours, and why it cannot be, if so."""
    places = [(f"experiment {one.name}", one.redact_command) for one in config.experiments if one.text_bytes]
    if config.record.to is not None and config.record.text:
        places.append(("record", config.record.redact_command))
    for place, command in places:
        if not command:
            continue
        why = asyncio.run(trial(command))
        said = "answers" if why is None else f"not usable: {why}; without it no text is kept"
        yield f"{command[0]}  ({place}: redact_command)\n  {said}\n", why


def _arms(experiment: Experiment) -> Iterator[tuple[str, Arm]]:
    for name, _place, arm in experiment.arms:
        candidate = "candidate " if isinstance(arm, Candidate) else ""
        yield f"{experiment.name}: {candidate}{name}", arm


def paragraph(asked: Asked, heard: Heard) -> list[str]:
    """The lines on one engine."""
    lines = [f"{asked.place.url}  ({asked.role})"]
    if heard.error is not None:
        return [*lines, f"  not reachable: {heard.error}"]
    found = describe(heard.answers)
    lines.append(f"  reachable: {found.kind} {found.version or '(it tells no version)'}")
    length = "" if found.max_model_len is None else f", context {found.max_model_len} tokens"
    lines.append(f"  models: {', '.join(found.models) or 'none listed'}{length}")
    caching = {True: "on", False: "OFF", None: "not told"}[found.prefix_caching]
    lines.append(f"  prefix caching: {caching}; cached tokens: {found.cached_tokens or 'not told'}")
    lines.append(f"  KV events: {found.kv_events or 'none'}; metrics: {'yes' if found.metrics else 'no'}")
    if lacking := unserved(asked, heard):
        there = ", ".join(found.models)
        lines.append(f"  not served: model {', '.join(lacking)}: set model to what it serves ({there})")
    return lines + [f"  missing: {what}" for what in missing(asked, heard, found)]


def missing(asked: Asked, heard: Heard, found: Found) -> Iterator[str]:
    """What keeps Shadowlane from its best at this engine, each with what to do."""
    statuses = {status for status, _body in heard.answers.values()}
    if not _REFUSED.isdisjoint(statuses):
        keyless = asked.place.api_key is None
        yield "a key: set api_key" if keyless else "a valid api_key: it refused this one"
    if asked.kind not in ("auto", found.kind):
        yield f"agreement: the config says {asked.kind}, it looks like {found.kind}"
    if found.half not in (None, asked.half):
        yield f"agreement: its role here is {asked.half}, and it was started for {found.half}"
    elif asked.bootstrap_port not in (None, found.bootstrap_port) and found.bootstrap_port is not None:
        yield f"agreement: bootstrap_port is {asked.bootstrap_port} here, and {found.bootstrap_port} there"
    if (absent := _absent(asked, found)) and found.kind in _SERVES_ANY_NAME:
        yield f"the name {', '.join(absent)}: it is {', '.join(found.models)} there, and answers all the same"
    if unloaded := [name for name in asked.loras if found.models and name not in found.models]:
        yield f"adapter {', '.join(unloaded)}: load it there, or requests for it fail"
    if not found.models:
        names = ", ".join((asked.model,) if asked.model is not None else asked.models)
        unknown = f", so whether it serves {names} is not known" if names else ""
        yield f"a list of models: GET {_MODELS} gave none{unknown}"
    if found.prefix_caching is False:
        flag = "--enable-prefix-caching" if found.kind == "vllm" else "a start without --disable-radix-cache"
        yield f"prefix caching, without which prefix-aware routing cannot help: {flag}"
    if found.cached_tokens is None and found.kind in _CACHED_TOKENS_FLAG:
        yield f"cached token counts in responses: {_CACHED_TOKENS_FLAG[found.kind]}"
    if not found.metrics:
        flag = {"sglang": ": --enable-metrics", "llamacpp": ": --metrics"}.get(found.kind, "")
        yield f"metrics{flag}"


_MODELS = "/v1/models"
_REFUSED = frozenset({401, 403})
_SERVES_ANY_NAME = frozenset({"sglang", "llamacpp"})  # both answer 200, whatever model they are asked for
_CACHED_TOKENS_FLAG = {"vllm": "--enable-prompt-tokens-details", "sglang": "--enable-cache-report"}


def _place(url: str, keeper: Engine | Arm, tls: EngineTls | None) -> Place:
    key = None if keeper.api_key is None else keeper.api_key.get_secret_value()
    return Place(url, key, engine_tls(tls))
