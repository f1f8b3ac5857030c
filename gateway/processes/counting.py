"""Can tokens be counted as experiments ask?  Tokenizers' files, and the library, before anything starts."""

from config.complaint import Complaint
from config.schema import Config


def complaints(config: Config) -> list[Complaint]:
    """Every tokenizer that cannot be used, and why.  `source` is left to the loader."""
    found = []
    for at, experiment in enumerate(config.experiments):
        if (file := experiment.tokenizer) is None:
            continue
        from analysis.tokenizer import TokenizerError, load  # not loaded where none is asked for

        try:
            load(file)
        except TokenizerError as error:
            expected = "a tokenizer.json that can be read"
            found.append(Complaint("", ("experiments", at, "tokenizer"), expected, str(file), str(error)))
    return found
