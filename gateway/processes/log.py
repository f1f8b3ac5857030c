"""How a process writes its log: JSON lines to stderr, or coloured text where a person watches."""

import logging
import sys
from collections.abc import Callable
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRET = frozenset({"api_key", "authorization", "x-api-key", "cookie", "salt", "secret", "prefix_key"})

Processor = Callable[[WrappedLogger, str, EventDict], Any]


def logger(process: str, stream: TextIO | None = None, *, level: str = "info", style: str = "auto") -> Any:
    """A structlog logger whose every line names `process`.

    `style` is json, console, or auto: console where the stream is a terminal.  Values under names that hold
    credentials are masked.  Nothing global is configured: two loggers in one process live apart.
    """
    out = sys.stderr if stream is None else stream
    return structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=_processors(process, out, style),
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        cache_logger_on_first_use=True,
    )


def configure(process: str, *, level: str = "info", style: str = "auto") -> Any:
    """Set up logging for the whole of this process, once at its start; gives its logger.

    `structlog.get_logger()` anywhere then writes the same lines, and what libraries log at WARNING or above
    (aiohttp, asyncio) goes the same way.
    """
    structlog.configure(
        processors=_processors(process, sys.stderr, style),
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    log = structlog.get_logger()
    root = logging.getLogger()
    root.handlers = [_Handler(log)]
    root.setLevel(logging.WARNING)
    return log


def _processors(process: str, out: TextIO, style: str) -> list[Processor]:
    def named(_log: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.setdefault("process", process)
        return event

    first: list[Processor] = [
        named,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _mask,
    ]
    if style == "console" or (style == "auto" and out.isatty()):
        # Not structlog's own choice, which is rich where that is found: it writes out local variables, and so
        # prompts and keys.
        plain = structlog.dev.plain_traceback
        return [
            *first,
            structlog.dev.ConsoleRenderer(colors=out.isatty(), sort_keys=False, exception_formatter=plain),
        ]
    return [
        *first,
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(default=str),
    ]


class _Handler(logging.Handler):
    """Passes standard library records on."""

    def __init__(self, log: Any) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log it at the nearest level."""
        level = "error" if record.levelno >= logging.ERROR else "warning"
        exc_info = record.exc_info if record.exc_info and record.exc_info[0] else None
        getattr(self._log, level)(record.getMessage(), logger=record.name, exc_info=exc_info)


def _mask(_log: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for name in event:
        if name.lower() in _SECRET:
            event[name] = "***"
    return event


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]
