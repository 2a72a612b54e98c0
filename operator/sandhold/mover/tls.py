"""The mover's certificate, whom it trusts and what it checks grants with: files that change while we run."""

import logging
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sandhold.errors import InvalidError
from sandhold.names import OPERATOR_TLS_NAME

_FILES = ("tls.crt", "tls.key", "ca.crt", "grant.pub")
_PEM_END = b"-----END PUBLIC KEY-----"

_log = logging.getLogger(__name__)


class TlsFilesError(InvalidError):
    """A file is absent or not usable. The message names the folder, never a content."""


class TlsFiles:
    """What is in force: the last set of files that was usable as a whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamp: tuple[object, ...] = ()
        self._load()

    def for_keepers(self) -> ssl.SSLContext:
        """For the port where keepers call home: they prove themselves by a token."""
        self._refresh()
        return self._keepers

    def for_operators(self) -> ssl.SSLContext:
        """For the operator's port: a certificate from our CA is demanded in the handshake."""
        self._refresh()
        return self._operators

    def grant_keys(self) -> tuple[Ed25519PublicKey, ...]:
        """Whose grants count."""
        self._refresh()
        return self._grant_keys

    def _refresh(self) -> None:
        try:
            if self._stamp_now() != self._stamp:
                self._load()
        except (TlsFilesError, OSError) as error:
            _log.error("%s; the files in force stay in force", error)

    def _stamp_now(self) -> tuple[object, ...]:
        stats = [(self._folder / name).stat() for name in _FILES]
        return tuple((found.st_mtime_ns, found.st_ino, found.st_size) for found in stats)

    def _load(self) -> None:
        try:
            stamp = self._stamp_now()
            keepers, operators = self._context(), self._context()
            operators.load_verify_locations(self._folder / "ca.crt")
            operators.verify_mode = ssl.CERT_REQUIRED
            grant_keys = read_grant_keys((self._folder / "grant.pub").read_bytes())
        except (OSError, ssl.SSLError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise TlsFilesError(
                f"{self._folder} must hold usable {', '.join(_FILES)} ({reason}); the operator writes them as a Secret"
            ) from error
        self._keepers, self._operators, self._grant_keys, self._stamp = keepers, operators, grant_keys, stamp

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # A connection lasts for hours: tickets would only cost memory.
        context.num_tickets = 0
        context.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")
        return context


def read_grant_keys(pem: bytes) -> tuple[Ed25519PublicKey, ...]:
    """The Ed25519 keys in a file; several while one replaces another."""
    blocks = [block + _PEM_END for block in pem.split(_PEM_END)[:-1]]
    keys = [load_pem_public_key(block.strip()) for block in blocks]
    found = tuple(key for key in keys if isinstance(key, Ed25519PublicKey))
    if not found or len(found) != len(keys):
        raise ValueError("not Ed25519 public keys in PEM")
    return found


def is_operator(peer: ssl.SSLObject | None) -> bool:
    """Whether a verified peer certificate is the operator's: a mover's own comes from the same CA."""
    certificate = peer.getpeercert() if peer is not None else None
    names = certificate.get("subjectAltName", ()) if certificate else ()
    return ("DNS", OPERATOR_TLS_NAME) in names
