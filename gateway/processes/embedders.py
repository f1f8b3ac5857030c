"""Which servers of embeddings is the analysis told of, by the config?"""

from analysis.spec import EmbedderSpec
from config.schema import Config


def embedders_of(config: Config) -> tuple[EmbedderSpec, ...]:
    """One for each experiment that has one."""
    return tuple(
        EmbedderSpec(
            experiment=experiment.name,
            url=said.url,
            model=said.model,
            api_key=None if said.api_key is None else said.api_key.get_secret_value(),
            rows=said.rows,
            chars=said.chars,
            timeout_s=said.timeout_s,
        )
        for experiment in config.experiments
        if (said := experiment.similarity) is not None
    )
