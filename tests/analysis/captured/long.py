"""Which captured streams are long: of engines that were full, that were killed, that said little but blanks?

`events` and `characters` were counted by grep and by hand-joined JSON, not by the readers.
"""

from tests.analysis.captured._captured import CHAT, COMPLETIONS, Long

LONG = (
    Long(
        "vllm_opts/overflow0.sse",
        COMPLETIONS,
        " readlinevoied '--attern",
        "ition purpoonicD",
        3061,
        576,
        "length",
    ),
    Long(
        "vllm_opts/overflow1.sse",
        COMPLETIONS,
        '("\\ Other---------------',
        "rsingianphabet64",
        3016,
        578,
        "length",
    ),
    Long(
        "vllm_opts/overflow2.sse",
        COMPLETIONS,
        'Se! each"{docstringpy fi',
        "ndsencode ro key",
        2964,
        585,
        "length",
    ),
    Long(
        "vllm_opts/overflow3.sse",
        COMPLETIONS,
        "ownphabetnormalize depth",
        "inasciitkinter['",
        2866,
        582,
        "length",
    ),
    Long(
        "vllm_opts/sigterm_stream.sse",
        COMPLETIONS,
        "its letily breakpointjus",
        "=========== from",
        7551,
        1490,
        None,
        "EngineCore encountered an issue",
    ),
    Long(
        "sglang_opts/overflow1.sse",
        COMPLETIONS,
        "casestd powRPseparatorle",
        'pare behavior("<',
        929,
        192,
        "length",
    ),
    Long("sglang/chat_tools.sse", CHAT, "[                       ", "                ", 605, 30, "length"),
    Long(
        "dynamo/kill9_mocker_stream.sse",
        COMPLETIONS,
        " {} warnings cannotnorma",
        "yfield bofinitLF",
        2659,
        528,
        None,
        "Service temporarily unavailable",
    ),
    Long(
        "llamacpp/kill9_stream.sse",
        COMPLETIONS,
        "-2^12 = 1440.\n\nThis equa",
        "em showcases the",
        141,
        62,
        None,
    ),
)
