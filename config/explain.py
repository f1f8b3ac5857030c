"""What a validation error of pydantic means, told as complaints in the file's own terms."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from config.complaint import Complaint, Path, nearest, one_of, shown
from config.document import Document
from config.schema import Config

SECRETS = frozenset({"api_key", "hash"})  # where a key stands, or might by mistake
PLAIN = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "path_type": "a path",
}
BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "a number above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "a number below"),
}


def explain(
    error: ValidationError, document: Document, raw: Mapping[str, Any], root: type[BaseModel] = Config
) -> Iterator[Complaint]:
    """The complaints behind `error`, of settings that `root` describes.

    Only `raw`, what was written before variables were put in, is shown.
    """
    details = error.errors(include_url=False, include_input=False)
    for detail in details:
        path = detail["loc"]
        if detail["type"] == "too_short" and any(d["loc"][: len(path)] == path != d["loc"] for d in details):
            continue  # only valid items are counted, and those that are not have their own complaint
        if detail["type"] == "complaints":
            for complaint in detail["ctx"]["complaints"]:
                reached, _ = _written(complaint.path, raw)
                yield _placed(reached, complaint.expected, complaint.found, complaint.hint, document)
        else:
            yield _single(detail, document, raw, root)


def keys(kind: Any) -> dict[str, Any]:
    """The settings of a model or of a plug-in's Params: name to type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if is_dataclass(kind):
        return {field.name: field.type for field in fields(kind)}
    return {}


def nested(kind: Any) -> type[BaseModel] | None:
    """The model that a type holds: itself, or inside an optional or a tuple."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((found for part in get_args(kind) if (found := nested(part)) is not None), None)


def model_at(path: Path, root: type[BaseModel] = Config) -> type[BaseModel] | None:
    """The part of the schema that describes the mapping at `path`."""
    model: type[BaseModel] | None = root
    for step in path:
        if isinstance(step, str) and model is not None:
            model = nested(keys(model).get(step))
    return model


def places(key: str, model: type[BaseModel] = Config, path: str = "") -> Iterator[str]:
    """Every place in the schema where a setting of that name stands."""
    for name, kind in keys(model).items():
        here = f"{path}.{name}" if path else name
        if name == key:
            yield here
        if (inner := nested(kind)) is not None:
            yield from places(key, inner, f"{here}[]" if "tuple" in str(kind) else here)


def unknown_key(key: str, valid: list[str]) -> tuple[str, str | None]:
    """What was expected in place of an unknown key, and the hint."""
    return one_of(valid) if valid else "no settings", nearest(key, valid)


def _single(
    detail: ErrorDetails, document: Document, raw: Mapping[str, Any], root: type[BaseModel]
) -> Complaint:
    path: Path = detail["loc"]
    kind = detail["type"]
    if kind == "extra_forbidden":
        valid = list(keys(model_at(path[:-1], root)))
        expected, hint = unknown_key(str(path[-1]), valid)
        elsewhere = list(places(str(path[-1]), root))
        if hint is None and elsewhere:
            hint = f"it is a setting of {one_of(elsewhere)}"
        return _placed(path, expected, f"the unknown key {shown(path[-1])}", hint, document)
    if kind == "missing":
        return _placed(path, _missing(path, root), "nothing", None, document)
    reached, written = _written(path, raw)
    found = "a value that is not shown" if SECRETS.intersection(path) else shown(written)
    hint = None
    if kind == "literal_error":
        expected = detail["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        expected = f"one of {expected}" if ", " in expected else expected
        hint = nearest(str(written), expected.removeprefix("one of ").split(", "))
    else:
        expected = _expected(detail, path, root)
        if kind == "string_type" and isinstance(written, (int, float)):
            hint = "write it in quotes"
    return _placed(reached, expected, found, hint, document)


def _expected(detail: ErrorDetails, path: Path, root: type[BaseModel]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "expected":
        return str(context["expected"])
    if kind in BOUNDS:
        bound, words = BOUNDS[kind]
        return (
            f"{words} {context[bound]:g}"
            if isinstance(context[bound], float)
            else f"{words} {context[bound]}"
        )
    if kind == "too_short":
        return f"at least {context['min_length']} of them"
    if kind in {"model_type", "model_attributes_type"}:
        return f"a mapping with {', '.join(keys(model_at(path, root)))}"
    return PLAIN.get(kind) or detail["msg"].removeprefix("Input should be ")


def _missing(path: Path, root: type[BaseModel]) -> str:
    model = model_at(path[:-1], root)
    field = model.model_fields.get(str(path[-1])) if model is not None else None
    meaning = field.description if field is not None else None
    return f"a value ({meaning[0].lower()}{meaning[1:].rstrip('.')})" if meaning else "a value"


def _written(path: Path, raw: Mapping[str, Any]) -> tuple[Path, Any]:
    """What stands at `path`, or at the last place on the way to it where there is more than plain text."""
    value: Any = raw
    for depth, step in enumerate(path):
        listed = isinstance(value, (list, tuple)) and isinstance(step, int) and step < len(value)
        if listed or (isinstance(value, dict) and step in value):
            value = value[step]
        else:  # an engine written as a plain URL: the URL is what the complaint is about
            return path[:depth] if isinstance(value, str) else path, value if isinstance(value, str) else None
    return path, value


def _placed(path: Path, expected: str, found: str | None, hint: str | None, document: Document) -> Complaint:
    return Complaint(document.origin(path), path, expected, found, hint)
