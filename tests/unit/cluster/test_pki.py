"""The installation's CA and what it signs: made once, settled among racers, renewed in time, damage reported."""

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sandhold import names
from sandhold.cluster import certificates, pki
from sandhold.desired.plan import Reference
from sandhold.errors import UnavailableError
from testkit.fake_cluster import FakeCluster
from testkit.faults import Faults, Kind

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOME = "sandhold-system"
CA = Reference("v1", "Secret", HOME, names.CA_SECRET)
TLS = Reference("v1", "Secret", HOME, names.MOVER_TLS_SECRET)


def cluster_at(faults: Faults | None = None) -> FakeCluster:
    cluster = FakeCluster(lambda: NOW, faults)
    cluster.add_namespace(HOME)
    return cluster


def spoil(cluster: FakeCluster, reference: Reference, key: str, value: bytes | None) -> None:
    def change(document: dict[str, Any]) -> None:
        if value is None:
            del document["data"][key]
        else:
            document["data"][key] = base64.b64encode(value).decode()

    cluster.objects.change(reference, change)


async def test_the_ca_is_made_once_and_read_afterwards() -> None:
    cluster = cluster_at()
    first = await pki.ensure_authority(cluster, HOME, NOW)
    second = await pki.ensure_authority(cluster, HOME, NOW + timedelta(days=400))
    assert first.certificate == second.certificate
    assert first.grant_public_pem == second.grant_public_pem
    assert cluster.faults.calls == [f"create Secret {HOME}/{names.CA_SECRET}"]


async def test_creators_that_race_settle_on_one() -> None:
    cluster = cluster_at()

    class Late(FakeCluster):
        """Reads nothing until everybody has looked: every contender believes that it is the first."""

        def __init__(self, shared: FakeCluster, gate: asyncio.Barrier) -> None:
            super().__init__(lambda: NOW, shared.faults)
            self.objects = shared.objects
            self.gate: asyncio.Barrier | None = gate

        async def get(self, reference: Reference) -> Any:
            try:
                return await super().get(reference)
            finally:
                if self.gate is not None:
                    gate, self.gate = self.gate, None
                    await gate.wait()

    gate = asyncio.Barrier(5)
    made = await asyncio.gather(*(pki.ensure_authority(Late(cluster, gate), HOME, NOW) for _ in range(5)))
    assert len(cluster.faults.calls) == 5, "every contender tried to create"
    assert len({authority.certificate_pem for authority in made}) == 1
    assert pki.read_authority(cluster.objects.get(CA), NOW).certificate_pem == made[0].certificate_pem


async def test_an_answer_lost_after_the_commit_leads_to_the_stored_ca() -> None:
    cluster = cluster_at(Faults({0: Kind.DROPPED_ANSWER}))
    with pytest.raises(UnavailableError):
        await pki.ensure_authority(cluster, HOME, NOW)
    stored = pki.read_authority(cluster.objects.get(CA), NOW)
    assert (await pki.ensure_authority(cluster, HOME, NOW)).certificate_pem == stored.certificate_pem


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ca.crt", b"rubbish", "not a PEM certificate"),
        ("ca.key", None, "missing or empty"),
        ("ca.key", b"-----BEGIN PRIVATE KEY-----\nMAo=\n-----END PRIVATE KEY-----\n", "not a PEM private key"),
        ("ca.key", certificates.pem_of_key(certificates.new_key()), "does not belong"),
        ("grant.key", certificates.pem_of_key(certificates.new_key()), "not an Ed25519 key"),
        ("ca.key", certificates.pem_of_key(ed25519.Ed25519PrivateKey.generate()), "not an EC key"),
    ],
)
async def test_a_damaged_ca_is_reported_with_its_key_and_left_alone(key: str, value: bytes | None, words: str) -> None:
    cluster = cluster_at()
    await pki.ensure_authority(cluster, HOME, NOW)
    spoil(cluster, CA, key, value)
    before = cluster.objects.get(CA)
    with pytest.raises(pki.DamagedSecretError) as caught:
        await pki.ensure_authority(cluster, HOME, NOW)
    assert f"`{HOME}/{names.CA_SECRET}`, key `{key}`" in str(caught.value)
    assert words in str(caught.value)
    assert "PRIVATE KEY" not in str(caught.value)
    assert cluster.objects.get(CA) == before


async def test_a_ca_whose_time_is_over_is_reported_and_not_replaced() -> None:
    cluster = cluster_at()
    await pki.ensure_authority(cluster, HOME, NOW)
    with pytest.raises(pki.DamagedSecretError, match=r"ca\.crt.*expired"):
        await pki.ensure_authority(cluster, HOME, NOW + certificates.CA_LIFE)
    assert len(cluster.faults.calls) == 1


async def test_a_leaf_in_the_place_of_the_ca_is_damage() -> None:
    cluster = cluster_at()
    authority = await pki.ensure_authority(cluster, HOME, NOW)
    leaf = certificates.make_mover_leaf(authority, NOW, authority.key)
    spoil(cluster, CA, "ca.crt", certificates.pem_of_certificate(leaf.certificate))
    with pytest.raises(pki.DamagedSecretError, match=r"ca\.crt.*not the certificate of a CA"):
        await pki.ensure_authority(cluster, HOME, NOW)


async def test_the_movers_certificate_is_kept_until_two_thirds_of_its_life() -> None:
    cluster = cluster_at()
    authority = await pki.ensure_authority(cluster, HOME, NOW)
    due = await pki.ensure_mover_tls(cluster, HOME, authority, NOW)
    assert timedelta(days=55) < due - NOW < timedelta(days=62)
    made = cluster.objects.get(TLS)
    assert await pki.ensure_mover_tls(cluster, HOME, authority, due - timedelta(seconds=1)) == due
    assert cluster.objects.get(TLS) == made
    assert await pki.ensure_mover_tls(cluster, HOME, authority, due) > due
    renewed = cluster.objects.get(TLS)
    assert renewed["metadata"]["uid"] == made["metadata"]["uid"]
    assert renewed["data"]["tls.crt"] != made["data"]["tls.crt"]
    assert renewed["data"]["ca.crt"] == made["data"]["ca.crt"]


async def test_what_others_put_on_the_movers_secret_survives_a_renewal() -> None:
    cluster = cluster_at()
    authority = await pki.ensure_authority(cluster, HOME, NOW)
    due = await pki.ensure_mover_tls(cluster, HOME, authority, NOW)
    cluster.objects.change(TLS, lambda document: document["metadata"].update(annotations={"their": "note"}))
    await pki.ensure_mover_tls(cluster, HOME, authority, due)
    assert cluster.objects.get(TLS)["metadata"]["annotations"] == {"their": "note"}


async def test_a_renewal_that_another_operator_wins_is_accepted() -> None:
    cluster = cluster_at()
    authority = await pki.ensure_authority(cluster, HOME, NOW)
    due = await pki.ensure_mover_tls(cluster, HOME, authority, NOW)
    cluster.faults.at[len(cluster.faults.calls)] = Kind.CONFLICT
    assert await pki.ensure_mover_tls(cluster, HOME, authority, due) > due


@pytest.mark.parametrize(
    ("key", "words"), [("tls.crt", "PEM"), ("tls.key", "PEM"), ("ca.crt", "differs"), ("grant.pub", "differs")]
)
async def test_a_damaged_mover_secret_is_reported_and_left_alone(key: str, words: str) -> None:
    cluster = cluster_at()
    authority = await pki.ensure_authority(cluster, HOME, NOW)
    await pki.ensure_mover_tls(cluster, HOME, authority, NOW)
    spoil(cluster, TLS, key, b"rubbish")
    before = cluster.objects.get(TLS)
    with pytest.raises(pki.DamagedSecretError, match=f"key `{key}`.*{words}"):
        await pki.ensure_mover_tls(cluster, HOME, authority, NOW)
    assert cluster.objects.get(TLS) == before


async def test_a_movers_certificate_of_another_ca_is_reported() -> None:
    cluster = cluster_at()
    authority = await pki.ensure_authority(cluster, HOME, NOW)
    await pki.ensure_mover_tls(cluster, HOME, authority, NOW)
    other = certificates.make_authority(NOW, certificates.new_key(), ed25519.Ed25519PrivateKey.generate())
    with pytest.raises(pki.DamagedSecretError, match=r"tls\.crt.*not signed"):
        await pki.ensure_mover_tls(cluster, HOME, other, NOW)


async def test_the_certificates_are_p256_and_for_the_names_of_the_protocol() -> None:
    cluster = cluster_at()
    authority = await pki.ensure_authority(cluster, HOME, NOW)
    mover = certificates.make_mover_leaf(authority, NOW, certificates.new_key())
    operator = certificates.make_operator_leaf(authority, NOW, certificates.new_key())
    for leaf, name in ((mover, "sandhold-mover"), (operator, "sandhold-operator")):
        key = leaf.certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert isinstance(key.curve, ec.SECP256R1)
        alternatives = leaf.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert alternatives.get_values_for_type(x509.DNSName) == [name]
    assert isinstance(load_pem_public_key(authority.grant_public_pem), ed25519.Ed25519PublicKey)


async def test_the_operators_certificate_is_made_anew_when_it_is_due() -> None:
    clock = [NOW]
    authority = await pki.ensure_authority(cluster_at(), HOME, NOW)
    tls = pki.OperatorTls(authority, lambda: clock[0])
    first = tls()
    assert isinstance(first, ssl.SSLContext)
    assert tls() is first
    clock[0] += certificates.LEAF_LIFE * 0.7
    assert tls() is not first


def test_nothing_secret_is_printed() -> None:
    authority = certificates.make_authority(NOW, certificates.new_key(), ed25519.Ed25519PrivateKey.generate())
    leaf = certificates.make_mover_leaf(authority, NOW, certificates.new_key())
    assert "PRIVATE" not in f"{authority!r}{leaf!r}"
    assert "key=" not in f"{authority!r}{leaf!r}"
