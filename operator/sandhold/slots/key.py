"""PURE: which slot a session writes to, as a hash that names the slot's place in the store.

A slot is told apart by installation, namespace, tenant, scope and identity. Only the `Session` scope without an
explicit session id exists so far: there the session object's name is the identity, and the name is the lock.
"""

import hashlib

_VERSION = "v1"
_SCOPE_SESSION = "Session"
HASH_LENGTH = 32


def slot_key(*, installation: str, namespace: str, sandbox: str, session: str, tenant: str = "") -> str:
    """The slot of a session of its own: 32 hexadecimal digits, the same for whoever computes them.

    Every part is preceded by its length, so no two different lists of parts can look alike.
    """
    digest = hashlib.sha256()
    for part in (_VERSION, installation, namespace, tenant, _SCOPE_SESSION, sandbox, f"name/{session}"):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()[:HASH_LENGTH]
