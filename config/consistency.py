"""Which settings contradict each other: names used twice, fleets not there, engines with two roles."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from config.address import identity
from config.complaint import Complaint, Path, nearest, one_of, shown, spelled
from config.launching import LOCAL
from config.launching import complaints as launching
from config.roles import complaints as roles

if TYPE_CHECKING:
    from config.address import Address
    from config.admission import Rates
    from config.record import Record
    from config.schema import Config, Discover, Experiment, Fleet


_DAY_S = 86_400


def complaints(config: "Config") -> list[Complaint]:
    """Every contradiction, with the path of the later of two settings.  `source` is left to the loader."""
    return [
        *_listens(config),
        *_models(config),
        *_defaults(config),
        *_engines(config),
        *roles(config),
        *_learned(config),
        *_experiments(config),
        *launching(config),
        *_races(config),
        *_texts(config),
        *_similarity(config),
        *_prices(config),
        *_bytes(config),
        *_keys(config),
        *_rooms(config),
    ]


def fleet_of(config: "Config", experiment: "Experiment") -> "Fleet | None":
    """The fleet an experiment copies: by model or alias; without a name, the only or the default one."""
    if experiment.fleet is not None:
        return next((f for f in config.fleets if experiment.fleet in (f.model, *f.aliases)), None)
    if len(config.fleets) == 1:
        return config.fleets[0]
    return next((fleet for fleet in config.fleets if fleet.default), None)


def _learned(config: "Config") -> Iterator[Complaint]:
    for i, fleet in enumerate(config.fleets):
        path: Path = ("fleets", i, "learn", "ask_production")
        if not fleet.learn.ask_production:
            continue
        if fleet.kv_events.read == "off":
            yield Complaint("", path, "false, or kv_events that are read: else nothing is learned", "true")
        elif any(engine.role != "both" for engine in fleet.engines):
            yield Complaint("", path, "false where engines have roles: their requests are split", "true")


def _listens(config: "Config") -> Iterator[Complaint]:
    if config.listen == config.admin and config.listen_address.port != 0:
        yield Complaint("", ("admin",), "another address than listen", shown(config.admin))


def _twice(names: Iterable[tuple[str, Path]], what: str) -> Iterator[Complaint]:
    seen: dict[str, Path] = {}
    for name, path in names:
        if name in seen:
            yield Complaint("", path, f"{what} used once", f"{shown(name)}, as at {spelled(seen[name])}")
        else:
            seen[name] = path


def _models(config: "Config") -> Iterator[Complaint]:
    def names() -> Iterator[tuple[str, Path]]:
        for i, fleet in enumerate(config.fleets):
            if fleet.model is not None:
                yield fleet.model, ("fleets", i, "model")
            for key in ("aliases", "loras"):
                for j, name in enumerate(getattr(fleet, key)):
                    yield name, ("fleets", i, key, j)

    return _twice(names(), "a model's name")


def _defaults(config: "Config") -> Iterator[Complaint]:
    first: int | None = None
    for i, fleet in enumerate(config.fleets):
        key = "model" if fleet.model is None else "default"
        if fleet.model is None and not fleet.default:
            expected = "true, or a model: a fleet without a model takes every model"
            yield Complaint("", ("fleets", i, "default"), expected, "false")
        elif fleet.default and first is not None:
            expected = "one default fleet (a fleet without a model is one)"
            yield Complaint("", ("fleets", i, key), expected, f"a second, after fleets[{first}]")
        elif fleet.default:
            first = i


def _engines(config: "Config") -> Iterator[Complaint]:
    for i, fleet in enumerate(config.fleets):
        if not fleet.engines and fleet.discover is None:
            yield Complaint("", ("fleets", i, "engines"), "at least one of them, or discover", shown(()))
        if fleet.discover is not None:
            yield from _sources(fleet.discover, ("fleets", i, "discover"))
        seen: dict[tuple[str, str, int, str], int] = {}
        for j, engine in enumerate(fleet.engines):
            if engine.tls is not None and not engine.url.startswith("https:"):
                path: Path = ("fleets", i, "engines", j, "tls")
                yield Complaint("", path, "tls only with a url that begins with https://", shown(engine.url))
            first = seen.setdefault(identity(engine.url), j)
            if first != j:
                path = ("fleets", i, "engines", j, "url")
                yield Complaint(
                    "", path, "each engine of a fleet once", f"fleets[{i}].engines[{first}] again"
                )


def _sources(discover: "Discover", at: Path) -> Iterator[Complaint]:
    given = [name for name in ("dns", "file", "kubernetes") if getattr(discover, name) is not None]
    if len(given) != 1:
        yield Complaint("", at, "one of dns, file, kubernetes", " and ".join(given) or "none of them")
    dns = discover.dns
    if dns is not None and (dns.port is None) != (dns.record == "srv"):
        expected = "none, as SRV records bring it" if dns.record == "srv" else "the engines' port"
        yield Complaint("", (*at, "dns", "port"), expected, shown(dns.port))


def _experiments(config: "Config") -> Iterator[Complaint]:
    production = {identity(e.url): i for i, fleet in enumerate(config.fleets) for e in fleet.engines}
    # Names are folders, and some file systems do not tell `A` from `a`.
    yield from _twice(
        ((e.name.lower(), ("experiments", i, "name")) for i, e in enumerate(config.experiments)), "a name"
    )
    for i, experiment in enumerate(config.experiments):
        at: Path = ("experiments", i)
        if fleet_of(config, experiment) is None:
            yield _no_fleet(config, experiment, (*at, "fleet"))
        names = (
            (c.name.lower(), (*at, "candidates", j, "name")) for j, c in enumerate(experiment.candidates)
        )
        yield from _twice(names, "a candidate's name")
        yield from _replay(experiment, at)
        for key in ("forced_pairs", "scored_pairs"):
            if experiment.mode != "live" and (pairs := getattr(experiment, key)):
                expected = "0, or mode: live: arms that take turns cannot have the same tokens at one moment"
                yield Complaint("", (*at, key), expected, shown(pairs))
        if experiment.mode != "live" and experiment.warm_up_s >= experiment.turns.slot_s:
            expected = (
                f"less than turns.slot_s ({experiment.turns.slot_s:g}): each slot warms up, and counts after"
            )
            yield Complaint("", (*at, "warm_up_s"), expected, shown(experiment.warm_up_s))
        if experiment.control.twin is not None and experiment.mode != "live":
            expected = "nothing: where arms take turns the control has the candidates' slots, too"
            yield Complaint("", (*at, "control", "twin"), expected, "a second engine")
        seen: dict[tuple[str, str, int, str], Path] = {}
        for _name, place, arm in experiment.arms:
            path = (*at, *place, "engine")
            if not arm.engine:  # it is launched
                continue
            engine = identity(arm.engine)
            if engine in production:
                expected = "a spare engine: copies must not load production"
                yield Complaint("", path, expected, f"an engine of fleets[{production[engine]}]")
            elif engine in seen and (experiment.mode == "live" or not experiment.turns.switch):
                expected = "an engine of its own for each arm: two on one would slow each other"
                yield Complaint("", path, expected, f"that of {spelled(seen[engine])}")
            seen.setdefault(engine, path)


def _races(config: "Config") -> Iterator[Complaint]:
    for i, experiment in enumerate(config.experiments):
        if experiment.race is not None and len(experiment.candidates) < 2:
            yield Complaint("", ("experiments", i, "race"), "two candidates at least", "one")
        elif experiment.race is not None and not (experiment.race.beaten or experiment.race.first_rung):
            expected = "beaten: true, or a first_rung: else no candidate ever leaves"
            yield Complaint("", ("experiments", i, "race"), expected, "neither")


def _texts(config: "Config") -> Iterator[Complaint]:
    """What is to become of texts that nobody keeps: whoever wrote it believes that they are kept.

    Not where it is written that none are: settings may stand ready.
    """
    holders: list[tuple[Path, Experiment | Record, str]] = [
        (("experiments", i), one, "text_bytes") for i, one in enumerate(config.experiments)
    ]
    if config.record.to is not None:
        holders.append((("record",), config.record, "text"))
    for at, holder, key in holders:
        if key in holder.model_fields_set:
            continue
        for name in ("text_keep_s", "redact", "redact_command"):
            if name in holder.model_fields_set:
                yield Complaint("", (*at, name), f"{key} beside it: without it no text is kept", "none")


def _similarity(config: "Config") -> Iterator[Complaint]:
    taken: dict[tuple[str, str, int, str], tuple[str, str]] = {}
    for i, experiment in enumerate(config.experiments):
        for _name, place, arm in experiment.arms:
            if arm.engine:
                expected = "a server of its own: what is asked of an arm's engine loads that arm alone"
                found = f"that of {spelled(('experiments', i, *place, 'engine'))}"
                taken.setdefault(identity(arm.engine), (expected, found))
    expected = "a server that serves no production traffic, for each pair is a request to it"
    for i, fleet in enumerate(config.fleets):
        taken |= {identity(engine.url): (expected, f"an engine of fleets[{i}]") for engine in fleet.engines}
    for i, experiment in enumerate(config.experiments):
        if experiment.similarity is None:
            continue
        path, url = ("experiments", i, "similarity", "url"), experiment.similarity.url
        if (why := taken.get(identity(url))) is not None:
            yield Complaint("", path, *why)
        for name in ("listen", "admin"):
            if _is_at(url, getattr(config, f"{name}_address")):
                yield Complaint("", path, "a server other than this gateway itself", f"the address of {name}")


def _is_at(url: str, address: "Address") -> bool:
    """Whether a URL leads to this address of ours, as far as the names tell."""
    host, port = identity(url)[1:3]
    return port == address.port != 0 and (host == address.host or {host, address.host} <= LOCAL)


def _prices(config: "Config") -> Iterator[Complaint]:
    names = list(dict.fromkeys(name for one in config.experiments for name, _place, _arm in one.arms))
    for i, priced in enumerate(config.prices.arms if config.prices is not None and names else ()):
        if priced.name not in names:
            path: Path = ("prices", "arms", i, "name")
            yield Complaint("", path, one_of(names), shown(priced.name), nearest(priced.name, names))


def _replay(experiment: "Experiment", at: Path) -> Iterator[Complaint]:
    rate = experiment.sample.rate
    if experiment.mode == "replay" and experiment.replay is None:
        yield Complaint("", (*at, "replay"), "a recording's folder or files, with mode: replay", "nothing")
    elif experiment.mode != "replay" and experiment.replay is not None:
        yield Complaint("", (*at, "mode"), "replay, with a recording under replay", shown(experiment.mode))
    elif experiment.replay is not None and not isinstance(rate, str) and rate < 1:
        expected = "auto, or 1 and more: of a recording all is sent (replay.requests, replay.seconds: less)"
        yield Complaint("", (*at, "sample", "rate"), expected, shown(rate))


def _no_fleet(config: "Config", experiment: "Experiment", path: Path) -> Complaint:
    models = [fleet.model for fleet in config.fleets if fleet.model is not None]
    if experiment.fleet is None:
        return Complaint(
            "", path, f"the model of a fleet ({one_of(models)}), as none is the default", "nothing"
        )
    if not models:
        return Complaint("", path, "nothing here, as the fleet names no model", shown(experiment.fleet))
    return Complaint("", path, one_of(models), shown(experiment.fleet), nearest(experiment.fleet, models))


def _keys(config: "Config") -> Iterator[Complaint]:
    yield from _twice(((k.name, ("keys", i, "name")) for i, k in enumerate(config.keys)), "a key's name")
    yield from _twice(((k.hash, ("keys", i, "hash")) for i, k in enumerate(config.keys)), "a hash")
    rates: list[tuple[Path, Rates]] = [(("keys", i, "limits"), k.limits) for i, k in enumerate(config.keys)]
    for path, limits in [*rates, (("admission", "limits"), config.admission.limits)]:
        for what in ("requests", "prompt_tokens"):
            per_s, burst = getattr(limits, f"{what}_per_s"), getattr(limits, f"{what}_burst")
            if burst is not None and per_s is None:
                yield Complaint("", (*path, f"{what}_burst"), f"{what}_per_s beside it", "nothing")
            elif burst is not None and burst > per_s * _DAY_S:
                expected = f"at most a day's {what.replace('_', ' ')} ({per_s * _DAY_S:.0f})"
                yield Complaint("", (*path, f"{what}_burst"), expected, shown(burst))
    if config.admission.anonymous is False and not config.keys:
        yield Complaint("", ("admission", "anonymous"), "keys, or nobody may ask", "none")


def _rooms(config: "Config") -> Iterator[Complaint]:
    models = [fleet.model for fleet in config.fleets if fleet.model is not None]
    for i, fleet in enumerate(config.fleets):
        fallback = fleet.when_full.fallback
        path: Path = ("fleets", i, "when_full", "fallback")
        if fallback is None:
            continue
        if fallback not in models:
            yield Complaint("", path, one_of(models) or "no fallback: no fleet has a model's name",
                            shown(fallback), nearest(fallback, models))  # fmt: skip
        elif fallback == fleet.model:
            yield Complaint("", path, "another fleet", "this one")


def _bytes(config: "Config") -> Iterator[Complaint]:
    mirror = config.mirror
    limits = config.limits
    if limits.read_bytes > limits.uploads_bytes:
        expected = (
            f"at most limits.uploads_bytes ({limits.uploads_bytes}), which all bodies being received share"
        )
        yield Complaint("", ("limits", "read_bytes"), expected, shown(limits.read_bytes))
    if mirror.copy_bytes > mirror.lane_bytes:
        expected = f"at most mirror.lane_bytes ({mirror.lane_bytes}), or no copy of that size ever passes"
        yield Complaint("", ("mirror", "copy_bytes"), expected, shown(mirror.copy_bytes))
