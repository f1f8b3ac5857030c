"""What may the operator write about keeping the experiments' logs?"""

from typing import Annotated

from pydantic import BeforeValidator, Field

from config.strict import Bytes, Strict, number

_CENTURY_DAYS = 36_525


class Logs(Strict):
    """How much of the experiments' logs is kept, of each experiment."""

    log_bytes: Annotated[Bytes, Field(ge=1 << 20)] = Field(
        default=4 << 30,
        description="How long the log in use may get. A pair has 0.8 to 2 KB. When it is full nothing more is"
        " judged, so that the log still says all that the verdicts rest on; change a setting to begin anew.",
    )
    old_bytes: Bytes = Field(
        default=4 << 30,
        description="How long the logs of earlier epochs may be together; the oldest go first.",
    )
    old_days: Annotated[float, BeforeValidator(number), Field(gt=0, le=_CENTURY_DAYS)] = Field(
        default=90.0, description="How many days they are kept."
    )
