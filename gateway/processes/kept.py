"""What text is kept beside experiments' logs, by the configuration?"""

from analysis.spec import TextSpec
from config.schema import Config


def kept_texts(config: Config) -> dict[str, TextSpec]:
    """How what arms said is kept, by experiment: only where that is asked for."""
    return {
        one.name: TextSpec(one.text_bytes, one.text_keep_s, one.redact, one.redact_command)
        for one in config.experiments
        if one.text_bytes
    }
