"""What the engine answers: a function of the model's seed and the prompt's tokens, never of timing or cache.

At temperature 0 equal models give equal text. A share of prompts (`diverge_rate`) departs from the
model's own text at some word; so does every answer sampled at a temperature above 0. The whole answer is
planned when the request comes, so that a token costs nothing when its time comes.
"""

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from xxhash import xxh3_64_intdigest

from emulator.text import END_OF_TEXT, IM_END, Tokenizer

_WORDS = tuple(
    """
    the of and to in is that it for was on are as with they be at one have this from or had by word but
    not what all were we when your can said there use an each which she do how their if will up other
    about out many then them these so some her would make like him into time has look two more write go
    see number no way could people my than first water been call who oil its now find long down day did
    get come made may part over new sound take only little work know place year live me back give most
    very after thing our just name good sentence man think say great where help through much before line
    right too mean old any same tell boy follow came want show also around form three small set put end
    does another well large must big even such because turn here why ask went men read need land
    different home us move try kind hand picture again change off play spell air away animal house point
    page letter mother answer found study still learn should world token latency request engine cache
    prefix model batch decode prefill schedule sequence attention measure window baseline candidate
    throughput memory block queue server client stream traffic system result function value number
    return however therefore naïve café résumé façade
    """.split()  # noqa: SIM905 (a list of 300 literals is not easier to read)
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks of the text."""

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 0.0
    seed: int | None = None
    choice: int = 0  # which of n answers
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    literal: str | None = None  # say exactly this (tool calls, JSON)
    forced: tuple[int, ...] = ()  # decode exactly these tokens


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer: one text delta per token, and why it ends."""

    tokens: tuple[int, ...]
    deltas: tuple[str, ...]
    finish_reason: str
    stop_reason: str | None


class Generator:
    """`rng` is drawn from only for sampled answers without a seed."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        model_seed: int,
        rng: Random,
        diverge_rate: float,
        median: float,
        sigma: float,
    ) -> None:
        self._tokenizer = tokenizer
        self._model_seed = model_seed
        self._rng = rng
        self._diverge_rate = diverge_rate
        self._log_median = math.log(median)
        self._sigma = sigma

    def plan(self, prompt: Sequence[int], wish: Wish) -> Plan:
        """The answer to `prompt`."""
        if wish.forced:
            return Plan(wish.forced, tuple(self._tokenizer.deltas(wish.forced)), "length", None)
        if wish.literal is not None:
            tokens = self._tokenizer.encode(wish.literal)
            return self._cut([*tokens, IM_END], wish)
        packed = array("I", prompt).tobytes()
        own = xxh3_64_intdigest(packed, self._model_seed)
        author = Random(own)
        length = max(2, wish.min_tokens, round(author.lognormvariate(self._log_median, self._sigma)))
        if wish.ignore_eos:
            length = wish.max_tokens
        wanted = min(length, wish.max_tokens)
        words = author.choices(_WORDS, k=wanted + 2)
        other = self._other_author(packed, own, wish)
        if other is not None:
            depart = min(int(other.expovariate(0.08)), wanted)
            words[depart:] = other.choices(_WORDS, k=len(words) - depart)
            if not wish.ignore_eos:
                length = max(depart, wish.min_tokens, round(length * other.lognormvariate(0.0, 0.2)), 2)
                words.extend(other.choices(_WORDS, k=max(0, min(length, wish.max_tokens) + 2 - len(words))))
        tokens = self._tokenizer.encode(_prose(words))
        body = length if wish.ignore_eos or length > wish.max_tokens else length - 1
        planned = list(tokens[: min(body, wish.max_tokens)])
        if body == length - 1:
            planned.append(IM_END)
        return self._cut(planned, wish)

    def _other_author(self, packed: bytes, own: int, wish: Wish) -> Random | None:
        """Who takes over from the model's own text, if anyone."""
        if wish.temperature > 0:
            source = self._rng.getrandbits(64) if wish.seed is None else wish.seed
            return Random(f"{own}:{source}:{wish.choice}")
        if self._diverge_rate:
            departing = xxh3_64_intdigest(packed, self._model_seed ^ 0x5EED)
            if departing < self._diverge_rate * 2**64:
                return Random(departing)
        return None

    def _cut(self, tokens: list[int], wish: Wish) -> Plan:
        """Apply max_tokens and stop strings."""
        finish_reason = (
            "stop" if len(tokens) <= wish.max_tokens and tokens[-1] in (IM_END, END_OF_TEXT) else "length"
        )
        tokens = tokens[: wish.max_tokens]
        visible = tokens[:-1] if finish_reason == "stop" else tokens
        deltas = self._tokenizer.deltas(visible)
        if len(visible) < len(tokens):
            deltas.append("")
        if wish.stop:
            return _stopped(tokens, deltas, finish_reason, wish)
        return Plan(tuple(tokens), tuple(deltas), finish_reason, None)


def _stopped(tokens: list[int], deltas: list[str], finish_reason: str, wish: Wish) -> Plan:
    """End at the first stop string.  Text that may yet become one is held back, as vLLM does."""
    hold = max(map(len, wish.stop)) - 1
    text = ""
    sent = 0
    held: list[str] = []
    for index, delta in enumerate(deltas):
        searched = max(0, len(text) - hold)
        text += delta
        found = [(at, stop) for stop in wish.stop if (at := text.find(stop, searched)) >= 0]
        if found and index + 1 >= wish.min_tokens:
            at, stop = min(found)
            end = at + len(stop) if wish.include_stop else at
            held.append(text[sent:end])
            return Plan(tuple(tokens[: index + 1]), tuple(held), "stop", stop)
        ready = len(text) if index == len(deltas) - 1 else max(sent, len(text) - hold)
        held.append(text[sent:ready])
        sent = ready
    return Plan(tuple(tokens), tuple(held), finish_reason, None)


def _prose(words: Sequence[str]) -> str:
    """Words as sentences; where they end depends on the words alone."""
    out: list[str] = []
    since = 0
    capital = True
    for word in words:
        if capital:
            word = word.capitalize()
            capital = False
        since += 1
        if since > 4 and len(word) > 5:
            out.append(word + ".")
            since = 0
            capital = True
        else:
            out.append(word)
    return " ".join(out)


def example_of(schema: Mapping[str, Any], rng: Random, depth: int = 0) -> Any:
    """A value that fits a JSON schema, as far as its types and required properties say."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return rng.choice(list(schema["enum"]))
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            return example_of(schema[union][0], rng, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        if depth > 8:
            return {}
        return {key: example_of(value, rng, depth + 1) for key, value in schema.get("properties", {}).items()}
    if kind == "array":
        return [
            example_of(schema.get("items", {}), rng, depth + 1) for _ in range(schema.get("minItems", 1) or 1)
        ]
    if kind in ("integer", "number"):
        low = schema.get("minimum", 0)
        high = max(low, schema.get("maximum", low + 99))
        number = rng.randint(math.ceil(low), max(math.ceil(low), math.floor(high)))
        return number if kind == "integer" else float(number)
    if kind == "boolean":
        return rng.random() < 0.5
    return None if kind == "null" else rng.choice(_WORDS)


def json_answer(schema: Mapping[str, Any], prompt: Sequence[int], model_seed: int) -> str:
    """A deterministic JSON text for a forced tool call or a JSON response format."""
    rng = Random(xxh3_64_intdigest(array("I", prompt).tobytes(), model_seed))
    return json.dumps(example_of(schema, rng), ensure_ascii=False)


def logprob_of(token: int, position: int, model_seed: int = 0) -> float:
    """A plausible log-probability of the chosen token: mostly near 0, sometimes low, always the same.

    To another model than the first it is up to a fifth less likely.
    """
    unit = _unit(f"{token}:{position}")
    return -4.0 * unit**4 * (1.0 + 0.2 * (_unit(f"{model_seed}:{token}:{position}") if model_seed else 0.0))


def _unit(text: str) -> float:
    return (xxh3_64_intdigest(text.encode()) >> 11) / 2**53


def alternatives(token: int, position: int, count: int, model_seed: int = 0) -> list[tuple[int, float]]:
    """`count` (token, logprob) pairs, the chosen one first."""
    chosen = logprob_of(token, position, model_seed)
    rest = math.log(max(1e-9, 1.0 - math.exp(chosen)))
    out = [(token, chosen)]
    for rank in range(1, count):
        other = 2048 + xxh3_64_intdigest(f"{token}:{position}:{rank}".encode()) % 400_000
        out.append((other, min(chosen, rest) - 0.7 * rank))
    return out[:count]
