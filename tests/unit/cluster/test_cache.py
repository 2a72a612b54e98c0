"""The laws of the cache: never back, dead stays dead, a list tells what vanished."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandhold import names
from sandhold.cluster.cache import Cache, Change
from sandhold.cluster.reading import INDICES


def obj(name: str, version: int, uid: str = "u1", kind: str = "SandboxSession", **more: Any) -> dict[str, Any]:
    metadata = {"namespace": "a", "name": name, "uid": uid, "resourceVersion": str(version), **more}
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata}


def version(cache: Cache, name: str = "x", kind: str = "SandboxSession") -> str | None:
    found = cache.get(kind, "a", name)
    return found["metadata"]["resourceVersion"] if found else None


def test_an_older_or_equal_version_teaches_nothing() -> None:
    cache = Cache()
    assert cache.put(obj("x", 5)) is not None
    assert cache.put(obj("x", 4)) is None
    assert cache.put(obj("x", 5)) is None
    assert version(cache) == "5"
    assert cache.put(obj("x", 10)) is not None
    assert version(cache) == "10"


def test_a_late_event_does_not_bring_a_deleted_object_back() -> None:
    cache = Cache()
    cache.put(obj("x", 5))
    assert cache.remove(obj("x", 7)) is not None
    assert cache.put(obj("x", 6)) is None
    assert version(cache) is None


def test_a_deletion_of_an_earlier_object_leaves_the_later_one_of_the_same_name() -> None:
    cache = Cache()
    cache.put(obj("x", 5, "old"))
    cache.put(obj("x", 9, "new"))
    assert cache.remove(obj("x", 8, "old")) is None
    assert version(cache) == "9"
    assert cache.put(obj("x", 7, "old")) is None
    assert version(cache) == "9"


def test_an_object_whose_labels_fit_the_watch_again_is_seen_again() -> None:
    cache = Cache()
    cache.put(obj("x", 5))
    cache.remove(obj("x", 6))
    assert cache.put(obj("x", 8)) is not None


def test_a_list_tells_what_vanished_and_what_changed() -> None:
    cache = Cache()
    cache.put(obj("gone", 3, "u1"))
    cache.put(obj("same", 4, "u2"))
    cache.put(obj("other", 5, "u3"))
    changes = cache.replace_all(
        "SandboxSession", [obj("same", 4, "u2"), obj("other", 8, "u3"), obj("new", 9, "u4")], "10"
    )
    assert {(c.object["metadata"]["name"], c.before is None, c.after is None) for c in changes} == {
        ("gone", False, True),
        ("other", False, False),
        ("new", True, False),
    }
    assert cache.put(obj("gone", 6, "u1")) is None, "an event from before the list is late"


def test_a_list_does_not_bury_what_was_made_after_it() -> None:
    cache = Cache()
    cache.put(obj("ours", 20))
    assert cache.replace_all("SandboxSession", [], "15") == []
    assert version(cache, "ours") == "20"
    assert [c.after for c in cache.replace_all("SandboxSession", [], "21")] == [None]


def test_absence_means_nothing_before_the_first_list() -> None:
    cache = Cache()
    cache.put(obj("x", 1))
    assert not cache.is_listed("SandboxSession")
    cache.replace_all("SandboxSession", [obj("x", 1)], "1")
    assert cache.is_listed("SandboxSession")
    assert not cache.is_listed("Pod")


def test_the_answer_to_the_last_finalizers_removal_is_an_end() -> None:
    cache = Cache()
    cache.put(obj("x", 5, finalizers=["f"], deletionTimestamp="t"))
    change = cache.put(obj("x", 6, deletionTimestamp="t"))
    assert change is not None
    assert change.after is None
    assert version(cache) is None


def test_a_terminating_pod_is_still_there() -> None:
    cache = Cache()
    cache.put(obj("x", 5, kind="Pod", deletionTimestamp="t"))
    assert version(cache, kind="Pod") == "5"


def test_managed_fields_are_dropped() -> None:
    cache = Cache()
    cache.put(obj("x", 5, managedFields=[{"manager": "m"}]))
    found = cache.get("SandboxSession", "a", "x")
    assert found is not None
    assert "managedFields" not in found["metadata"]


def test_indices_follow_labels() -> None:
    cache = Cache(INDICES)

    def pod(number: int, session: str) -> dict[str, Any]:
        return obj("p", number, kind="Pod", labels={names.LABEL_SESSION_UID: session})

    cache.put(pod(1, "s1"))
    assert [p["metadata"]["name"] for p in cache.select("Pod", "session", "a/s1")] == ["p"]
    cache.put(pod(2, "s2"))
    assert cache.select("Pod", "session", "a/s1") == ()
    assert len(cache.select("Pod", "session", "a/s2")) == 1
    assert len(cache.select("Pod", "uid", "u1")) == 1
    cache.remove(pod(3, "s2"))
    assert cache.select("Pod", "session", "a/s2") == ()
    assert not cache._found


EVENT = st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("xy"), st.integers(1, 3))


@given(st.lists(EVENT, max_size=20), st.randoms(use_true_random=False))
def test_whatever_order_events_come_in_a_list_makes_the_cache_equal_the_server(
    events: list[tuple[str, str, int]], shuffle: Any
) -> None:
    """A history of a server, delivered in any order and with losses, then one list."""
    cache = Cache(INDICES)
    server: dict[str, dict[str, Any]] = {}
    told: list[tuple[str, dict[str, Any]]] = []
    for number, (what, name, generation) in enumerate(events, start=1):
        if what == "put":
            known = server.get(name)
            uid = known["metadata"]["uid"] if known else f"{name}{number}"
            server[name] = obj(name, number, uid, generation=generation)
            told.append(("put", server[name]))
        elif name in server:
            gone = server.pop(name)
            told.append(("remove", obj(name, number, gone["metadata"]["uid"])))
    shuffle.shuffle(told)
    changes: list[Change | None] = []
    for what, each in told[: len(told) * 2 // 3]:
        changes.append(cache.put(each) if what == "put" else cache.remove(each))
    cache.replace_all("SandboxSession", list(server.values()), str(len(events)))
    held = {each["metadata"]["name"]: each["metadata"] for each in cache.all("SandboxSession")}
    assert held == {name: each["metadata"] for name, each in server.items()}
