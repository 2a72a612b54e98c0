"""What a caller at the edge of the process must tell apart, and nothing else.

Four kinds at the cluster door and one at the mover's. Pure code raises none of them: what is expected there is a
condition or a refusal, never an exception. Library exceptions are chained to these, so that nothing is lost on the way.
"""


class SandholdError(Exception):
    """Every error that Sandhold raises on purpose."""


class InvalidError(SandholdError):
    """The API server or the configuration says the request can never succeed as it is: a person must act."""


class ConflictError(SandholdError):
    """The world moved on (409, 412, a failed JSON-patch test): look again at once."""


class NotFoundError(SandholdError):
    """A confirmed absence (404), never a read that failed."""


class UnavailableError(SandholdError):
    """No answer, or one that says later (429, 5xx, a broken connection): look again after a while.

    `retry_after` holds the seconds that the other side asked us to stay away, if it said so.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ForbiddenError(SandholdError):
    """Our rights do not suffice (401, 403): the installation is wrong, and loudly so."""
