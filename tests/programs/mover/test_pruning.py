"""Checkpoints that newer ones make superfluous go, and nothing else, whoever prunes and whatever happens meanwhile."""

import hashlib
from contextlib import closing
from typing import Any, BinaryIO

import pytest

from sandhold.snapshots.catalogue import Catalogue, ManifestMissingError, StaleGenerationError
from sandhold.snapshots.draft import ManifestDraft
from sandhold.snapshots.mac import parse_mac_keys
from sandhold.snapshots.manifest import Generation, Header, Layer, Place, layer_name
from sandhold.snapshots.pruning import MOST_AT_ONCE, Pruned, prune
from sandhold.snapshots.stores.credentials import StoreCredentials
from sandhold.snapshots.stores.protocol import ListedObject, StoreUnavailableError
from sandhold.snapshots.stores.s3 import S3Store
from sandhold.snapshots.stores.settings import S3StoreConfig
from sandhold.snapshots.summary import VerifiedManifests
from testkit.mover_process import MAC_KEYS, MoverProcess, Pod, eventually
from testkit.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

KEYS = parse_mac_keys('{"current": "k1", "keys": {"k1": "' + MAC_KEYS["keys"]["k1"] + '"}}')
POD = "the-pod"


class Slot:
    """A slot of a real store, whose objects a test makes old."""

    def __init__(self, s3: S3Server, name: str, store: type[S3Store] = S3Store) -> None:
        config = S3StoreConfig.model_validate({"type": "s3", "endpoint": s3.endpoint, "bucket": s3.bucket})
        self.store = store("main", config, StoreCredentials(ACCESS_KEY, SECRET_KEY, KEYS))
        self.place = Place("sandboxes/", "test-installation", name)
        self.catalogue = Catalogue(self.store, self.place, KEYS, VerifiedManifests())
        self._s3 = s3

    def archive(self, content: str, *, epoch: int = 1, final: bool = False, pod: str = POD, layer: str = "") -> Header:
        """Store an archive, older by a thousand seconds than the next one."""
        name = layer or layer_name(hashlib.sha256(f"{self.place.slot}{epoch}{content}".encode()).hexdigest()[:32])
        data = content.encode()
        if not layer:
            self._s3.put(self.place.layer_key(name), data)
        layers = (Layer(name, hashlib.sha256(data).hexdigest(), len(data), len(data)),)
        header = self.catalogue.archive_header(
            Generation(epoch, 1), final=final, parent=None, pod_uid=pod, layers=layers, files=0, content_bytes=0
        )
        for generation in self.generations():
            self._s3.make_older(self.place.manifest_key(generation), 1000)
        with closing(ManifestDraft()) as draft:
            return self.catalogue.commit(header, draft, self.catalogue.newest(epoch)).header

    def generations(self) -> list[Generation]:
        listed = (self.place.generation_of(key) for key in self._s3.list_keys(self.place.folder))
        return sorted(found for found in listed if found is not None)

    def sequences(self, epoch: int = 1) -> list[int]:
        return [found.sequence for found in self.generations() if found.epoch == epoch]

    def layers(self) -> int:
        return len(self._s3.list_keys(self.place.layer_key("layers/")))


@pytest.fixture
def slot(s3: S3Server, pod: Pod) -> Slot:
    return Slot(s3, pod.slot)


def archives(slot: Slot, count: int, **fields: Any) -> Header:
    """So many checkpoints; the newest."""
    return [slot.archive(f"state {number}", **fields) for number in range(count)][-1]


def test_the_newest_two_stay_and_the_rest_goes_with_its_layers(slot: Slot) -> None:
    newest = archives(slot, 5)
    assert prune(slot.catalogue, newest) == Pruned(manifests=3)
    assert (slot.sequences(), slot.layers()) == ([4, 5], 2)
    assert prune(slot.catalogue, newest) == Pruned()


def test_a_final_archive_stays_for_ever(slot: Slot) -> None:
    for number, final in enumerate((False, True, False, True, False, False, False)):
        newest = slot.archive(f"state {number}", final=final)
    assert prune(slot.catalogue, newest).manifests == 3
    assert (slot.sequences(), slot.layers()) == ([2, 4, 6, 7], 4)


def test_what_was_stored_within_a_minute_stays(slot: Slot, s3: S3Server) -> None:
    newest = archives(slot, 4)
    for generation in slot.generations():
        s3.make_older(slot.place.manifest_key(generation), 0)
    assert prune(slot.catalogue, newest) == Pruned()
    assert slot.sequences() == [1, 2, 3, 4]


def test_another_pods_archive_stays(slot: Slot) -> None:
    slot.archive("a stranger's", pod="a stranger")
    newest = archives(slot, 3)
    assert prune(slot.catalogue, newest).manifests == 1
    assert slot.sequences() == [1, 3, 4]


def test_a_stale_pod_prunes_nothing(slot: Slot) -> None:
    newest = archives(slot, 4)
    slot.catalogue.fence(2, newest.generation, "the next pod")
    newest = slot.archive("stale")
    assert prune(slot.catalogue, newest) == Pruned()
    assert slot.sequences() == [1, 2, 3, 4, 5]


def test_what_the_own_epochs_fence_names_stays(slot: Slot) -> None:
    """No fence of ours names an archive of its own epoch; one that did would be obeyed."""
    archives(slot, 4)
    slot.catalogue.fence(1, Generation(1, 2), POD)
    assert prune(slot.catalogue, slot.archive("newest")).manifests == 2
    assert slot.sequences() == [0, 2, 4, 5]


def test_earlier_epochs_are_left_alone(slot: Slot) -> None:
    first = archives(slot, 3)
    slot.catalogue.fence(2, first.generation, POD)
    assert prune(slot.catalogue, archives(slot, 4, epoch=2)).manifests == 2
    assert (slot.sequences(1), slot.sequences(2)) == ([1, 2, 3], [0, 3, 4])


def test_a_layer_that_two_manifests_name_stays_as_long_as_one_of_them(slot: Slot) -> None:
    shared = slot.archive("shared").layers[0].key
    slot.archive("shared", final=True, layer=shared)
    archives(slot, 2)
    newest = slot.archive("newest")
    assert prune(slot.catalogue, newest) == Pruned(manifests=2, layers_kept=1)
    assert (slot.sequences(), slot.layers()) == ([2, 4, 5], 3)
    with closing(slot.store.read(slot.place.layer_key(shared))) as content:
        assert content.read(100) == b"shared"


def test_so_many_at_once_and_the_rest_with_the_next(slot: Slot) -> None:
    newest = archives(slot, MOST_AT_ONCE + 5)
    assert prune(slot.catalogue, newest).manifests == MOST_AT_ONCE
    assert prune(slot.catalogue, newest).manifests == 3
    assert len(slot.sequences()) == 2


@pytest.mark.parametrize("damaged", [1, 3, 4])
def test_what_cannot_be_verified_is_no_reason_to_delete_anything(slot: Slot, s3: S3Server, damaged: int) -> None:
    newest = archives(slot, 4)
    key = slot.place.manifest_key(Generation(1, damaged))
    s3.put(key, s3.get(key)[:-3])
    s3.make_older(key, 2000)
    fresh = Slot(s3, slot.place.slot)
    assert prune(fresh.catalogue, newest) == Pruned(failures=1)
    assert slot.sequences() == [1, 2, 3, 4]


class Interrupted(S3Store):
    """A store in which something happens between a look and what follows from it."""

    at: str = ""
    happens: Any = None

    def list_folder(self, prefix: str) -> list[ListedObject]:
        found = super().list_folder(prefix)
        self._happen("listed")
        return found

    def write_new(self, key: str, content: BinaryIO) -> None:
        self._happen("writing")
        super().write_new(key, content)

    def delete(self, key: str) -> None:
        self._happen("deleting a layer" if "/layers/" in key else "deleting a manifest")
        super().delete(key)

    def _happen(self, what: str) -> None:
        if what == self.at and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()


def interrupted(s3: S3Server, slot: Slot, at: str, happens: Any) -> Catalogue:
    other = Slot(s3, slot.place.slot, Interrupted)
    assert isinstance(other.store, Interrupted)
    other.store.at, other.store.happens = at, happens
    return other.catalogue


def test_a_fence_that_is_put_after_the_first_look_is_seen_before_anything_is_deleted(slot: Slot, s3: S3Server) -> None:
    newest = archives(slot, 4)
    catalogue = interrupted(s3, slot, "listed", lambda: slot.catalogue.fence(2, newest.generation, "next"))
    assert prune(catalogue, newest) == Pruned()
    assert slot.sequences() == [1, 2, 3, 4]


def test_another_mover_that_prunes_the_same_is_no_failure(slot: Slot, s3: S3Server) -> None:
    newest = archives(slot, 4)
    catalogue = interrupted(s3, slot, "listed", lambda: prune(slot.catalogue, newest))
    assert prune(catalogue, newest) == Pruned()
    assert (slot.sequences(), slot.layers()) == ([3, 4], 2)


def test_two_movers_that_delete_the_same_are_no_failure(slot: Slot, s3: S3Server) -> None:
    newest = archives(slot, 4)
    catalogue = interrupted(s3, slot, "deleting a manifest", lambda: prune(slot.catalogue, newest))
    assert prune(catalogue, newest).failures == 0
    assert (slot.sequences(), slot.layers()) == ([3, 4], 2)


def test_a_store_that_fails_is_a_failure_that_is_counted_and_made_up_for(slot: Slot, s3: S3Server) -> None:
    newest = archives(slot, 4)

    def fail() -> None:
        raise StoreUnavailableError("down")

    assert prune(interrupted(s3, slot, "deleting a manifest", fail), newest) == Pruned(failures=1)
    assert slot.sequences() == [1, 2, 3, 4]
    # Between a manifest and its layer: nothing is half visible, a layer that nobody names stays behind.
    assert prune(interrupted(s3, slot, "deleting a layer", fail), newest) == Pruned(manifests=1, failures=1)
    assert (slot.sequences(), slot.layers()) == ([2, 3, 4], 4)
    assert prune(slot.catalogue, newest) == Pruned(manifests=1)
    assert (slot.sequences(), slot.layers()) == ([3, 4], 3)


def test_a_fence_over_content_that_is_pruned_meanwhile_says_so_and_the_newer_content_is_found(
    slot: Slot, s3: S3Server
) -> None:
    """A pod that was given up goes on: two checkpoints between a fence's look and its write, and their pruning."""
    content = slot.archive("what the next pod has restored").generation

    def go_on() -> None:
        prune(slot.catalogue, archives(slot, 2))

    with pytest.raises(StaleGenerationError, match="went while the fence was put over it"):
        interrupted(s3, slot, "writing", go_on).fence(2, content, "next")
    assert slot.sequences(1) == [2, 3]
    head, found = slot.catalogue.head()
    assert head is not None
    assert found is not None
    assert (head.header.generation, found.header.generation) == (Generation(2, 0), Generation(1, 3))
    # The operator starts again, from what is there.
    with pytest.raises(StaleGenerationError):
        slot.catalogue.fence(3, content, "the one after")
    assert slot.catalogue.fence(3, Generation(1, 3), "the one after").header.generation == Generation(3, 0)
    head, found = slot.catalogue.head()
    assert found is not None
    assert found.header.generation == Generation(1, 3)


def test_a_head_that_is_pruned_between_listing_and_reading_is_looked_for_again(slot: Slot, s3: S3Server) -> None:
    slot.archive("state")

    def go_on() -> None:
        prune(slot.catalogue, archives(slot, 2))

    head, content = interrupted(s3, slot, "listed", go_on).head()
    assert head is not None
    assert (head, head.header.generation) == (content, Generation(1, 3))


def test_content_that_somebody_removed_by_hand_is_missing(slot: Slot, s3: S3Server) -> None:
    content = slot.archive("state").generation
    slot.catalogue.fence(2, content, "next")
    s3.delete(slot.place.manifest_key(content))
    with pytest.raises(ManifestMissingError):
        slot.catalogue.head()


async def archive(mover: MoverProcess, pod: Pod, layer: bytes, *, final: bool = False) -> dict[str, Any]:
    return await mover.archive(pod, layer, [], final=final)


async def test_a_mover_prunes_after_a_checkpoint_and_counts_it(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    slot = Slot(s3, pod.slot)
    before = mover.metric("sandhold_mover_pruned_checkpoints_total")
    for number in range(4):
        for generation in slot.generations():
            s3.make_older(slot.place.manifest_key(generation), 100)
        assert (await archive(mover, pod, f"state {number}".encode()))["sequence"] == number + 1
        kept = [1, 2, 3, 4][max(0, number - 1) : number + 1]
        await eventually(lambda kept=kept: slot.sequences() == kept and slot.layers() == len(kept))  # type: ignore[misc]
    assert mover.metric("sandhold_mover_pruned_checkpoints_total") == before + 2


async def test_a_mover_prunes_nothing_after_a_final_archive(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    slot = Slot(s3, pod.slot)
    for number in range(4):
        slot.archive(f"state {number}", pod=pod.uid)
    assert (await archive(mover, pod, b"the end", final=True))["sequence"] == 5
    before = mover.metric("sandhold_mover_pruned_checkpoints_total")
    # What a pruning would have done is seen by the next checkpoint's, which comes after it in every respect.
    for generation in slot.generations():
        s3.make_older(slot.place.manifest_key(generation), 100)
    assert slot.sequences() == [1, 2, 3, 4, 5]
    assert (await archive(mover, pod, b"after the end"))["sequence"] == 6
    await eventually(lambda: slot.sequences() == [5, 6])
    assert mover.metric("sandhold_mover_pruned_checkpoints_total") == before + 4


async def test_a_pruning_that_fails_fails_no_archive(own_mover: MoverProcess, own_s3: S3Server, pod: Pod) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    slot = Slot(own_s3, pod.slot)
    for number in range(3):
        slot.archive(f"state {number}", pod=pod.uid)
    key = slot.place.manifest_key(Generation(1, 1))
    own_s3.put(key, own_s3.get(key)[:-3])
    for generation in slot.generations():
        own_s3.make_older(slot.place.manifest_key(generation), 100)
    assert (await archive(own_mover, pod, b"newest"))["sequence"] == 4
    await eventually(lambda: own_mover.metric("sandhold_mover_prune_failures_total") == 1)
    assert slot.sequences() == [1, 2, 3, 4]
    assert "are left for later" in own_mover.log()


async def test_a_restore_of_what_was_pruned_says_to_look_again(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    slot = Slot(s3, pod.slot)
    prune(slot.catalogue, archives(slot, 4))
    source = {"epoch": 1, "sequence": 1}
    grant = mover.installation.grant("restore", pod.uid, pod.slot, epoch=2, source=source)
    async with mover.keeper("restore", pod.token, grant) as peer:
        answer = await peer.hear()
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", "snapshot_store_unavailable", True)
    assert "0000000001-0000000004 is newer" in answer["message"]


async def test_a_restore_whose_layer_is_pruned_under_it_says_to_look_again(
    mover: MoverProcess, s3: S3Server, pod: Pod
) -> None:
    slot = Slot(s3, pod.slot)
    layer = slot.archive("pruned").layers[0].key
    archives(slot, 2)
    s3.delete(slot.place.layer_key(layer))
    grant = mover.installation.grant("restore", pod.uid, pod.slot, epoch=2, source={"epoch": 1, "sequence": 1})
    async with mover.keeper("restore", pod.token, grant) as peer:
        assert (await peer.hear())["type"] == "manifest"
        assert await peer.hear_part() == b""
        answer = await peer.hear()
    assert (answer["type"], answer["code"], answer["retryable"]) == ("failed", "snapshot_store_unavailable", True)
