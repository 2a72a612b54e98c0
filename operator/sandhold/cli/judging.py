"""PURE: when a session is where it was told to go, what it still waits for, and when it will not get there."""

from collections.abc import Callable
from typing import Any

from sandhold.api.session import REST
from sandhold.cli.failures import CliError, ExitCode
from sandhold.cli.reading import condition_of, refusal_of, status_of
from sandhold.reasons import READY, SNAPSHOTTED, STALLED

Object = dict[str, Any]
Judge = Callable[[Object | None], str | None]


def at_rest(uid: str, generation: int, place: str) -> Judge:
    """Stopped, for this wish or a later one, and its workspace safe."""

    def judge(found: Object | None) -> str | None:
        raw = _same(found, uid, place)
        status = status_of(raw)
        if (status.get("observedGeneration") or 0) < generation:
            return _unheard(raw)
        if status.get("phase") not in REST:
            return progress(raw)
        fate = condition_of(raw, SNAPSHOTTED)
        if fate is not None and fate.status == "False" and fate.reason != "Discarded":
            raise CliError(f"SandboxSession {place}: it stopped, and {fate.message}", _explain(place))
        return None

    return judge


def ready(before: Object, retry: str | None, place: str) -> Judge:
    """Ready since the wish that `before` holds; refused or given up since then is a failure."""
    uid, generation = before["metadata"]["uid"], before["metadata"].get("generation") or 0
    known = status_of(before).get("conditions")

    def judge(found: Object | None) -> str | None:
        raw = _same(found, uid, place)
        status = status_of(raw)
        is_heard = (status.get("observedGeneration") or 0) >= generation
        if retry is not None:
            # A retry that is refused at once changes the conditions alone.
            is_heard = status.get("observedRetry") == retry or status.get("conditions") != known
        if not is_heard:
            return _unheard(raw)
        if status.get("phase") == "Ready" and (one := condition_of(raw, READY)) is not None and one.status == "True":
            return None
        stalled = condition_of(raw, STALLED)
        if status.get("phase") in REST and stalled is not None and stalled.status == "True":
            raise _refused(raw, stalled.message, place)
        return progress(raw)

    return judge


def gone(uid: str) -> Judge:
    """Absent; a later one of the same name is another session."""

    def judge(found: Object | None) -> str | None:
        if found is None or found.get("metadata", {}).get("uid") != uid:
            return None
        return progress(found)

    return judge


def progress(raw: Object) -> str:
    """Where it is and what holds it up, in a line."""
    status = status_of(raw)
    phase = str(status.get("phase") or "not looked at yet")
    refusal = refusal_of(raw)
    if refusal is not None:
        return f"{phase}: {refusal.message}. {refusal.action}".strip()
    one = condition_of(raw, SNAPSHOTTED if phase == "Stopping" else READY)
    if one is None or one.status == "True" or phase in REST:
        return phase
    return f"{phase}: {one.message}"


def _unheard(raw: Object) -> str:
    return f"{status_of(raw).get('phase') or 'New'}: the operator has not acted on the change yet"


def _refused(raw: Object, said: str, place: str) -> CliError:
    refusal = refusal_of(raw)
    why, action = (refusal.message, refusal.action) if refusal is not None else (said, "")
    return CliError(f"SandboxSession {place}: not started: {why}", action or _explain(place))


def _same(found: Object | None, uid: str, place: str) -> Object:
    if found is None:
        raise CliError(f"SandboxSession {place}: somebody deleted it meanwhile", _LIST, ExitCode.NOT_FOUND)
    if found.get("metadata", {}).get("uid") != uid:
        raise CliError(f"SandboxSession {place}: it is another one by now", _LIST, ExitCode.CONFLICT)
    return found


_LIST = "see what is there: sandhold session ls"


def _explain(place: str) -> str:
    namespace, _, name = place.partition("/")
    return f"sandhold explain session/{name} -n {namespace}"
