"""What did vLLM say in the answers captured from it?"""

from tests.analysis.captured._captured import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Captured

VLLM = (
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
    Captured("vllm/chat_stream_logprobs.sse", CHAT, ("async limit",), ("length",), 2, 2, "logprobs"),
    Captured("vllm/chat_token_ids.body", CHAT, ("async limit'):",), ("length",), 0, 3, "usage", 21),
    Captured("vllm/err_toolong.body", CHAT, (), (), 0, None, None),
    # A full queue; the captures of it after this one (5, 6 and 7) are the same, byte for byte.
    Captured("vllm_opts/overflow4.sse", COMPLETIONS, (), (), 0, None, None),
    Captured("vllm/chat_tools.body", CHAT, (), (), 0, None, None),
    # What looks like a tool call is text, for no parser of tool calls was set.
    Captured(
        "vllm_opts/tools_required.body",
        CHAT,
        (
            '<tool_call>\n{"name": "get_weather", "arguments": '
            "1078978978978978978978978978978978978978978978978978923121024789231210247892312",
        ),
        ("length",),
        0,
        60,
        "usage",
        140,
        128,
    ),
)
