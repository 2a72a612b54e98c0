"""`sandhold session`: list, show, suspend, resume and remove sessions. Only spec and annotations are changed."""

import sys
import time

import typer

from sandhold import names
from sandhold.api.session import REST
from sandhold.cli import judging
from sandhold.cli.api import Api, Object
from sandhold.cli.call import Call, Output
from sandhold.cli.failures import CliError, ExitCode
from sandhold.cli.opening import USUAL_SECONDS, WAIT_SECONDS, opened
from sandhold.cli.printing import Column, fields, note, show, show_list, write
from sandhold.cli.reading import numbered, session_shape, spec_of, status_of
from sandhold.cli.shapes import RemovedShape, SessionShape
from sandhold.cli.waiting import SESSION, wait_for
from sandhold.cli.words import age

NAMED = "sandboxsession.sandhold.dev"
_COLUMNS: tuple[Column[SessionShape], ...] = (
    Column("NAMESPACE", lambda each: each.namespace),
    Column("NAME", lambda each: each.name),
    Column("SANDBOX", lambda each: each.sandbox),
    Column("PHASE", lambda each: "Deleting" if each.deleting else each.phase),
    Column("READY", lambda each: each.ready),
    Column("REASON", lambda each: each.reason),
    Column("RECOVERY", lambda each: each.recovery),
    Column("POD", lambda each: each.pod and each.pod.name, is_wide=True),
    Column("NODE", lambda each: each.pod and each.pod.node, is_wide=True),
    Column("RUNTIME", lambda each: each.runtime_class, is_wide=True),
    Column("ARCHIVE", lambda each: numbered(each.snapshot), is_wide=True),
    Column("EXPIRES", lambda each: each.expires_at, is_wide=True),
    Column("AGE", lambda each: age(each.created_at)),
)


async def ls(call: Call, *, all_namespaces: bool) -> None:
    """List them."""
    async with opened(call) as api:
        found = await api.list_all(SESSION, None if all_namespaces else api.namespace)
        where = "any namespace" if all_namespaces else f"namespace {api.namespace}"
    show_list(
        call.output,
        [session_shape(each) for each in found],
        _COLUMNS if all_namespaces else _COLUMNS[1:],
        name=lambda each: f"{NAMED}/{each.name}",
        nothing=f"no sessions in {where}",
    )


async def get(call: Call, *, name: str) -> None:
    """Show one."""
    async with opened(call) as api:
        shape = session_shape(await api.get(SESSION, api.namespace, name))
    show(call.output, shape, name=f"{NAMED}/{name}", text=lambda: _details(shape))


async def suspend(call: Call, *, name: str, wait: bool) -> None:
    """Wish it stopped."""
    async with opened(call, WAIT_SECONDS if wait else USUAL_SECONDS) as api:
        before = await _changeable(api, name)
        wished = await _patch(api, before, {"spec": {"operatingMode": "Suspended"}})
        if wait:
            judge = judging.at_rest(_uid(wished), _generation(wished), f"{api.namespace}/{name}")
            wished = await wait_for(api, api.namespace, name, judge) or wished
    _changed(call, wished, "suspended" if status_of(wished).get("phase") in REST else "is told to stop")


async def resume(call: Call, *, name: str, wait: bool) -> None:
    """Wish it running again, by whichever way leads there from where it is."""
    async with opened(call, WAIT_SECONDS if wait else USUAL_SECONDS) as api:
        before = await _changeable(api, name)
        change, retry = _resumption(before)
        wished = await _patch(api, before, change) if change else before
        if wait:
            judge = judging.ready(wished, retry, f"{api.namespace}/{name}")
            wished = await wait_for(api, api.namespace, name, judge) or wished
    is_ready = session_shape(wished).ready
    _changed(call, wished, "is ready" if is_ready else "is told to run" if change else "is told to run already")


def _resumption(before: Object) -> tuple[Object, str | None]:
    """The change that starts it again, and the retry value in it. One that stopped by itself needs more than a mode."""
    status, is_suspended = status_of(before), spec_of(before).get("operatingMode") == "Suspended"
    change: Object = {"spec": {"operatingMode": "Running"}} if is_suspended else {}
    is_stopped = status.get("phase") in REST or status.get("phase") == "Stopping"
    if not is_stopped or status.get("stopReason") in (None, "Requested"):
        return change, None
    retry = str(time.time_ns())
    return {**change, "metadata": {"annotations": {names.ANNOTATION_RETRY: retry}}}, retry


async def rm(call: Call, *, name: str, discard: bool, is_sure: bool, wait: bool) -> None:
    """Delete it, and say what becomes of its workspace."""
    async with opened(call) as api:
        before = await api.get(SESSION, api.namespace, name)
        fate = await _fate(api, before, discard=discard)
        place = f"{api.namespace}/{name}"
    if call.output in (Output.TABLE, Output.WIDE):
        note(f"{name}: {fate}")
    if discard:
        # No connection is open and no time runs while somebody thinks.
        _confirm(place, is_sure=is_sure)
    async with opened(call, WAIT_SECONDS if wait else USUAL_SECONDS) as api:
        if discard:
            await _patch(api, before, {"metadata": {"annotations": {names.ANNOTATION_DISCARD: "true"}}})
        await api.delete(SESSION, api.namespace, name, _uid(before))
        if wait:
            await wait_for(api, api.namespace, name, judging.gone(_uid(before)))
        shape = RemovedShape(namespace=api.namespace, name=name, gone=wait, discarded=discard, workspace=fate)
    said = "is gone" if wait else "is being deleted"
    show(call.output, shape, name=f"{NAMED}/{name}", text=lambda: write(f"session {name} {said}"))


async def _fate(api: Api, raw: Object, *, discard: bool) -> str:
    """What becomes of the workspace, as far as it can be told."""
    shape = session_shape(raw)
    kept = f"archive {numbered(shape.snapshot)} stays in the store" if shape.snapshot else "no archive of it exists"
    if discard:
        return f"its workspace is given up: nothing is archived any more; {kept}"
    try:
        sandbox = await api.get("AgentSandbox", api.namespace, shape.sandbox)
    except CliError:
        return f"its workspace is archived before its pod goes, if its AgentSandbox {shape.sandbox} says so; {kept}"
    if (spec_of(sandbox).get("snapshot") or {}).get("onStop") is False:
        return f"AgentSandbox {shape.sandbox} keeps no archives (snapshot.onStop: false): what is in it is lost"
    if shape.phase in REST or (shape.pod is None and shape.phase is None):
        return f"it is stopped; {kept}"
    return (
        "its workspace is archived first, and its pod goes when the archive is verified; a new session of this name "
        f"for AgentSandbox {shape.sandbox} starts from there"
    )


def _confirm(place: str, *, is_sure: bool) -> None:
    """What is given up cannot be had back, so somebody must say yes."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        step = "repeat the command with --yes"
        raise CliError(
            f"session {place}: --discard needs a confirmation, and nobody can be asked", step, ExitCode.USAGE
        )
    if not typer.confirm(f"Give up the workspace of {place} without an archive?", err=True):
        raise CliError(f"session {place}: nothing was changed", "leave --discard away to archive it first")


async def _changeable(api: Api, name: str) -> Object:
    found = await api.get(SESSION, api.namespace, name)
    if "deletionTimestamp" in found["metadata"]:
        step = f"wait for its end: kubectl wait --for=delete {NAMED}/{name} -n {api.namespace}"
        raise CliError(f"SandboxSession {api.namespace}/{name}: it is being deleted", step, ExitCode.CONFLICT)
    return found


async def _patch(api: Api, before: Object, change: Object) -> Object:
    """Change this very session and no later one of its name."""
    metadata = {**change.get("metadata", {}), "uid": _uid(before)}
    return await api.patch(SESSION, api.namespace, before["metadata"]["name"], {**change, "metadata": metadata})


def _changed(call: Call, raw: Object, said: str) -> None:
    shape = session_shape(raw)
    archive = f"; its workspace is archive {numbered(shape.snapshot)}" if said == "suspended" and shape.snapshot else ""
    show(call.output, shape, name=f"{NAMED}/{shape.name}", text=lambda: write(f"session {shape.name} {said}{archive}"))


def _details(shape: SessionShape) -> None:
    pod = shape.pod
    fields(
        (
            ("Name", f"{shape.namespace}/{shape.name}"),
            ("Sandbox", shape.sandbox),
            ("Wished", shape.operating_mode),
            ("Phase", f"{shape.phase or '-'}{' (being deleted)' if shape.deleting else ''}"),
            ("Ready", f"{shape.ready} ({shape.reason}): {shape.message}" if shape.reason else shape.ready),
            ("Refusal", shape.refusal and f"{shape.refusal.code}: {shape.refusal.message}"),
            ("Next step", shape.refusal and shape.refusal.action),
            ("Tier", shape.tier and f"{shape.tier}, RuntimeClass {shape.runtime_class}"),
            ("Pod", pod and f"{pod.name} on {pod.node or 'no node yet'}, {pod.ip or 'no address yet'}"),
            ("Recovery", shape.recovery),
            ("Archive", shape.snapshot and f"{numbered(shape.snapshot)} {shape.snapshot.name or ''}"),
            ("Stopped by", shape.stop_reason),
            ("Restarts", shape.restarts or None),
            ("Created", shape.created_at),
            ("Started", shape.started_at),
            ("Expires", shape.expires_at),
        )
    )
    write("Conditions:")
    fields((f"  {one.type}", f"{one.status} ({one.reason}): {one.message}") for one in shape.conditions)


def _uid(raw: Object) -> str:
    return str(raw["metadata"]["uid"])


def _generation(raw: Object) -> int:
    return int(raw["metadata"].get("generation") or 0)
