"""How is a pair written in few bytes?  Its values in order; their names are in the log's header, once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from analysis.measure import AnswerMeasure, PairRecord

Names = Mapping[str, Sequence[str]]
Read = Callable[[bytes], PairRecord]

NAMES: Final[Names] = {
    "answer": AnswerMeasure.__struct_fields__,
    "pair": PairRecord.__struct_fields__,
}
_ANY: Final = msgspec.msgpack.Decoder()

packed: Callable[[PairRecord], bytes] = msgspec.msgpack.Encoder().encode
# msgspec.ValidationError or DecodeError where the bytes are no pair.
unpacked: Read = msgspec.msgpack.Decoder(PairRecord).decode


def reader_of(names: Names) -> Read:
    """Reads the pairs of a log whose header has these names; values that it has not are as by default.

    ValueError where the log has some that this version does not know: they would be left out unseen.
    """
    kept = {what: [str(name) for name in names[what]] for what in NAMES}
    for what, known in NAMES.items():
        if unknown := sorted(set(kept[what]) - set(known)):
            raise ValueError(f"unknown value {unknown[0]!r} of each {what}")
    if all(kept[what] == list(NAMES[what]) for what in NAMES):
        return unpacked

    def answer(values: Sequence[Any]) -> AnswerMeasure:
        named = dict(zip(kept["answer"], values, strict=True))
        return msgspec.convert(_in_order(AnswerMeasure, named), AnswerMeasure)

    def read(body: bytes) -> PairRecord:
        named = dict(zip(kept["pair"], _ANY.decode(body), strict=True))
        named["answers"] = [msgspec.to_builtins(answer(values)) for values in named["answers"]]
        if named.get("production") is not None:
            named["production"] = msgspec.to_builtins(answer(named["production"]))
        return msgspec.convert(_in_order(PairRecord, named), PairRecord)

    return read


def _in_order(of: type[msgspec.Struct], named: Mapping[str, Any]) -> list[Any]:
    """The values in the order of this version's fields.  ValueError where one that must be there is not."""
    values = []
    for field in msgspec.structs.fields(of):
        if field.name in named:
            values.append(named[field.name])
        elif field.default is not msgspec.NODEFAULT:
            values.append(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            values.append(field.default_factory())
        else:
            raise ValueError(f"no value of {field.name!r}")
    return values
