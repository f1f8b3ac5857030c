"""What may be written of prices: what an hour of a GPU costs, or of an arm as a whole."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.strict import Count, Strict, expected, number, words

PerHour = Annotated[float, BeforeValidator(number), Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Name = Annotated[str, AfterValidator(lambda value: words(value, "a name"))]


class PricedArm(Strict):
    """An arm that is not priced by its GPUs, or whose GPUs cannot be read."""

    name: Name = Field(description="The arm: control, or a candidate's name.")
    per_hour: PerHour | None = Field(default=None, description="What all of it costs an hour.")
    gpus: Annotated[Count, Field(ge=1, le=65_536)] | None = Field(
        default=None, description="How many GPUs it has; readings say it where there are some."
    )

    @model_validator(mode="after")
    def _said(self) -> "PricedArm":
        if self.per_hour is None and self.gpus is None:
            raise expected("per_hour, what all of it costs an hour, or gpus, how many it has")
        return self


class Prices(Strict):
    """What things cost."""

    currency: Name = Field(default="USD", description="What the prices are in.")
    gpus: dict[Name, PerHour] = Field(
        default={}, description="What one GPU costs an hour, by its name or words of it, such as H200."
    )
    arms: tuple[PricedArm, ...] = Field(default=(), description="Arms that have a price of their own.")

    @model_validator(mode="after")
    def _something(self) -> "Prices":
        if not self.gpus and not self.arms:
            raise expected("prices: gpus, as in {H200: 3.50}, or arms")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise expected("each arm once under arms")
        return self
