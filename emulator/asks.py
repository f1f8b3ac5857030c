"""What a request body asks for: read, checked, refused as vLLM does, and put into one shape for all APIs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from emulator.chat import prompt_of
from emulator.generation import Wish, json_answer
from emulator.params import EngineParams
from emulator.refusals import Refusal, bad_value, missing, not_json, wrong_type
from emulator.text import VOCABULARY, Tokenizer


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: `wishes[i]` is what to say to `prompts[i]`; n answers to a prompt are n entries."""

    prompts: list[Sequence[int]]
    wishes: list[Wish]
    body: Mapping[str, Any]
    model: str
    prompt_tokens: int
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    return_token_ids: bool = False
    logprobs: int | None = None  # how many alternatives; None = no logprobs
    salt: str = ""
    tool: str | None = None  # the function a forced tool call names
    tool_required: bool = False
    echo: list[str] = field(default_factory=list)  # prompts to repeat before the answers
    keeps_kv: bool = False  # another engine is to fetch the KV when it is computed
    fetched_kv: bool = False  # the prompts' KV came from another engine
    prompt_logprobs: int | None = None  # how many alternatives to each token of the prompts; None = none told


class Reader:
    """Reads bodies for one engine."""

    def __init__(self, params: EngineParams, tokenizer: Tokenizer) -> None:
        self._params = params
        self._tokenizer = tokenizer

    def json(self, body: bytes) -> dict[str, Any]:
        """The body's object, or a Refusal."""
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise not_json(body) from None
        if not isinstance(value, dict):
            raise wrong_type("", "dict", value)
        return value

    def chat(self, body: Mapping[str, Any]) -> Ask:
        """/v1/chat/completions."""
        model = self._model(body)
        prompt = self.chat_prompt(body)
        limit = _first(body, "max_completion_tokens", "max_tokens")
        literal, tool, required = self._forced(body, prompt)
        top = body.get("top_logprobs") or 0
        return self._ask(
            body, model, [prompt], limit, "max_tokens", literal,
            logprobs=_whole("top_logprobs", top, 0, 20) if body.get("logprobs") else None,
            tool=tool, tool_required=required,
        )  # fmt: skip

    def completions(self, body: Mapping[str, Any]) -> Ask:
        """/v1/completions."""
        model = self._model(body)
        if body.get("prompt") is None:
            raise missing("prompt", body)
        prompts = self._prompts(body["prompt"])
        top = body.get("logprobs")
        echo = [self._tokenizer.decode(prompt) for prompt in prompts] if body.get("echo") else []
        limit = body.get("max_tokens", 16)
        ask = self._ask(
            body, model, prompts, limit, "max_tokens", None,
            logprobs=None if top is None else _whole("logprobs", top, 0, 20), echo=echo,
        )  # fmt: skip
        return replace(ask, prompt_logprobs=self._prompt_logprobs(body))

    def responses(self, body: Mapping[str, Any]) -> Ask:
        """/v1/responses."""
        model = self._model(body)
        if body.get("input") is None:
            raise missing("input", body)
        given = body["input"]
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        if body.get("instructions"):
            messages.insert(0, {"role": "system", "content": body["instructions"]})
        prompt = prompt_of(self._tokenizer, messages, body.get("tools"))
        body = {**body, "n": 1}
        return self._ask(body, model, [prompt], body.get("max_output_tokens"), "max_output_tokens", None)

    def messages(self, body: Mapping[str, Any]) -> Ask:
        """/v1/messages."""
        model = self._model(body)
        if body.get("max_tokens") is None:
            raise missing("max_tokens", body)
        body = {**body, "n": 1, "stop": body.get("stop_sequences")}
        return self._ask(body, model, [self.messages_prompt(body)], body["max_tokens"], "max_tokens", None)

    def generate(self, body: Mapping[str, Any]) -> Ask:
        """/inference/v1/generate."""
        model = self._model(body)
        prompt, params = body.get("token_ids"), body.get("sampling_params")
        if not isinstance(prompt, list) or not prompt:
            raise missing("token_ids", body)
        if not isinstance(params, dict):
            raise missing("sampling_params", body)
        prompt = self._prompts(prompt)[0]
        shared = {name: body.get(name) for name in ("stream", "stream_options", "cache_salt")}
        flat = {**params, **shared, "return_token_ids": body.get("return_token_ids")}
        limit = params.get("max_tokens", 16)
        top = params.get("logprobs")
        ask = self._ask(
            flat, model, [prompt], limit, "max_tokens", None,
            logprobs=None if top is None else _whole("logprobs", top, 0, 20),
        )  # fmt: skip
        forced = params.get("trace_decode_token_ids")
        if not forced:
            return ask
        if not self._params.trace_replay:
            text = "trace_decode_token_ids needs --enable-trace-replay."
            raise bad_value("trace_decode_token_ids", forced, text)
        if len(ask.wishes) > 1:
            raise bad_value("n", params.get("n"), "n must be 1 with trace_decode_token_ids.")
        (tokens,) = self._prompts(forced)
        wish = replace(ask.wishes[0], forced=tuple(tokens[:limit]), max_tokens=limit)
        return replace(ask, wishes=[wish])

    def chat_prompt(self, body: Mapping[str, Any]) -> list[int]:
        """The token ids of a chat body."""
        messages = body.get("messages")
        if messages is None:
            raise missing("messages", body)
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise wrong_type("messages", "list", messages)
        generation = bool(body.get("add_generation_prompt", True))
        return prompt_of(self._tokenizer, messages, body.get("tools"), add_generation_prompt=generation)

    def messages_prompt(self, body: Mapping[str, Any]) -> list[int]:
        """The token ids of an Anthropic body: its system text is the first message."""
        system = body.get("system")
        if not system:
            return self.chat_prompt(body)
        return self.chat_prompt(
            {**body, "messages": [{"role": "system", "content": system}, *body.get("messages", ())]}
        )

    def _prompt_logprobs(self, body: Mapping[str, Any]) -> int | None:
        wanted, most = body.get("prompt_logprobs"), self._params.max_logprobs
        if wanted is None:
            return None
        if body.get("stream"):
            text = "`prompt_logprobs` are not available when `stream=True`."
            raise Refusal(400, f"{text} (parameter=prompt_logprobs)", "BadRequestError", "prompt_logprobs")
        if _whole("prompt_logprobs", wanted, 0, None) > most:
            text = f"Requested prompt logprobs of {wanted}, which is greater than max allowed: {most}"
            raise bad_value("prompt_logprobs", wanted, text)
        return int(wanted)

    def _model(self, body: Mapping[str, Any]) -> str:
        model = body.get("model")
        names = (self._params.model, *self._params.aliases)
        if model is None:
            return names[0]
        if model not in names:
            text = f"The model `{model}` does not exist. Valid aliases: {', '.join(names)}."
            raise Refusal(404, text, "NotFoundError", "model")
        return str(model)

    def _prompts(self, prompt: Any) -> list[Sequence[int]]:
        if isinstance(prompt, str):
            return [self._tokenizer.encode(prompt) or (0,)]
        if isinstance(prompt, list) and prompt:
            if all(isinstance(token, int) for token in prompt):
                if not all(0 <= token < VOCABULARY for token in prompt):
                    raise bad_value("prompt", "token ids", "Token id is out of vocabulary.")
                return [prompt]
            return [one for part in prompt for one in self._prompts(part)]
        raise wrong_type("prompt", "string", prompt)

    def _forced(self, body: Mapping[str, Any], prompt: Sequence[int]) -> tuple[str | None, str | None, bool]:
        """The JSON a tool choice or response format forces: (text, function name, "required")."""
        seed = self._params.model_seed
        choice = body.get("tool_choice")
        functions = {
            tool["function"]["name"]: tool["function"].get("parameters") or {}
            for tool in body.get("tools") or ()
            if isinstance(tool.get("function"), dict) and "name" in tool["function"]
        }
        if isinstance(choice, dict):
            name = (choice.get("function") or {}).get("name")
            if name not in functions:
                raise bad_value(
                    "tool_choice",
                    name,
                    "The tool specified in `tool_choice` does not match any of the tools.",
                )
            return json_answer(functions[name], prompt, seed), name, False
        if choice == "required":
            if not functions:
                raise bad_value("tool_choice", choice, "`tool_choice` needs `tools`.")
            name = next(iter(functions))
            return json_answer(functions[name], prompt, seed), name, True
        wanted = body.get("response_format") or {}
        if wanted.get("type") == "json_object":
            return json_answer({"properties": {"answer": {"type": "string"}}}, prompt, seed), None, False
        if wanted.get("type") == "json_schema":
            return (
                json_answer((wanted.get("json_schema") or {}).get("schema") or {}, prompt, seed),
                None,
                False,
            )
        return None, None, False

    def _ask(
        self,
        body: Mapping[str, Any],
        model: str,
        prompts: Sequence[Sequence[int]],
        limit: Any,
        limit_name: str,
        literal: str | None,
        *,
        logprobs: int | None = None,
        tool: str | None = None,
        tool_required: bool = False,
        echo: Sequence[str] = (),
    ) -> Ask:
        room = self._params.max_model_len
        if limit is not None:
            limit = _whole(limit_name, limit, 1, None)
            if limit > room:
                text = f"{limit_name}={limit} cannot be greater than max_model_len={room}. "
                text += "Please request fewer output tokens."
                raise bad_value(limit_name, limit, text)
        given = body.get("temperature")
        temperature = self._params.default_temperature if given is None else given
        if not isinstance(temperature, (int, float)) or temperature < 0:
            raise bad_value(
                "temperature", temperature, f"temperature must be non-negative, got {temperature}."
            )
        count = _whole("n", body.get("n") or 1, 1, 128)
        stop = body.get("stop") or ()
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        if not all(isinstance(one, str) and one for one in stops):
            raise bad_value("stop", stop, "stop must be non-empty strings.")
        expanded: list[Sequence[int]] = []
        wishes: list[Wish] = []
        for prompt in prompts:
            max_tokens = self._room_left(len(prompt), limit)
            for choice in range(count):
                expanded.append(prompt)
                wishes.append(
                    Wish(
                        max_tokens,
                        min(int(body.get("min_tokens") or 0), max_tokens),
                        float(temperature),
                        body.get("seed"),
                        choice,
                        bool(body.get("ignore_eos")),
                        stops,
                        bool(body.get("include_stop_str_in_output")),
                        literal,
                    )
                )
        options = body.get("stream_options") or {}
        return Ask(
            expanded,
            wishes,
            body,
            model,
            sum(map(len, prompts)),
            bool(body.get("stream")),
            bool(options.get("include_usage")),
            bool(options.get("continuous_usage_stats")),
            bool(body.get("return_token_ids")),
            logprobs,
            str(body.get("cache_salt") or ""),
            tool,
            tool_required,
            [text for text in echo for _ in range(count)],
        )

    def _room_left(self, prompt_tokens: int, limit: int | None) -> int:
        """Output tokens allowed; a Refusal when the prompt, or both together, are too long."""
        room = self._params.max_model_len
        if prompt_tokens >= room:
            text = (
                f"This model's maximum context length is {room} tokens. However, your prompt contains at "
                f"least {prompt_tokens} input tokens, which exceeds this limit even without any output "
                "tokens. Please reduce the length of the input prompt."
            )
            raise bad_value("input_tokens", prompt_tokens, text)
        if limit is not None and prompt_tokens + limit > room:
            text = (
                f"This model's maximum context length is {room} tokens. However, you requested {limit} "
                f"output tokens and your prompt contains at least {prompt_tokens} input tokens, for a "
                f"total of at least {prompt_tokens + limit} tokens. Please reduce the length of the input "
                "prompt or the number of requested output tokens."
            )
            raise bad_value("input_tokens", prompt_tokens, text)
        return room - prompt_tokens if limit is None else limit


def _first(body: Mapping[str, Any], *names: str) -> Any:
    return next((body[name] for name in names if body.get(name) is not None), None)


def _whole(name: str, value: Any, low: int, high: int | None) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, "integer", value)
    if value < low:
        raise bad_value(name, value, f"{name} must be at least {low}, got {value}.")
    if high is not None and value > high:
        raise bad_value(name, value, f"{name} must be at most {high}, got {value}.")
    return value
