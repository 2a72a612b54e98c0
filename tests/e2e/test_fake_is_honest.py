"""The fake API server of the tests answers as the real one does: the same conversation with both, the same outcomes.

The real one is etcd and kube-apiserver alone, reached through the operator's own door. Whatever the crash sweep relies
on is part of the conversation: preconditions, kinds of refusals, finalizers, generations, apply, schemas.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_kube_config

from sandhold.cluster.client import KubeDoor
from sandhold.cluster.door import Door
from sandhold.cluster.kinds import RESOURCES
from sandhold.cluster.pki import ensure_authority, ensure_mover_tls
from sandhold.desired.plan import Reference
from sandhold.errors import NotFoundError, SandholdError
from sandhold.names import MOVER_TLS_SECRET
from testkit.api_server import ApiServer, binaries
from testkit.clock import FakeClock
from testkit.fake_cluster import FakeCluster
from testkit.object_store import Document, reference_to

SPACE = "honest"
ABSENT_UID = "00000000-0000-4000-8000-000000000000"


class Outside(Protocol):
    """What others than the operator do."""

    def merge(self, reference: Reference, patch: Document) -> None:
        """Somebody else changes an object."""
        ...

    def delete(self, reference: Reference, grace: int | None = None) -> None:
        """Somebody else deletes an object."""
        ...


class RealOutside:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def merge(self, reference: Reference, patch: Document) -> None:
        self._server.request("PATCH", _path(reference), patch)

    def delete(self, reference: Reference, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self._server.request("DELETE", _path(reference), {"kind": "DeleteOptions", "apiVersion": "v1", **options})


class FakeOutside:
    def __init__(self, cluster: FakeCluster) -> None:
        self._objects = cluster.objects

    def merge(self, reference: Reference, patch: Document) -> None:
        self._objects.change(reference, lambda document: _merge(document, patch))

    def delete(self, reference: Reference, grace: int | None = None) -> None:
        self._objects.delete(reference, grace=grace)


def _path(reference: Reference) -> str:
    return RESOURCES[reference.kind].path(reference.namespace, reference.name)


def _merge(document: Any, patch: Document) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(document.setdefault(key, {}), value)
        elif value is None:
            document.pop(key, None)
        else:
            document[key] = value


class Talk:
    """One conversation: says things to a door and writes down what came of each, in terms that both servers share."""

    def __init__(self, door: Door, outside: Outside) -> None:
        self.door = door
        self.outside = outside
        self.said: list[tuple[str, Any]] = []
        self._versions: dict[str, str] = {}

    async def say(self, what: str, answer: Awaitable[Any]) -> Any:
        """Note the kind of error, or what the object looks like and whether its version moved."""
        try:
            document = await answer
        except SandholdError as error:
            self.said.append((what, _kind(error)))
            return None
        self.said.append((what, None if document is None else self._look(document)))
        return document

    async def look(self, what: str, reference: Reference) -> Any:
        """Note how an object stands now."""
        return await self.say(what, self.door.get(reference))

    def _look(self, document: Document) -> dict[str, Any]:
        metadata = document["metadata"]
        uid, version = metadata["uid"], metadata["resourceVersion"]
        before = self._versions.get(uid)
        self._versions[uid] = version
        return {
            "kind": document["kind"],
            "moved": before is not None and before != version,
            "generation": metadata.get("generation"),
            "labels": metadata.get("labels", {}),
            "annotations": metadata.get("annotations", {}),
            "finalizers": metadata.get("finalizers", []),
            "owners": [each["name"] for each in metadata.get("ownerReferences", [])],
            "deleting": "deletionTimestamp" in metadata,
            "grace": metadata.get("deletionGracePeriodSeconds"),
            "spec": document.get("spec") if document["kind"] != "Pod" else None,
            "data": document.get("data"),
            "status": document.get("status") if document["kind"] != "Pod" else None,
        }


def _kind(error: SandholdError) -> str:
    """The nearest kind of `errors.py`: what callers may tell apart."""
    return next(each.__name__ for each in type(error).__mro__ if each.__module__ == "sandhold.errors")


def document(api_version: str, kind: str, name: str, **rest: Any) -> Document:
    metadata = {"namespace": SPACE, "name": name, **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def session(name: str, **metadata: Any) -> Document:
    return document(
        "sandhold.dev/v1alpha1",
        "SandboxSession",
        name,
        metadata=metadata,
        spec={"sandboxRef": {"name": "coder"}},
    )


def pod(name: str, **spec: Any) -> Document:
    container = {"name": "agent", "image": "localhost/agent:1"}
    return document("v1", "Pod", name, spec={"containers": [container], "serviceAccountName": "default", **spec})


async def creating(talk: Talk) -> None:
    door, quill = talk.door, session("creating", labels={"a": "b"})
    await talk.say("get what is not there", door.get(reference_to(quill)))
    made = await talk.say(
        "create, with a status that is not kept", door.create({**quill, "status": {"phase": "Ready"}})
    )
    await talk.say("create again", door.create(quill))
    await talk.say("create what the schema refuses", door.create({**session("wrong"), "spec": {}}))
    await talk.say("create where there is no namespace", door.create(_elsewhere(session("lost"))))
    await talk.say("delete what is not there", door.delete(reference_to(session("none")), ABSENT_UID))
    await talk.say("delete with another uid", door.delete(reference_to(quill), ABSENT_UID))
    await talk.say("delete with an old version", door.delete(reference_to(quill), made["metadata"]["uid"], "1"))
    await talk.look("it is still there", reference_to(quill))
    await talk.say("delete", door.delete(reference_to(quill), made["metadata"]["uid"]))
    await talk.look("and gone", reference_to(quill))
    again = await door.create(quill)
    assert again["metadata"]["uid"] != made["metadata"]["uid"], "a name that comes back is another object"


def _elsewhere(quill: Document) -> Document:
    return {**quill, "metadata": {**quill["metadata"], "namespace": "nowhere"}}


async def patching(talk: Talk) -> None:
    door, quill = talk.door, session("patching")
    reference = reference_to(quill)
    made = await talk.say("create", door.create(quill))
    uid = {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]}
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}
    wrong = {"op": "test", "path": "/metadata/uid", "value": ABSENT_UID}
    finalizer = {"op": "add", "path": "/metadata/finalizers", "value": ["sandhold.dev/workspace"]}
    await talk.say("a test that fails", door.json_patch(reference, [wrong, finalizer]))
    await talk.say("tests that hold", door.json_patch(reference, [uid, version, finalizer]))
    await talk.say("the same with a version that is old by now", door.json_patch(reference, [uid, version, finalizer]))
    append = {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/other"}
    await talk.say("one more finalizer", door.json_patch(reference, [uid, append]))
    status = {"op": "add", "path": "/status", "value": {"phase": "Starting", "unknownField": 1}}
    await talk.say("a status by the main resource is ignored", door.json_patch(reference, [uid, status]))
    await talk.say("a status", door.json_patch(reference, [uid, status], "status"))
    await talk.say("the same status again", door.json_patch(reference, [uid, status], "status"))
    mode = {"op": "replace", "path": "/spec/operatingMode", "value": "Suspended"}
    await talk.say("a spec by the status is ignored", door.json_patch(reference, [uid, mode], "status"))
    bad = {"op": "add", "path": "/status", "value": {"phase": "Splendid"}}
    await talk.say("a status that the schema refuses", door.json_patch(reference, [uid, bad], "status"))
    null = {"op": "add", "path": "/status", "value": {"phase": "Starting", "podName": None}}
    await talk.say("a null where none may be", door.json_patch(reference, [uid, null], "status"))
    talk.outside.merge(reference, {"spec": {"operatingMode": "Suspended"}})
    await talk.look("a spec changed by somebody moves the generation", reference)
    talk.outside.merge(reference, {"metadata": {"annotations": {"sandhold.dev/retry": "1"}}})
    await talk.look("an annotation does not", reference)
    await talk.say("patch what is not there", door.json_patch(reference_to(session("none")), [finalizer]))
    await talk.say("remove what is not there", door.json_patch(reference, [{"op": "remove", "path": "/status/podIP"}]))


async def finalizing(talk: Talk) -> None:
    door, quill = talk.door, session("finalizing", finalizers=["sandhold.dev/workspace", "example.com/other"])
    reference = reference_to(quill)
    made = await talk.say("create with finalizers", door.create(quill))
    await talk.say("delete marks it", door.delete(reference, made["metadata"]["uid"]))
    marked = await talk.look("marked", reference)
    await talk.say("delete again changes nothing", door.delete(reference, made["metadata"]["uid"]))
    await talk.look("the same", reference)
    add = {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/late"}
    await talk.say("a new finalizer is too late", door.json_patch(reference, [add]))
    status = {"op": "add", "path": "/status", "value": {"phase": "Stopping"}}
    await talk.say("a status is not", door.json_patch(reference, [status], "status"))
    first = {"op": "test", "path": "/metadata/finalizers/0", "value": "sandhold.dev/workspace"}
    remove = {"op": "remove", "path": "/metadata/finalizers/0"}
    await talk.say("one finalizer taken off", door.json_patch(reference, [first, remove]))
    await talk.say("it is another one now", door.json_patch(reference, [first, remove]))
    await talk.say("the last one taken off", door.json_patch(reference, [remove]))
    await talk.look("gone", reference)
    assert marked["metadata"]["deletionTimestamp"]


async def pods(talk: Talk) -> None:
    door = talk.door
    await talk.say("an account for the pods", door.create(document("v1", "ServiceAccount", "default")))
    loose = await talk.say("a pod without a node", door.create(pod("loose")))
    await talk.say("is deleted", door.delete(reference_to(loose), loose["metadata"]["uid"], grace_seconds=5))
    await talk.look("and gone at once", reference_to(loose))
    bound = await talk.say("a pod on a node", door.create(pod("bound", nodeName="node-1")))
    reference = reference_to(bound)
    await talk.say("is deleted", door.delete(reference, bound["metadata"]["uid"], grace_seconds=20))
    await talk.look("and stays for its grace", reference)
    await talk.say("deleted again with less", door.delete(reference, bound["metadata"]["uid"], grace_seconds=5))
    await talk.look("its grace is shorter", reference)
    await talk.say("deleted again with more", door.delete(reference, bound["metadata"]["uid"], grace_seconds=30))
    await talk.look("it is not longer again", reference)
    await talk.say("a second one of its name", door.create(pod("bound")))
    await talk.say("deleted with another uid", door.delete(reference, ABSENT_UID, grace_seconds=0))
    talk.outside.delete(reference, 0)
    await talk.look("ended by the kubelet", reference)
    usual = await talk.say("a pod with the usual grace", door.create(pod("usual", nodeName="node-1")))
    await talk.say("is deleted", door.delete(reference_to(usual), usual["metadata"]["uid"]))
    await talk.look("and has thirty seconds", reference_to(usual))


async def applying(talk: Talk) -> None:
    door = talk.door
    wanted = document("v1", "ServiceAccount", "applied", metadata={"labels": {"one": "1", "two": "2"}})
    reference = reference_to(wanted)
    with_uid = deepcopy(wanted)
    with_uid["metadata"]["uid"] = ABSENT_UID
    await talk.say("apply with the uid of nothing", door.apply(with_uid))
    made = await talk.say("apply makes it", door.apply(wanted))
    await talk.say("the same again is no change", door.apply(wanted))
    talk.outside.merge(reference, {"metadata": {"labels": {"theirs": "3"}, "annotations": {"their": "note"}}})
    wanted["metadata"]["labels"] = {"one": "uno"}
    await talk.say("what we no longer say goes, what others said stays", door.apply(wanted))
    talk.outside.merge(reference, {"metadata": {"labels": {"one": "eins"}}})
    await talk.say("what somebody changed is ours again", door.apply(wanted))
    with_uid["metadata"]["labels"] = {}
    await talk.say("apply with another uid", door.apply(with_uid))
    with_uid["metadata"]["uid"] = made["metadata"]["uid"]
    await talk.say("apply with its uid and no labels", door.apply(with_uid))
    talk.outside.delete(reference)
    await talk.say("apply with the uid of what was deleted", door.apply(with_uid))
    await talk.look("makes nothing", reference)


async def walling(talk: Talk) -> None:
    """A policy, applied: the spec is ours as a whole."""
    door = talk.door
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": {"sandhold.dev/sandbox": "coder"}},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}],
    }
    wanted = document("networking.k8s.io/v1", "NetworkPolicy", "walls", spec=spec)
    await talk.say("apply", door.apply(wanted))
    await talk.say("the same again is no change", door.apply(wanted))
    talk.outside.merge(reference_to(wanted), {"spec": {"egress": [{}]}})
    await talk.look("somebody opened it", reference_to(wanted))
    await talk.say("apply mends it", door.apply(wanted))
    wanted["spec"] = {**spec, "egress": [{"ports": [{"protocol": "UDP", "port": 53}]}]}
    await talk.say("another spec", door.apply(wanted))


async def replacing(talk: Talk) -> None:
    door = talk.door
    secret = document("v1", "Secret", "replaced", type="Opaque", data={"a": "MQ=="})
    made = await talk.say("create", door.create(secret))
    changed = await talk.say("replace", door.replace({**made, "data": {"a": "Mg=="}}))
    await talk.say("replace with an old version", door.replace({**made, "data": {"a": "Mw=="}}))
    stranger = {**changed, "metadata": {**changed["metadata"], "uid": ABSENT_UID}}
    await talk.say("replace with another uid", door.replace(stranger))
    await talk.say("the same again is no change", door.replace(changed))
    lease = document("coordination.k8s.io/v1", "Lease", "held", spec={"holderIdentity": "a"})
    held = await talk.say("a lease", door.create(lease))
    taken = await talk.say("taken over", door.replace({**held, "spec": {"holderIdentity": "b"}}))
    await talk.say("taken over by a loser", door.replace({**held, "spec": {"holderIdentity": "c"}}))
    talk.outside.delete(reference_to(lease))
    await talk.say("taken over when it is gone", door.replace({**taken, "spec": {"holderIdentity": "d"}}))
    await talk.look("makes nothing", reference_to(lease))


async def listing(talk: Talk) -> None:
    door = talk.door
    for name, labels in (("l1", {"k": "1"}), ("l2", {"k": "2", "x": ""}), ("l3", {})):
        await door.create(document("v1", "ServiceAccount", f"list-{name}", metadata={"labels": labels}))
    for selector in ("k=1", "k", "!k,a!=b", "k in (1,2),x", None):
        found, version = await door.list("v1", "ServiceAccount", SPACE, selector)
        shown = [each["metadata"]["name"] for each in found if each["metadata"]["name"].startswith("list-")]
        kinds = {(each["apiVersion"], each["kind"]) for each in found}
        talk.said.append((f"list {selector}", (sorted(shown), kinds, version.isdigit())))
    found, _ = await door.list("v1", "ServiceAccount", "nowhere")
    talk.said.append(("list where there is no namespace", len(found)))


CONVERSATIONS: tuple[Callable[[Talk], Awaitable[None]], ...] = (
    creating,
    patching,
    finalizing,
    pods,
    applying,
    walling,
    replacing,
    listing,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = binaries()
    if folder is None:
        pytest.fail("etcd and kube-apiserver are not built: run `hack/cluster build`")
    found = ApiServer(tmp_path_factory.mktemp("api-server"), folder)
    try:
        found.start()
        found.request("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        yield found
    finally:
        found.stop()


@pytest.fixture
async def real(server: ApiServer) -> AsyncIterator[Door]:
    configuration = Configuration()
    await load_kube_config(str(server.kubeconfig), client_configuration=configuration, persist_config=False)
    door = KubeDoor(configuration)
    yield door
    await door.close()


@pytest.mark.parametrize("converse", CONVERSATIONS, ids=lambda converse: converse.__name__)
async def test_the_same_conversation_has_the_same_outcome(
    converse: Callable[[Talk], Awaitable[None]], server: ApiServer, real: Door
) -> None:
    cluster = FakeCluster(FakeClock())
    cluster.add_namespace(SPACE)
    truth = Talk(real, RealOutside(server))
    await converse(truth)
    fake = Talk(cluster, FakeOutside(cluster))
    await converse(fake)
    for said, expected in zip(fake.said, truth.said, strict=True):
        assert said == expected
    assert len(truth.said) >= 5


async def test_the_real_server_stores_the_installations_secrets_and_their_renewal(
    server: ApiServer, real: Door
) -> None:
    """The CA and the movers' certificate: what `pki.py` writes is what a server takes, and reads back as it was."""
    now = datetime.now(UTC)
    authority = await ensure_authority(real, SPACE, now)
    assert (await ensure_authority(real, SPACE, now)).certificate_pem == authority.certificate_pem
    due = await ensure_mover_tls(real, SPACE, authority, now)
    assert await ensure_mover_tls(real, SPACE, authority, now) == due
    path = f"/api/v1/namespaces/{SPACE}/secrets/{MOVER_TLS_SECRET}"
    before = server.request("GET", path)
    assert await ensure_mover_tls(real, SPACE, authority, due) > due
    after = server.request("GET", path)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["data"]["tls.crt"] != before["data"]["tls.crt"]


def test_a_lying_fake_would_be_noticed() -> None:
    """The comparison itself: the outcome of an error is its kind, and another kind is another outcome."""
    assert _kind(NotFoundError("x")) == "NotFoundError"
