"""What may the operator write about learning which tokens a prompt becomes?  It is what KV events need."""

from typing import Annotated

from pydantic import Field

from config.strict import Bytes, Strict


class Learn(Strict):
    """How it is learned which KV blocks its prompts become; only where its engines publish KV events."""

    tokenize: bool = Field(
        default=True,
        description="Ask engines, after a request was sent, for its prompt's token ids. A few made-up prompts"
        " are asked about now and then in any case, to see what the chat template does.",
    )
    copies: bool = Field(
        default=True, description="Take the token ids that an experiment's control tells of its copies."
    )
    ask_production: bool = Field(
        default=False,
        description="Have vLLM tell the token ids of streamed production requests along with its answers:"
        " return_token_ids is added to the request, and the ids are taken out of the answer.",
    )
    bytes_per_s: Annotated[Bytes, Field(ge=1024)] = Field(
        default=128 << 10,
        description="Prompts asked about, of each engine and second; what is most new goes first.",
    )
