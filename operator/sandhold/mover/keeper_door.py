"""The port where keepers call home. Hostile pods reach it too: who a peer is comes before anything it wants.

The life of a connection: accepted (counted by address) → TLS and one small frame within 10 s → token reviewed → proven
(counted by pod) → control, archive or restore → closed. Whatever fails before `welcome` ends it and costs little.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Coroutine
from contextlib import suppress
from enum import StrEnum
from typing import Any

from sandhold.errors import ForbiddenError, SandholdError, UnavailableError
from sandhold.logs import about
from sandhold.mover import metrics, wire
from sandhold.mover.admission import Admission, RefusedError, Ticket
from sandhold.mover.door import Tasks, secure
from sandhold.mover.grant import Grant, GrantError, Verb, verify_grant
from sandhold.mover.identity import Identity, ProofError, TokenReviewer
from sandhold.mover.keepers import Keeper, Keepers
from sandhold.mover.limits import Limits
from sandhold.mover.line import Line
from sandhold.mover.messages import Hello, Purpose, parse, parse_report
from sandhold.mover.tls import TlsFiles
from sandhold.mover.transfers import Transfers
from sandhold.mover.wire import FrameError, Message, PeerGoneError

_SHORTEST_BETWEEN_REPORTS = 0.01

_log = logging.getLogger(__name__)


class Refusal(StrEnum):
    """Why a connection came to nothing: the codes of `refused`, and what is hung up on without a word."""

    TOKEN_REFUSED = "token_refused"  # noqa: S105 - a code, no secret
    REVIEW_UNAVAILABLE = "review_unavailable"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    GRANT_REFUSED = "grant_refused"
    TOO_FAST = "too_fast"
    DISPLACED = "displaced"
    TIMED_OUT = "timed_out"
    NO_TLS = "no_tls"
    NO_HELLO = "no_hello"
    HUNG_UP = "hung_up"


_WORDLESS: tuple[tuple[type[Exception], Refusal], ...] = (
    (TimeoutError, Refusal.TIMED_OUT),
    (ssl.SSLError, Refusal.NO_TLS),
    (FrameError, Refusal.NO_HELLO),
    (PeerGoneError, Refusal.HUNG_UP),
    (OSError, Refusal.HUNG_UP),
)
"""The first that fits. Other errors were told to the peer, and counted when they were."""


class KeeperDoor:
    """All connections to the keepers' port."""

    def __init__(
        self, tls: TlsFiles, reviewer: TokenReviewer, keepers: Keepers, transfers: Transfers, limits: Limits
    ) -> None:
        self._tls = tls
        self._reviewer = reviewer
        self._keepers = keepers
        self._transfers = transfers
        self._limits = limits
        self._admission = Admission(limits, time.monotonic)
        self.proving = Tasks()
        self.control = Tasks()
        self.transferring = Tasks()
        metrics.CONNECTIONS.labels("unproven").set_function(lambda: self._admission.unproven)
        metrics.CONNECTIONS.labels("review").set_function(lambda: self._admission.in_review)
        metrics.CONNECTIONS.labels("proven").set_function(lambda: self._admission.proven)

    def accepted(self, connection: socket.socket, address: str) -> None:
        """A new connection."""
        task: asyncio.Task[None] | None = None

        def displace() -> None:
            if task is not None:
                _count(Refusal.DISPLACED)
                task.cancel()

        try:
            ticket = self._admission.enter(address, displace)
        except RefusedError as error:
            _count(Refusal.TOO_FAST)
            _log.debug("%s: %s", address, error)
            connection.close()
            return
        task = self.proving.start(self._prove(connection, ticket))

    async def _prove(self, connection: socket.socket, ticket: Ticket) -> None:
        """From the first byte to `welcome`; a proven connection goes on in a task of its own kind."""
        line: Line | None = None
        try:
            async with asyncio.timeout(self._limits.proving_seconds):
                line = await secure(connection, self._tls.for_keepers())
                hello = parse(Hello, (await line.receive(limit=wire.LIMIT_HELLO)).message())
            identity = await self._identify(line, hello, ticket)
            self._welcome(line, hello, identity, ticket)
            line = None
        except (TimeoutError, ssl.SSLError, OSError, SandholdError, RefusedError) as error:
            for kind, refusal in _WORDLESS:
                if isinstance(error, kind):
                    _count(refusal)
                    break
            _log.debug("%s: not proven: %s", ticket.address, error)
        finally:
            if ticket.pod_uid is None:
                self._admission.leave(ticket)
            if line is not None:
                line.close()

    async def _identify(self, line: Line, hello: Hello, ticket: Ticket) -> Identity:
        """Whose token this is; a peer whose token proves nothing is told so once."""
        try:
            self._admission.review(ticket, proved_before=self._reviewer.has_proved(hello.token))
            identity = await self._reviewer.identify(hello.token)
            self._admission.prove(ticket, identity.pod_uid)
        except ProofError as error:
            if self._admission.fail(ticket):
                _log.warning("a token from %s was refused: %s", ticket.address, error)
            await self._refuse(line, Refusal.TOKEN_REFUSED, str(error))
            raise
        except (ForbiddenError, UnavailableError) as error:
            _log.error("tokens cannot be reviewed: %s", error)
            await self._refuse(line, Refusal.REVIEW_UNAVAILABLE, str(error))
            raise
        except RefusedError as error:
            await self._refuse(line, Refusal.TOO_MANY_CONNECTIONS, str(error))
            raise
        return identity

    def _welcome(self, line: Line, hello: Hello, identity: Identity, ticket: Ticket) -> None:
        if hello.purpose is Purpose.CONTROL:
            tasks, work = self.control, self._control(line, identity)
        else:
            tasks, work = self.transferring, self._transfer(line, hello, identity)
        # Whatever is logged from here on, in tasks and threads too, says which pod it is about.
        with about(kind="Pod", namespace=identity.namespace, name=identity.pod_name, uid=identity.pod_uid):
            tasks.start(self._proven(line, ticket, work))

    async def _proven(self, line: Line, ticket: Ticket, work: Coroutine[Any, Any, None]) -> None:
        """The rest of a proven connection's life."""
        try:
            await work
        except (PeerGoneError, FrameError) as error:
            _log.info("the connection ended: %s", error)
        finally:
            self._admission.leave(ticket)
            line.close()

    async def _control(self, line: Line, identity: Identity) -> None:
        await line.say(_greeting(identity))
        keeper = Keeper(identity, line)
        self._keepers.attach(keeper)
        last = 0.0
        try:
            while True:
                message = (await line.receive()).message()
                if message.get("type") == "report":
                    # A keeper that says more than it should is read more slowly.
                    await asyncio.sleep(max(0.0, last + _SHORTEST_BETWEEN_REPORTS - time.monotonic()))
                    last = time.monotonic()
                    self._keepers.update(keeper, parse_report(message))
                elif message.get("type") != "ping":
                    raise FrameError("a message that a keeper does not send on its control connection")
        finally:
            self._keepers.detach(keeper)

    async def _transfer(self, line: Line, hello: Hello, identity: Identity) -> None:
        try:
            grant = self._check_grant(hello, identity)
        except GrantError as error:
            _log.warning("a grant was refused: %s", error)
            await self._refuse(line, Refusal.GRANT_REFUSED, str(error))
            return
        await self._transfers.run(line, grant, _greeting(identity))

    def _check_grant(self, hello: Hello, identity: Identity) -> Grant:
        verb = Verb.ARCHIVE if hello.purpose is Purpose.ARCHIVE else Verb.RESTORE
        return verify_grant(hello.grant, self._tls.grant_keys(), verb=verb, pod_uid=identity.pod_uid, now=time.time())

    async def _refuse(self, line: Line, code: Refusal, message: str) -> None:
        _count(code)
        with suppress(PeerGoneError):
            await line.say({"type": "refused", "code": code.value, "message": message}, self._limits.linger_seconds)


def _greeting(identity: Identity) -> Message:
    return {"type": "welcome", "version": wire.PROTOCOL_VERSION, "podUid": identity.pod_uid}


def _count(reason: Refusal) -> None:
    metrics.REFUSED_HELLOS.labels(reason.value).inc()
