"""How a plug-in's name and settings become an object.

The name is the file's name: `prefix_cost` in `routing.policies` is `routing/policies/prefix_cost.py`, which
holds a frozen `Params` dataclass and `build(params)`.  To add a plug-in, add a file; there is no registry.
"""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from config.complaint import Complaint, ConfigError, Path, nearest, one_of, shown


def names(package: ModuleType) -> list[str]:
    """The plug-ins of a package: its files, without those that begin with an underscore."""
    return sorted(module.name for module in iter_modules(package.__path__) if not module.name.startswith("_"))


def build(
    package: ModuleType, name: str, params: Mapping[str, Any], *, source: str = "", path: Path = ()
) -> Any:
    """The plug-in called `name`, with its settings checked against its `Params`.

    Errors begin with `source` (a file's name) and `path`, the place of what holds name and params,
    as in ("fleets", 0, "policy"); without both they begin with the package's name.
    Raises ConfigError for an unknown name or setting, or a value of the wrong type.
    """
    source = source if source or path else package.__name__
    known = names(package)
    if name not in known:
        raise ConfigError(
            [Complaint(source, (*path, "name"), one_of(known), shown(name), nearest(name, known))]
        )
    module = import_module(f"{package.__name__}.{name}")
    try:
        checked = TypeAdapter(module.Params).validate_python(dict(params), extra="forbid")
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        raise ConfigError(
            _complaint(detail, module.Params, source, path, name) for detail in details
        ) from None
    try:
        return module.build(checked)
    except ValueError as error:
        raise ConfigError(
            [Complaint(source, (*path, "params"), f"settings that fit {name}", f"a mistake: {error}")]
        ) from None


def _complaint(detail: ErrorDetails, params: type, source: str, at: Path, name: str) -> Complaint:
    # what explains loads the whole schema, which a worker, whose settings were checked before, need not know
    from config.explain import BOUNDS, PLAIN, keys, unknown_key

    path = (*at, "params", *detail["loc"])
    if detail["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
        key = str(detail["loc"][-1])
        expected, hint = unknown_key(key, list(keys(params)))
        return Complaint(
            source, path, f"{expected} (the settings of {name})", f"the unknown key {shown(key)}", hint
        )
    if detail["type"] == "value_error":  # raised by the Params themselves, in their own words
        problem = detail["msg"].removeprefix("Value error, ")
        return Complaint(source, path, f"settings that fit {name}", f"a mistake: {problem}")
    context = detail.get("ctx", {})
    if detail["type"] in BOUNDS:
        bound, words = BOUNDS[detail["type"]]
        expected = f"{words} {context[bound]}"
    else:
        expected = PLAIN.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")
    return Complaint(source, path, expected, shown(detail["input"]))
