"""What did SGLang say in the answers captured from it?"""

from tests.analysis.captured._captured import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Captured

SGLANG = (
    Captured("sglang/chat_stream_contusage.sse", CHAT, ("async limit'):",), ("length",), 3, 3, "usage", 21),
    Captured("sglang/chat_stream.sse", CHAT, ("async limit'): symbrescale da",), ("length",), 4, 4, "chunks"),
    Captured(
        "sglang/generate_stream.sse", "/generate", (" break / break",), ("length",), 3, 3, "usage", 3, 2
    ),
    Captured(
        "sglang/responses_stream.sse", RESPONSES, ("Iter",), ("max_output_tokens",), 1, 1, "usage", 14, 13
    ),
    Captured("sglang/generate.body", "/generate", ("UNSETfncauseUNSET",), ("length",), 0, 4, "usage", 2, 1),
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
    Captured("sglang/err_temp.body", CHAT, (), (), 0, None, None),
    Captured(
        "sglang/chat_stream_usage.sse",
        CHAT,
        ("async limit'): symbrescale da",),
        ("length",),
        6,
        6,
        "usage",
        21,
    ),
    Captured(
        "sglang/completion_multi_stream.sse",
        COMPLETIONS,
        ("UNSETfn", "././"),
        ("length",) * 2,
        4,
        4,
        "chunks",
    ),
    Captured(
        "sglang/completion_stream.sse",
        COMPLETIONS,
        ("ools save interpre complexmultiperboundary",),
        ("length",),
        6,
        6,
        "usage",
        5,
    ),
    Captured("sglang/chat.body", CHAT, ("async limit'): symbrescale da",), ("length",), 0, 6, "usage", 21),
    Captured(
        "sglang/completion.body",
        COMPLETIONS,
        ("ools save interpre complexmultiperboundary",),
        ("length",),
        0,
        6,
        "usage",
        5,
    ),
    Captured(
        "sglang/messages.body", MESSAGES, (" old remainder commPYTHON",), ("max_tokens",), 0, 4, "usage", 21
    ),
    Captured("sglang/responses.body", RESPONSES, ("Iter\x02",), ("max_output_tokens",), 0, 2, "usage", 14, 5),
    # A full queue, streamed and not; the captures after these (5 to 9) are the same, byte for byte.
    Captured("sglang_opts/overflow3.sse", COMPLETIONS, (), (), 0, None, None),
    Captured("sglang_opts/overflow4.body", COMPLETIONS, (), (), 0, None, None),
)
