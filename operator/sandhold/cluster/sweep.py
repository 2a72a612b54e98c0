"""The reads and the deletions of a sweep. What is an orphan `desired/orphans.py` decides, and when, `sweeping.py`.

Everything is read live: the cache is quick, and no authority on what is absent. The lists of owners only spare reads of
those that are there; each absence is the answer to a GET of that very name. Reads are bounded in number and in how many
are under way at once: what was not read is unknown, and stays.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from sandhold import names
from sandhold.cluster.door import Door
from sandhold.cluster.kinds import NAMESPACE, POD, RESOURCES
from sandhold.cluster.recorder import Recorder
from sandhold.desired.orphans import OWNER_KINDS, Survey, Walls, owner_to_ask, walls_of
from sandhold.desired.plan import Event, Reference
from sandhold.desired.sighting import Owner, Sighting, sighting_of
from sandhold.desired.sweeping import Verdict, evidence
from sandhold.desired.world import ABSENT, KubeObject, Observed, Present, Unknown
from sandhold.errors import ConflictError, InvalidError, NotFoundError, SandholdError, UnavailableError

MOST_READS = 500
AT_ONCE = 8
COLLECTED = "OrphanCollected"
Q = TypeVar("Q", bound=Hashable)
A = TypeVar("A")


def selector_of(installation_id: str) -> str:
    """What a sweep lists: this installation's objects, and no interactive WebUI object, however it is marked."""
    return (
        f"{names.LABEL_INSTALLATION}={installation_id},{names.LABEL_MANAGED_BY}={names.MANAGED_BY},"
        f"{names.LABEL_KIND}!={names.KIND_WEBUI},!{names.LABEL_FOREIGN_WEBUI}"
    )


async def survey(door: Door, installation_id: str, *, most_reads: int = MOST_READS) -> Survey:
    """Everything that a sweep may know. It changes nothing, and needs get and list of what it looks at."""
    if not installation_id:
        raise InvalidError("a sweep needs the installation id of the objects that it looks for")
    sightings, unread = await _sightings(door, selector_of(installation_id))
    asked = [(each, owner) for each in sightings if (owner := owner_to_ask(installation_id, each)) is not None]
    there = await _owners_there(door, {owner.kind for _, owner in asked})
    owners: dict[Owner, Observed[str]] = {owner: Present(owner.uid) for _, owner in asked if owner in there}
    missing = (owner for _, owner in asked if owner not in owners)
    owners |= await _ask(missing, lambda owner: _read_owner(door, owner), most_reads)
    lost = [sighting for sighting, owner in asked if owners[owner] != Present(owner.uid)]
    places = (each.reference.namespace for each in lost)
    walls = (found for each in lost if (found := walls_of(each)) is not None)
    return Survey(
        installation_id=installation_id,
        sightings=sightings,
        unread=unread,
        owners=owners,
        namespaces=await _ask(places, lambda each: _is_ending(door, each), most_reads),
        pods_behind=await _ask(walls, lambda each: _pods_behind(door, each), most_reads),
    )


async def _sightings(door: Door, selector: str) -> tuple[tuple[Sighting, ...], Mapping[str, str]]:
    """Kind by kind: whole objects of one kind at most are held at a time."""
    found: list[Sighting] = []
    unread: dict[str, str] = {}
    for kind in OWNER_KINDS:
        try:
            items, _ = await door.list(RESOURCES[kind].api_version, kind, selector=selector)
        except SandholdError as error:
            unread[kind] = str(error)
        else:
            found += map(sighting_of, items)
    return tuple(found), unread


async def _owners_there(door: Door, kinds: Iterable[str]) -> set[Owner]:
    """Owners that need not be read one by one: a list shows them. It never says that one is absent."""
    found: set[Owner] = set()
    for kind in kinds:
        try:
            items, _ = await door.list(RESOURCES[kind].api_version, kind)
        except SandholdError:
            continue  # each is read instead
        for item in items:
            metadata = item["metadata"]
            found.add(Owner(kind, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", "")))
    return found


async def _ask(questions: Iterable[Q], answer: Callable[[Q], Awaitable[A]], most: int) -> dict[Q, Observed[A]]:
    """The answer to each, a few asked at a time; Unknown where a read failed or there were too many."""
    distinct = list(dict.fromkeys(questions))
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(question: Q) -> Observed[A]:
        async with slots:
            try:
                return Present(await answer(question))
            except NotFoundError:
                return ABSENT
            except SandholdError as error:
                return Unknown(str(error))

    answers = await asyncio.gather(*map(one, distinct[:most]))
    told: dict[Q, Observed[A]] = {each: Unknown(f"a sweep makes {most} such reads at most") for each in distinct}
    return told | dict(zip(distinct[:most], answers, strict=True))


async def _read_owner(door: Door, owner: Owner) -> str:
    """The UID of whatever has the owner's name."""
    found = await door.get(Reference(names.API_VERSION, owner.kind, owner.namespace, owner.name))
    return str(found["metadata"].get("uid", ""))


async def _is_ending(door: Door, namespace: str) -> bool:
    found = await door.get(Reference("v1", NAMESPACE, "", namespace))
    return bool(found["metadata"].get("deletionTimestamp"))


async def _pods_behind(door: Door, walls: Walls) -> int:
    """Any pod with the AgentSandbox's UID: interactive ones and those of other makers stand behind walls, too."""
    items, _ = await door.list("v1", POD, walls[0], f"{names.LABEL_SANDBOX_UID}={walls[1]}")
    return len(items)


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of one deletion: `Collected`, `Gone`, `Changed`, `Failed`, and in words why."""

    verdict: Verdict
    result: str
    message: str


class Collector:
    """Deletes what a plan names, one by one, for as long as this process leads."""

    def __init__(self, door: Door, recorder: Recorder, leads: Callable[[], bool]) -> None:
        self._door = door
        self._recorder = recorder
        self._leads = leads

    async def collect(self, verdict: Verdict, installation_id: str, now: datetime) -> Collected:
        """Delete, and say so in an Event on the object."""
        if not self._leads():
            raise UnavailableError("the election Lease is not held any more, so nothing more is collected")
        done = await self._delete(verdict, evidence(verdict, installation_id))
        if done.result == "Collected":
            await self._recorder.record(_subject(verdict.sighting), [Event("Warning", COLLECTED, done.message)], now)
        return done

    async def _delete(self, verdict: Verdict, said: str) -> Collected:
        """The object as it was judged and no other version of it; a pod has its own grace, whatever it is."""
        sighting = verdict.sighting
        try:
            await self._door.delete(sighting.reference, sighting.uid, sighting.resource_version)
        except NotFoundError:
            return Collected(verdict, "Gone", "it was gone already")
        except ConflictError as error:
            return Collected(verdict, "Changed", f"it is another one than was judged, or changed since: {error}")
        except SandholdError as error:
            return Collected(verdict, "Failed", str(error))
        return Collected(verdict, "Collected", said)


def _subject(sighting: Sighting) -> KubeObject:
    """As much of an object as an Event about it needs."""
    reference = sighting.reference
    metadata = {
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": sighting.uid,
        "resourceVersion": sighting.resource_version,
    }
    return {"apiVersion": reference.api_version, "kind": reference.kind, "metadata": metadata}
