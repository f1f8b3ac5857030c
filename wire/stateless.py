"""Which paths of engines answer from the request alone and leave nothing behind but cache?

What is asked there may be asked twice: again when a connection died under it, and of other engines to
compare.  `/v1/responses` is none of them, for it stores its answers unless a body says otherwise.
"""

from typing import Final

# Whose answers are worth comparing.
COMPARED: Final = frozenset(
    {
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/completions",
        "/completions",
        "/completion",
        "/v1/messages",
        "/generate",
        "/generate_stream",
        "/infill",
        "/v1/embeddings",
        "/embeddings",
        "/embedding",
        "/v1/rerank",
        "/v2/rerank",
        "/rerank",
        "/v1/score",
        "/score",
        "/pooling",
        "/classify",
    }
)
STATELESS: Final = COMPARED | {
    "/inference/v1/generate",
    "/invocations",
    "/reranking",
    "/v1/reranking",
    "/v1/pooling",
    "/v1/classify",
    "/encode",
    "/v2/embed",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/v1/tokenize",
    "/v1/detokenize",
    "/v1/messages/count_tokens",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/audio/speech",
    "/v1/images/generations",
    "/v1/moderations",
}
