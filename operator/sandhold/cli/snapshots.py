"""`sandhold snapshot`: the archives of workspaces that the index knows. The store itself is not asked."""

from sandhold.cli.call import Call
from sandhold.cli.opening import opened
from sandhold.cli.printing import Column, show_list, size
from sandhold.cli.reading import snapshot_shape
from sandhold.cli.shapes import SnapshotShape
from sandhold.cli.words import age

SNAPSHOT = "SandboxSnapshot"
_COLUMNS: tuple[Column[SnapshotShape], ...] = (
    Column("NAMESPACE", lambda each: each.namespace),
    Column("NAME", lambda each: each.name),
    Column("SESSION", lambda each: each.session),
    Column("PHASE", lambda each: each.phase),
    Column("ARCHIVE", lambda each: None if each.epoch is None else f"{each.epoch}-{each.sequence}"),
    Column("FINAL", lambda each: each.final),
    Column("FILES", lambda each: each.files),
    Column("SIZE", lambda each: size(each.bytes)),
    Column("STORED", lambda each: size(each.stored_bytes), is_wide=True),
    Column("STORE", lambda each: each.store, is_wide=True),
    Column("KEY", lambda each: each.key, is_wide=True),
    Column("CREATED", lambda each: age(each.created_at)),
)


async def ls(call: Call, *, all_namespaces: bool, session: str | None) -> None:
    """List them, the newest of a session last."""
    fields = f"spec.sessionRef.name={session}" if session else ""
    async with opened(call) as api:
        found = await api.list_all(SNAPSHOT, None if all_namespaces else api.namespace, fields=fields)
        where = "any namespace" if all_namespaces else f"namespace {api.namespace}"
    shapes = [snapshot_shape(each) for each in found]
    shapes.sort(key=lambda each: (each.namespace, each.session, each.created_at or "", each.epoch or 0, each.name))
    show_list(
        call.output,
        shapes,
        _COLUMNS if all_namespaces else _COLUMNS[1:],
        name=lambda each: f"sandboxsnapshot.sandhold.dev/{each.name}",
        nothing=f"no snapshots{f' of session {session}' if session else ''} in {where}",
    )
