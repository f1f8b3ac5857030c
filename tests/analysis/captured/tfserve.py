"""What did transformers serve say in the answers captured from it?"""

from tests.analysis.captured._captured import CHAT, COMPLETIONS, RESPONSES, Captured

TFSERVE = (
    Captured("tfserve/chat_stream_usage.sse", CHAT, ('Iterec"> followed',), ("length",), 4, 4, "usage", 16),
    Captured(
        "tfserve/completion_stream.sse", COMPLETIONS, ("UNSETfncauseUNSET",), ("length",), 4, 4, "usage", 2
    ),
    Captured(
        "tfserve/responses.sse", RESPONSES, ("deepcopy Rpected failed",), ("completed",), 4, 4, "usage", 11, 0
    ),
    Captured("tfserve/chat_stream.sse", CHAT, ('Iterec"> followed',), ("length",), 4, 4, "usage", 16),
    Captured("tfserve/chat.body", CHAT, ('Iterec"> followed',), ("length",), 0, 4, "usage", 16),
)
