"""PURE: whether an object is one of ours. A name is never enough, and neither is one label."""

from sandhold import names
from sandhold.cluster.kinds import ACCOUNT, BUDGET, POD, POLICY
from sandhold.cluster.reading import labels_of
from sandhold.desired.sighting import labels_set_by_us
from sandhold.desired.world import KubeObject


def is_ours(obj: KubeObject, installation: str, session_uid: str | None = None) -> bool:
    """Whether this installation made it (for that session, if one is named), by labels that our field manager set."""
    labels = labels_of(obj)
    if labels.get(names.LABEL_INSTALLATION) != installation or not _set_by_us(obj):
        return False
    return session_uid is None or labels.get(names.LABEL_SESSION_UID) == session_uid


def may_be_seen(obj: KubeObject) -> bool:
    """Whether the cache takes an object.

    What carries our labels without our having put them there is nobody we know: it is met again where its name is
    needed, as a foreign object.
    """
    return obj["kind"] not in (POD, POLICY, ACCOUNT, BUDGET) or _set_by_us(obj)


def is_what_we_made(obj: KubeObject, wanted: KubeObject) -> bool:
    """Whether an object that was there already is the one that a create asked for, made by an earlier pass."""
    ours = labels_of(wanted)
    same = all(labels_of(obj).get(label) == ours.get(label) for label in (names.LABEL_SESSION_UID, names.LABEL_SANDBOX))
    installation = ours.get(names.LABEL_INSTALLATION)
    return bool(installation) and same and is_ours(obj, str(installation))


def _set_by_us(obj: KubeObject) -> bool:
    """Whether our field manager owns the installation label. Without managedFields (the cache drops them) it may be."""
    return not obj["metadata"].get("managedFields") or names.LABEL_INSTALLATION in labels_set_by_us(obj)
