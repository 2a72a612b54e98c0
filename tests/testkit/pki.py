"""Certificates, grants and TLS contexts of one installation, as the mover and its peers find them in files."""

import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519

from sandhold.cluster import certificates
from sandhold.cluster.certificates import Authority, Leaf
from sandhold.cluster.pki import client_context
from sandhold.mover.grant import Grant, sign_grant


@dataclass(frozen=True)
class Installation:
    """One CA and what it has signed. `installation_id` stands in every grant."""

    authority: Authority
    installation_id: str = "test-installation"

    @classmethod
    def new(cls, installation_id: str = "test-installation") -> "Installation":
        authority = certificates.make_authority(
            datetime.now(UTC), certificates.new_key(), ed25519.Ed25519PrivateKey.generate()
        )
        return cls(authority, installation_id)

    def write_mover_tls(self, folder: Path) -> None:
        """What the Secret holds that a mover mounts."""
        leaf = certificates.make_mover_leaf(self.authority, datetime.now(UTC), certificates.new_key())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tls.crt").write_bytes(certificates.pem_of_certificate(leaf.certificate))
        (folder / "tls.key").write_bytes(certificates.pem_of_key(leaf.key))
        (folder / "ca.crt").write_bytes(self.authority.certificate_pem)
        (folder / "grant.pub").write_bytes(self.authority.grant_public_pem)

    def keeper_tls(self) -> ssl.SSLContext:
        """What a keeper dials with: it trusts the CA and shows nothing."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cadata=self.authority.certificate_pem.decode())
        return context

    def operator_tls(self) -> ssl.SSLContext:
        """What the operator dials with."""
        return self.tls_as(certificates.make_operator_leaf(self.authority, datetime.now(UTC), certificates.new_key()))

    def mover_client_tls(self) -> ssl.SSLContext:
        """A mover's own certificate in a client's hand: from the right CA, for the wrong name."""
        return self.tls_as(certificates.make_mover_leaf(self.authority, datetime.now(UTC), certificates.new_key()))

    def tls_as(self, leaf: Leaf) -> ssl.SSLContext:
        """A client with a certificate."""
        return client_context(self.authority, leaf)

    def grant(self, verb: str, pod_uid: str, slot: str, *, signed_by: Any = None, **fields: Any) -> str:
        """A signed grant; `fields` replace what a test does not care about."""
        content = {
            "installation": self.installation_id,
            "pod_uid": pod_uid,
            "slot": slot,
            "verb": verb,
            "epoch": 1,
            "sequence": 1 if verb == "archive" else 0,
            "store": "main",
            "max_bytes": 1 << 30,
            "max_files": 100_000,
            "expires": int(time.time()) + 600,
            **fields,
        }
        return sign_grant(Grant.model_validate(content), signed_by or self.authority.grant_key)
