"""PURE: small things in words for people: how long ago, how long until."""

from datetime import UTC, datetime

from sandhold.api.meta import moment


def age(text: str | None, now: datetime | None = None) -> str:
    """How long ago a time was, as kubectl writes it."""
    then = moment(text)
    return "" if then is None else span(((now or datetime.now(UTC)) - then).total_seconds())


def until(text: str | None, now: datetime | None = None) -> str:
    """How long until a time, or that it is over."""
    then = moment(text)
    if then is None:
        return ""
    seconds = (then - (now or datetime.now(UTC))).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def span(seconds: float) -> str:
    """A time span in its largest sensible unit."""
    whole = max(0, int(seconds))
    for size, unit, most in ((1, "s", 120), (60, "m", 120 * 60), (3600, "h", 48 * 3600)):
        if whole < most:
            return f"{whole // size}{unit}"
    return f"{whole // 86400}d"
