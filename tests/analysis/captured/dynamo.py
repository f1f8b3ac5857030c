"""What did Dynamo say in the answers captured from it?"""

from tests.analysis.captured._captured import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Captured

DYNAMO = (
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
    # Asked for n = 2, it gave one; asked for logprobs, none.
    Captured("dynamo/chat_n2_stream.sse", CHAT, (" make warnings",), ("length",), 2, 2, "chunks"),
    Captured("dynamo/chat_stream_logprobs.sse", CHAT, ("ick follow",), ("length",), 2, 2, "chunks"),
    Captured("dynamo/chat_stream.sse", CHAT, ("boundaryift ke alwaysULT more",), ("length",), 6, 6, "chunks"),
    Captured(
        "dynamo/completion_stream.sse",
        COMPLETIONS,
        ("round                  Parser msopendays",),
        ("length",),
        6,
        6,
        "usage",
        5,
        0,
    ),
    Captured(
        "dynamo/completion.body",
        COMPLETIONS,
        ("arddb stream whence compare between",),
        ("length",),
        0,
        6,
        "usage",
        5,
        0,
    ),
    Captured(
        "dynamo/messages.body",
        MESSAGES,
        (" compile specifiedperationible",),
        ("max_tokens",),
        0,
        4,
        "usage",
        21,
        16,
    ),
    Captured(
        "dynamo/responses.body",
        RESPONSES,
        (" Forcomgistarning",),
        ("max_output_tokens",),
        0,
        4,
        "usage",
        14,
        0,
    ),
)
