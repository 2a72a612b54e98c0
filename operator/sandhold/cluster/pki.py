"""The CA and the movers' certificate as Secrets in the operator's namespace; the operator's own certificate in memory.

The CA is made once, by whichever operator comes first, and survives an uninstall: a CA made by a chart would change
at every GitOps sync, and every running pod trusts this one. What is stored and unreadable is reported with the Secret's
key and never replaced: a new CA would cut every running sandbox off from home, and only a person can say that this is
meant. How certificates look is decided in `certificates.py`; nothing secret is ever part of a message.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric import ed25519

from sandhold import names
from sandhold.cluster import certificates
from sandhold.cluster.certificates import Authority, Damage, Leaf
from sandhold.cluster.door import Door
from sandhold.desired.plan import Reference
from sandhold.desired.world import KubeObject
from sandhold.errors import ConflictError, InvalidError, NotFoundError, UnavailableError

_T = TypeVar("_T")
_LARGEST_VALUE = 64 * 1024
_REMEDIES = {
    names.CA_SECRET: "Restore the Secret from a backup: a new CA would cut every running sandbox off from its mover",
    names.MOVER_TLS_SECRET: "Delete the Secret: the operator makes a new one from its CA",
}

_ATTEMPTS = 5
"""Rounds of read, then create or replace: each lost round means that somebody else's write went through."""


class DamagedSecretError(InvalidError):
    """A Secret of ours holds something that cannot be used, and nothing of it was touched."""


async def ensure_authority(door: Door, namespace: str, now: datetime) -> Authority:
    """The installation's CA: read, or made when there is none. Operators that race settle on the one stored first."""
    reference = _reference(namespace, names.CA_SECRET)
    for _ in range(_ATTEMPTS):
        try:
            return read_authority(await door.get(reference), now)
        except NotFoundError:
            made = certificates.make_authority(now, certificates.new_key(), ed25519.Ed25519PrivateKey.generate())
        try:
            await door.create(authority_secret(made, namespace))
        except ConflictError:
            continue
        return made
    raise UnavailableError(_unsettled(reference))


async def ensure_mover_tls(door: Door, namespace: str, authority: Authority, now: datetime) -> datetime:
    """Have a mover certificate that is not yet due for renewal; returns when it will be due."""
    reference = _reference(namespace, names.MOVER_TLS_SECRET)
    for _ in range(_ATTEMPTS):
        stored = await _get(door, reference)
        if stored is not None:
            leaf = read_mover_tls(stored, authority)
            if now < leaf.renewal_at:
                return leaf.renewal_at
        made = certificates.make_mover_leaf(authority, now, certificates.new_key())
        document = mover_tls_secret(made, authority, namespace)
        try:
            if stored is None:
                await door.create(document)
            else:
                await door.replace({**stored, "data": {**stored["data"], **document["data"]}})
        except (ConflictError, NotFoundError):
            continue
        return made.renewal_at
    raise UnavailableError(_unsettled(reference))


class OperatorTls:
    """The operator's side of its connections to movers: a client certificate that never leaves memory.

    Call it for each dial; it is made anew when two thirds of its life are over.
    """

    def __init__(self, authority: Authority, clock: Callable[[], datetime]) -> None:
        self._authority = authority
        self._clock = clock
        self._renewal_at: datetime | None = None
        self._context: ssl.SSLContext | None = None

    def __call__(self) -> ssl.SSLContext:
        """A context that trusts this installation's CA alone and shows our certificate."""
        now = self._clock()
        if self._context is None or self._renewal_at is None or now >= self._renewal_at:
            leaf = certificates.make_operator_leaf(self._authority, now, certificates.new_key())
            self._context, self._renewal_at = client_context(self._authority, leaf), leaf.renewal_at
        return self._context


def client_context(authority: Authority, leaf: Leaf) -> ssl.SSLContext:
    """TLS 1.3 with both certificates; the server's name is checked whatever address is dialled."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.certificate_pem.decode())
    chain = certificates.pem_of_key(leaf.key) + certificates.pem_of_certificate(leaf.certificate)
    with _in_memory(chain) as path:
        context.load_cert_chain(path)
    return context


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path for a library that reads keys from files only; nothing is put on a disk."""
    descriptor = os.memfd_create("sandhold-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def authority_secret(authority: Authority, namespace: str) -> dict[str, Any]:
    """The CA as the Secret that is stored."""
    data = {
        "ca.crt": authority.certificate_pem,
        "ca.key": certificates.pem_of_key(authority.key),
        "grant.key": certificates.pem_of_key(authority.grant_key),
    }
    return _secret(namespace, names.CA_SECRET, "Opaque", data)


def mover_tls_secret(leaf: Leaf, authority: Authority, namespace: str) -> dict[str, Any]:
    """What a mover mounts: its certificate, whom it trusts, and what it checks grants with."""
    data = {
        "tls.crt": certificates.pem_of_certificate(leaf.certificate),
        "tls.key": certificates.pem_of_key(leaf.key),
        "ca.crt": authority.certificate_pem,
        "grant.pub": authority.grant_public_pem,
    }
    return _secret(namespace, names.MOVER_TLS_SECRET, "kubernetes.io/tls", data)


def read_authority(secret: KubeObject, now: datetime) -> Authority:
    """The CA in a stored Secret, or DamagedSecretError."""
    certificate = _usable(secret, certificates.read_certificate(_bytes(secret, "ca.crt"), "ca.crt"))
    key = _usable(secret, certificates.read_ec_key(_bytes(secret, "ca.key"), "ca.key"))
    grant_key = _usable(secret, certificates.read_grant_key(_bytes(secret, "grant.key"), "grant.key"))
    authority = Authority(certificate, key, grant_key)
    _usable(secret, certificates.authority_damage(authority, now))
    return authority


def read_mover_tls(secret: KubeObject, authority: Authority) -> Leaf:
    """The movers' certificate in a stored Secret, or DamagedSecretError."""
    certificate = _usable(secret, certificates.read_certificate(_bytes(secret, "tls.crt"), "tls.crt"))
    key = _usable(secret, certificates.read_ec_key(_bytes(secret, "tls.key"), "tls.key"))
    leaf = Leaf(certificate, key)
    _usable(secret, certificates.leaf_damage(leaf, authority))
    for name, expected in (("ca.crt", authority.certificate_pem), ("grant.pub", authority.grant_public_pem)):
        if _bytes(secret, name).strip() != expected.strip():
            raise _damaged(secret, Damage(name, f"differs from what the Secret `{names.CA_SECRET}` holds"))
    return leaf


def _secret(namespace: str, name: str, kind: str, data: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, "app.kubernetes.io/name": names.MANAGED_BY},
        },
        "type": kind,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _reference(namespace: str, name: str) -> Reference:
    return Reference("v1", "Secret", namespace, name)


async def _get(door: Door, reference: Reference) -> KubeObject | None:
    try:
        return await door.get(reference)
    except NotFoundError:
        return None


def _bytes(secret: KubeObject, key: str) -> bytes:
    data = secret.get("data")
    value = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(value, str) or not value:
        raise _damaged(secret, Damage(key, "is missing or empty"))
    if len(value) > _LARGEST_VALUE:
        raise _damaged(secret, Damage(key, "is larger than any key or certificate of ours"))
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _damaged(secret, Damage(key, "is not base64")) from error


def _usable(secret: KubeObject, found: _T | Damage) -> _T:
    if isinstance(found, Damage):
        raise _damaged(secret, found)
    return found


def _damaged(secret: KubeObject, damage: Damage) -> DamagedSecretError:
    name = secret["metadata"]["name"]
    where = f"Secret `{secret['metadata']['namespace']}/{name}`, key `{damage.key}`"
    return DamagedSecretError(f"{where}: {damage.why}. {_REMEDIES[name]}.")


def _unsettled(reference: Reference) -> str:
    return (
        f"Secret `{reference.namespace}/{reference.name}` changed {_ATTEMPTS} times while it was read and written; "
        "it is tried again later"
    )
