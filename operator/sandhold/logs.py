"""The log of every program: one JSON object a line on standard error, or lines of text for people.

Fields in this order: `ts`, `level`, `logger`, `msg`, then `kind`, `namespace`, `name`, `uid`, `pass`, `reason` where
they are known, then whatever was given as `extra`. What a line is about is said once, by `about`, for all that is
logged within. Sizes are bounded: pods, stores and users write some of the words. No object, token or key is ever to be
part of a line; what looks like one is struck out all the same, since an error's words may quote anything.

It decides nothing of what is logged, keeps no files, and knows no program.
"""

import json
import logging
import math
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

LogFormat = Literal["json", "text"]
LONGEST_MESSAGE = 2048
LONGEST_VALUE = 1024
LONGEST_TRACE = 8192
MARGIN = 4096
"""More than any token or grant is long: one that the cut would halve is seen whole before."""
MOST_FIELDS = 32
REMOVED = "[removed]"

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FIRST = ("kind", "namespace", "name", "uid", "pass", "reason")
# JSON web tokens and our grants (both begin with the base64 of a brace and a quote), bearer headers, private keys.
_SECRETS = re.compile(
    r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*"
    r"|(?i:(?<=bearer )[^\s'\",}]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_subject: ContextVar[Mapping[str, object]] = ContextVar("sandhold_log_subject", default={})  # noqa: B039 - never changed


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Have every line that is logged within (and by tasks made within) say what it is about."""
    token = _subject.set({**_subject.get(), **{key: value for key, value in fields.items() if value is not None}})
    try:
        yield
    finally:
        _subject.reset(token)


def configure(level: str, form: LogFormat = "json") -> None:
    """Set the whole process's log up. Only our own words follow the level: libraries log credentials at DEBUG."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(calm)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("sandhold").setLevel(level.upper())
    sys.excepthook = _log_crash


def calm(record: logging.LogRecord) -> bool:
    """Lower what kopf calls an error to a warning.

    It logs each request that it is about to repeat as one, and the last of them just before it gives up. Every
    watch repeats requests whenever the API server restarts, which is no error; a watch that is really lost ends the
    process, and the line about that is our own.
    """
    if record.name.partition(".")[0] == "kopf" and record.levelno > logging.WARNING:
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True


class JsonLines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return json.dumps(_fields(record, self))


class TextLines(logging.Formatter):
    """A record for people: time, level, logger, message, and the fields as `key=value`. A trace follows indented."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, or several with a trace."""
        fields = _fields(record, self)
        trace = str(fields.pop("trace", ""))
        head = f"{fields.pop('ts')} {fields.pop('level'):<8} {fields.pop('logger')}: {_one_line(fields.pop('msg'))}"
        line = " ".join([head, *(f"{key}={_one_line(value)}" for key, value in fields.items())])
        return "\n    ".join([line, *trace.splitlines()])


def _fields(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, Any]:
    moment = datetime.fromtimestamp(record.created, UTC)
    fields: dict[str, Any] = {
        "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": record.name,
        "msg": bounded(_message(record), LONGEST_MESSAGE),
    }
    given = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    known = {**_subject.get(), **given}
    for key in [*(key for key in _FIRST if key in known), *(key for key in known if key not in _FIRST)][:MOST_FIELDS]:
        fields.setdefault(key, _value(known[key]))
    if record.exc_info:
        fields["trace"] = _tail(formatter.formatException(record.exc_info), LONGEST_TRACE)
    return fields


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        # Words and arguments that do not fit together are a defect of ours, but no reason to lose the line.
        return f"{record.msg} {record.args!r}"


def _value(value: object) -> object:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return bounded(value if isinstance(value, str) else str(value), LONGEST_VALUE)


def bounded(text: str, longest: int) -> str:
    """At most so much of a text, with what looks like a secret struck out, and nothing that is no text."""
    cut = _without_secrets(text[: longest + MARGIN])
    return cut if len(cut) <= longest else f"{cut[:longest]}… ({len(text)} characters)"


def _tail(text: str, longest: int) -> str:
    """The end of a trace tells more than its beginning."""
    if len(text) <= longest:
        return _without_secrets(text)
    return f"…{_without_secrets(text[-longest - MARGIN :])[-longest:]}"


def _without_secrets(text: str) -> str:
    """The search costs something, so the text is bounded already; half a secret at the edge is cut off afterwards."""
    return _SECRETS.sub(REMOVED, text).encode(errors="replace").decode()


def _one_line(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)


def _log_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger("sandhold").critical(
        "the program ends in an error that nobody foresaw", exc_info=(kind, error, trace)
    )
