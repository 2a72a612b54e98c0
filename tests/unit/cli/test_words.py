"""Small things in words, and the one size of a duration that a person may write."""

from datetime import UTC, datetime

import pytest
import typer

from sandhold.cli.call import duration
from sandhold.cli.printing import clean, size
from sandhold.cli.words import age, span, until

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("0.5s", 0.5), (" 2m ", 120)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "m", "5x", "1h m", "1..5s", "99999h", "٣s", "5 m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="no duration"):
        duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d")],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_times() -> None:
    assert age("2026-11-30T11:58:00Z", NOW) == "2m"
    assert until("2026-11-30T12:00:30Z", NOW) == "in 30s"
    assert until("2026-11-30T11:59:00Z", NOW) == "60s ago"
    for nothing in (None, "", "yesterday", "2026-11-30T11:58:00"):
        assert age(nothing, NOW) == until(nothing, NOW) == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, ""), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB"), (1 << 52, "4096.0 TiB")],
)
def test_sizes(count: int | None, text: str) -> None:
    assert size(count) == text


def test_nothing_that_steers_a_terminal_gets_through() -> None:
    assert clean("a\x1b[31mred\x1b]0;title\x07\r\nb\u202ec\x00") == "a [31mred ]0;title b c"
