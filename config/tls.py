"""What the operator may write about TLS, towards clients and towards engines."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from config.strict import Strict, expected, words


class ListenTls(Strict):
    """TLS on `listen`. The files are read again when they change; a bad new pair is refused, the old kept."""

    cert: Path = Field(description="The certificate with its chain, in PEM form.")
    key: Path = Field(description="The certificate's key, in PEM form, not encrypted.")
    client_ca: Path | None = Field(
        default=None, description="Clients must show a certificate of these authorities (mTLS)."
    )
    min_version: Literal["1.2", "1.3"] = Field(
        default="1.2", description="The oldest version of TLS spoken; in quotes."
    )


class EngineTls(Strict):
    """How an https:// engine is believed to be itself; the files are read again when they change."""

    ca: Path | None = Field(
        default=None, description="Its authorities, in PEM form, in place of the system's."
    )
    cert: Path | None = Field(default=None, description="A certificate to show it (mTLS), in PEM form.")
    key: Path | None = Field(
        default=None, description="That certificate's key; left out where cert holds it too."
    )
    server_name: Annotated[str, AfterValidator(partial(words, what="a host name"))] | None = Field(
        default=None, description="The name its certificate bears, where that is not the host of its url."
    )
    verify: bool = Field(
        default=True, description="false believes whoever answers: for trials on a closed network only."
    )

    @model_validator(mode="after")
    def _key_of_a_cert(self) -> "EngineTls":
        if self.key is not None and self.cert is None:
            raise expected("cert beside key")
        return self
