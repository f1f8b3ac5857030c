"""Which fields of a request say what form its answer is to have?"""

FORM = ("response_format", "structured_outputs", "guided_json", "tools")
