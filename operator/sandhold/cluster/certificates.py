"""The installation's keys and certificates as values: made from keys and a clock, read from bytes and judged.

Everything here is a function of its arguments: no Secret is read or written, no clock asked (`pki.py` does that).
TLS keys are EC P-256; grants are signed with Ed25519. Leaves live for 90 days and are made anew after two thirds of
that; the CA lives for twenty years, because every pod that runs carries its certificate.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sandhold.names import MOVER_TLS_NAME, OPERATOR_TLS_NAME

CA_NAME = "sandhold-ca"
CA_LIFE = timedelta(days=20 * 365)
LEAF_LIFE = timedelta(days=90)
BACKDATED = timedelta(minutes=10)
"""Certificates begin this much before they are made: nodes' clocks differ."""


@dataclass(frozen=True, slots=True, repr=False)
class Authority:
    """The installation's CA and the key that signs grants. Never printed."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    grant_key: ed25519.Ed25519PrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """What a keeper, a mover and the operator trust."""
        return pem_of_certificate(self.certificate)

    @property
    def grant_public_pem(self) -> bytes:
        """What a mover checks grants with."""
        return self.grant_key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


@dataclass(frozen=True, slots=True, repr=False)
class Leaf:
    """A certificate for one name, with its key. Never printed."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def renewal_at(self) -> datetime:
        """Two thirds of the way through its life: when it is to be made anew."""
        begin, end = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        return begin + (end - begin) * 2 / 3


@dataclass(frozen=True, slots=True)
class Damage:
    """Why stored material cannot be used: the key of the Secret, and what is wrong with it (never its content)."""

    key: str
    why: str


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh TLS key."""
    return ec.generate_private_key(ec.SECP256R1())


def pem_of_certificate(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_of_key(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    """A private key as PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(name: str, now: datetime, life: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def make_authority(now: datetime, key: ec.EllipticCurvePrivateKey, grant_key: ed25519.Ed25519PrivateKey) -> Authority:
    """The CA that signs itself. It may sign leaves only (path length 0)."""
    builder = _builder(CA_NAME, now, CA_LIFE)
    certificate = (
        builder.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CA_NAME)]))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key, grant_key)


def _make_leaf(
    authority: Authority, now: datetime, name: str, key: ec.EllipticCurvePrivateKey, usage: x509.ObjectIdentifier
) -> Leaf:
    """A leaf never outlives the CA: what verifies it would refuse it then anyway."""
    life = min(LEAF_LIFE, authority.certificate.not_valid_after_utc - now)
    certificate = (
        _builder(name, now, life)
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Leaf(certificate, key)


def make_mover_leaf(authority: Authority, now: datetime, key: ec.EllipticCurvePrivateKey) -> Leaf:
    """The certificate that movers serve with."""
    return _make_leaf(authority, now, MOVER_TLS_NAME, key, ExtendedKeyUsageOID.SERVER_AUTH)


def make_operator_leaf(authority: Authority, now: datetime, key: ec.EllipticCurvePrivateKey) -> Leaf:
    """The certificate that the operator shows to movers."""
    return _make_leaf(authority, now, OPERATOR_TLS_NAME, key, ExtendedKeyUsageOID.CLIENT_AUTH)


def read_certificate(data: bytes, key_name: str) -> x509.Certificate | Damage:
    """One PEM certificate."""
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        return Damage(key_name, "is not a PEM certificate")


def read_ec_key(data: bytes, key_name: str) -> ec.EllipticCurvePrivateKey | Damage:
    """One EC private key in PEM, without a password."""
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        return Damage(key_name, "is not a PEM private key without password")
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else Damage(key_name, "is not an EC key")


def read_grant_key(data: bytes, key_name: str) -> ed25519.Ed25519PrivateKey | Damage:
    """One Ed25519 private key in PEM, without a password."""
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        return Damage(key_name, "is not a PEM private key without password")
    return key if isinstance(key, ed25519.Ed25519PrivateKey) else Damage(key_name, "is not an Ed25519 key")


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def authority_damage(authority: Authority, now: datetime) -> Damage | None:
    """What makes readable material unusable as a CA, if anything."""
    if authority.certificate.public_key() != authority.key.public_key():
        return Damage("ca.key", "does not belong to the certificate in `ca.crt`")
    if not _may_sign(authority.certificate):
        return Damage("ca.crt", "is not the certificate of a CA")
    if now >= authority.certificate.not_valid_after_utc:
        ended = authority.certificate.not_valid_after_utc.astimezone(UTC).isoformat()
        return Damage("ca.crt", f"expired on {ended}")
    return None


def leaf_damage(leaf: Leaf, authority: Authority) -> Damage | None:
    """What makes a readable leaf unusable, whatever the time is (an old one is no damage: it is renewed)."""
    if leaf.certificate.public_key() != leaf.key.public_key():
        return Damage("tls.key", "does not belong to the certificate in `tls.crt`")
    try:
        leaf.certificate.verify_directly_issued_by(authority.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return Damage("tls.crt", "was not signed by the CA of this installation")
    return None
