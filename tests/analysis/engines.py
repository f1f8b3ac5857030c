"""Answers captured from real engines, and what is in them (read off by eye, not by the readers)."""

from dataclasses import dataclass
from pathlib import Path

from analysis.readers._choose import reader_of
from analysis.transcript import Content

FIXTURES = Path(__file__).parent / "fixtures"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"


@dataclass(frozen=True)
class Captured:
    """One captured answer: `texts` and `reasons` by choice, `events` how many token events."""

    file: str
    path: str
    texts: tuple[str, ...]
    reasons: tuple[str | None, ...]
    events: int
    tokens: int | None
    source: str | None
    prompt: int | None = None
    cached: int | None = None

    @property
    def raw(self) -> bytes:
        return (FIXTURES / self.file).read_bytes()


def read(path: str, reads: list[tuple[int, bytes]]) -> Content:
    """What the reader of a path makes of these reads."""
    reader = reader_of(path)
    at_ns = 0
    for at_ns, data in reads:
        reader.feed(data, at_ns)
    return reader.end(at_ns)


CAPTURED = (
    Captured("vllm/chat_stream.sse", CHAT, ("async limit'): symbrescale da",), ("length",), 6, 6, "chunks"),
    Captured(
        "vllm/chat_stream_usage.sse", CHAT, ("async limit'): symbrescale da",), ("length",), 6, 6, "usage", 21
    ),
    Captured("vllm/chat_stream_contusage.sse", CHAT, ("async limit'):",), ("length",), 3, 3, "usage", 21),
    Captured("vllm/chat_stream_token_ids.sse", CHAT, ("async limit'):",), ("length",), 3, 3, "token_ids"),
    Captured(
        "vllm/chat_n2_stream.sse", CHAT, (" short tzinfo", "\ufffd return"), ("length",) * 2, 3, 3, "chunks"
    ),
    Captured(
        "vllm/completion_multi_stream.sse", COMPLETIONS, ("UNSETfn", "././"), ("length",) * 2, 4, 4, "chunks"
    ),
    Captured(
        "vllm/completion_stream.sse",
        COMPLETIONS,
        ("ools save interpre complexmultiperboundary",),
        ("length",),
        6,
        6,
        "usage",
        5,
    ),
    Captured("vllm/messages_stream.sse", MESSAGES, ("rgumentirround",), ("max_tokens",), 3, 3, "usage", 21),
    # Three tokens in two events: the engine held one back.
    Captured(
        "vllm/responses_stream.sse",
        RESPONSES,
        ("Iter\x02 could",),
        ("max_output_tokens",),
        2,
        3,
        "usage",
        14,
        0,
    ),
    Captured(
        "vllm_opts/stream_usage_details.sse",
        CHAT,
        ("vingGenericAlias Runtime exact",),
        ("length",),
        4,
        4,
        "usage",
        140,
        128,
    ),
    Captured("vllm_opts/tools_named_stream.sse", CHAT, ("",), ("length",), 11, 11, "chunks"),
    Captured("vllm_opts/bad_regex_stream.sse", CHAT, (), (), 0, None, None),
    Captured(
        "llamacpp/chat_stream_usage.sse",
        CHAT,
        ("I'm here to help with any math",),
        ("length",),
        8,
        8,
        "usage",
        37,
        36,
    ),
    Captured(
        "llamacpp/completion_n2.sse",
        COMPLETIONS,
        ("-to-one", "-one-two"),
        ("length",) * 2,
        8,
        8,
        "usage",
        1,
        0,
    ),
    Captured(
        "llamacpp/messages_stream.sse", MESSAGES, ("Hangover,",), ("max_tokens",), 4, 4, "usage", 37, 36
    ),
    Captured("llamacpp/responses_stream.sse", RESPONSES, ("Sylvia.",), ("completed",), 4, 4, "usage", 33, 32),
    Captured(
        "llamacpp/native_completion_stream.sse",
        "/completion",
        (" Paris.\n\n",),
        ("limit",),
        4,
        4,
        "usage",
        5,
        4,
    ),
    Captured("sglang/chat_stream_contusage.sse", CHAT, ("async limit'):",), ("length",), 3, 3, "usage", 21),
    Captured("sglang/chat_stream.sse", CHAT, ("async limit'): symbrescale da",), ("length",), 4, 4, "chunks"),
    Captured(
        "sglang/generate_stream.sse", "/generate", (" break / break",), ("length",), 3, 3, "usage", 3, 2
    ),
    Captured(
        "sglang/responses_stream.sse", RESPONSES, ("Iter",), ("max_output_tokens",), 1, 1, "usage", 14, 13
    ),
    Captured(
        "dynamo/chat_stream_usage.sse",
        CHAT,
        ("cor traceback passcharrozen cache",),
        ("length",),
        6,
        6,
        "usage",
        21,
        16,
    ),
    Captured("dynamo/err_toolong_stream.sse", CHAT, (), (), 0, None, None),
    Captured("tfserve/chat_stream_usage.sse", CHAT, ('Iterec"> followed',), ("length",), 4, 4, "usage", 16),
    Captured(
        "tfserve/completion_stream.sse", COMPLETIONS, ("UNSETfncauseUNSET",), ("length",), 4, 4, "usage", 2
    ),
    Captured("vllm/chat.body", CHAT, ("async limit'): symbrescale da",), ("length",), 0, 6, "usage", 21),
    Captured(
        "vllm/completion.body",
        COMPLETIONS,
        ("ools save interpre complexmultiperboundary",),
        ("length",),
        0,
        6,
        "usage",
        5,
    ),
    Captured("vllm/messages.body", MESSAGES, (" Invalidever used",), ("max_tokens",), 0, 4, "usage", 21),
    Captured(
        "vllm/responses.body", RESPONSES, ("Iter\x02 could",), ("max_output_tokens",), 0, 4, "usage", 14, 0
    ),
    Captured(
        "llamacpp/messages.body",
        MESSAGES,
        ("The sweetest. Here are five.",),
        ("max_tokens",),
        0,
        8,
        "usage",
        37,
        25,
    ),
    Captured(
        "llamacpp/responses.body",
        RESPONSES,
        ("I'm so glad you're here!",),
        ("completed",),
        0,
        8,
        "usage",
        33,
        25,
    ),
    Captured("sglang/generate.body", "/generate", ("UNSETfncauseUNSET",), ("length",), 0, 4, "usage", 2, 1),
    Captured(
        "dynamo/chat_stream_contusage.sse", CHAT, (" Pythonfiles mark",), ("length",), 3, 3, "usage", 21, 16
    ),
    Captured(
        "dynamo/chat_tools.sse",
        CHAT,
        (
            "zone whencephhour wherepythonsupportedparsergumentast Wetilcharrawelpolation"
            " runam '%Preonly exponentARikePre hourceback map lasttrace",
        ),
        ("length",),
        1,
        1,
        "chunks",
    ),
    Captured(
        "dynamo/completion_multi_stream.sse",
        COMPLETIONS,
        ("constvo", " classesthe"),
        ("length",) * 2,
        4,
        4,
        "chunks",
    ),
    Captured(
        "dynamo/messages_stream.sse", MESSAGES, ("usepectedgistr",), ("max_tokens",), 3, 3, "usage", 21, 16
    ),
    Captured(
        "dynamo/responses_stream.sse",
        RESPONSES,
        ("aturecorht",),
        ("max_output_tokens",),
        3,
        3,
        "usage",
        14,
        0,
    ),
    Captured("llamacpp/chat_stream_logprobs.sse", CHAT, ("I'm here",), ("length",), 3, 3, "usage", 37, 36),
    Captured(
        "llamacpp/completion.body",
        COMPLETIONS,
        (" Paris.\n\nThe United States has",),
        ("length",),
        0,
        8,
        "usage",
        5,
        0,
    ),
    Captured(
        "llamacpp/completion_stream.sse",
        COMPLETIONS,
        (" Paris.\n\nThe United",),
        ("length",),
        6,
        6,
        "usage",
        5,
        4,
    ),
    Captured("sglang/chat_n2_stream.sse", CHAT, ("ling '%", " msg--"), ("length",) * 2, 4, 4, "chunks"),
    Captured("sglang/chat_stream_logprobs.sse", CHAT, ("async limit",), ("length",), 2, 2, "logprobs"),
    Captured(
        "sglang/completion_tokens_prompt.body", COMPLETIONS, (" pad values",), ("length",), 0, 2, "usage", 4
    ),
    Captured(
        "sglang/messages_stream.sse",
        MESSAGES,
        (" messagescript actions",),
        ("max_tokens",),
        3,
        3,
        "usage",
        21,
    ),
    Captured(
        "tfserve/responses.sse", RESPONSES, ("deepcopy Rpected failed",), ("completed",), 4, 4, "usage", 11, 0
    ),
    Captured("vllm/chat_stream_logprobs.sse", CHAT, ("async limit",), ("length",), 2, 2, "logprobs"),
    Captured("vllm/chat_token_ids.body", CHAT, ("async limit'):",), ("length",), 0, 3, "usage", 21),
    Captured("vllm/err_toolong.body", CHAT, (), (), 0, None, None),
    Captured("sglang/err_temp.body", CHAT, (), (), 0, None, None),
)
