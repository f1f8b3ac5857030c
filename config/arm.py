"""What the operator may write of engines that get copies: the control, its second engine, candidates."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from config.engine import Key, ModelName, Url
from config.launch import Gpus, Launch
from config.policy import checked_name
from config.strict import Strict, expected
from config.tls import EngineTls

CONTROL: Final = "control"
TWIN: Final = "control-twin"  # the second engine of the control's configuration
_TAKEN: Final = ("production", CONTROL, TWIN)


def _candidate_name(value: str) -> str:
    if value.lower() in _TAKEN:
        raise expected(f"a name other than {', '.join(_TAKEN[:-1])} and {_TAKEN[-1]}")
    return checked_name(value)


CandidateName = Annotated[str, AfterValidator(_candidate_name)]


class Arm(Strict):
    """An engine that gets copies and whose answers no client sees."""

    engine: Url = Field(
        default="",
        validate_default=False,
        description="The URL of a spare engine, which serves no production traffic; or else launch.",
    )
    launch: Launch | None = Field(
        default=None, description="A command by which Shadowlane starts the engine itself; or else engine."
    )
    gpus: Gpus | None = Field(
        default=None,
        description="With launch: how many free GPUs it gets (1 where left out), or which; 0: none. "
        "With engine: those of this machine, or of dcgm's, that it runs on, for the readings.",
    )
    dcgm: Url | None = Field(
        default=None, description="A DCGM exporter that tells of its GPUs, such as http://10.0.1.1:9400."
    )
    api_key: Key | None = Field(
        default=None, description="Sent to it as its bearer token; write ${VARIABLE}."
    )
    model: ModelName | None = Field(
        default=None, description="Its own name for the model, where that differs."
    )
    tls: EngineTls | None = Field(default=None, description="For https://: whom to trust and what to show.")


class Twin(Arm):
    """A second engine of the control's configuration: it gets the calibration's copies beside the control."""


class Control(Arm):
    """The arm that candidates are compared with."""

    twin: Twin | None = Field(
        default=None,
        description="A second engine configured exactly so: the calibration then compares the two. Left out,"
        " a share of the copies is sent twice instead. Only with mode: live.",
    )


class Candidate(Arm):
    """An arm with the configuration that is tried."""

    name: CandidateName = Field(description="Its name in verdicts.")
