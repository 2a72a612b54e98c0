"""`sandhold sweep --dry-run`: what nobody owns any more, judged as the operator's own sweep would, and left alone.

It reads with the caller's rights. It never deletes: a real sweep needs to have seen the same orphan twice, and the
operator does that by itself.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sandhold.cli.api import Api
from sandhold.cli.call import Call, Output
from sandhold.cli.failures import CliError, ExitCode
from sandhold.cli.opening import opened
from sandhold.cli.operator_door import UnansweredError, ask
from sandhold.cli.printing import Column, note, show, show_list
from sandhold.cli.shapes import SweepObjectShape, SweepShape
from sandhold.cluster.client import KubeDoor
from sandhold.cluster.sweep import survey
from sandhold.desired.sweeping import SweepLimits, as_document, plan_sweep
from sandhold.errors import ForbiddenError, SandholdError
from sandhold.settings import OperatorSettings

SWEEP_SECONDS = 120.0
# What is an orphan is judged the same; graces are of no concern to a look that deletes nothing.
USUAL = SweepLimits(grace_seconds=0, breaker_share=OperatorSettings.model_fields["sweep_breaker_share"].default)
_COLUMNS: tuple[Column[SweepObjectShape], ...] = (
    Column("KIND", lambda each: each.kind),
    Column("NAMESPACE", lambda each: each.namespace),
    Column("NAME", lambda each: each.name),
    Column("ORPHAN", lambda each: each.orphan),
    Column("OWNER", lambda each: each.owner, is_wide=True),
    Column("WHY", lambda each: each.message),
)


async def sweep(
    call: Call, *, dry_run: bool, everything: bool, installation: str | None, operator_namespace: str | None
) -> None:
    """Look, and tell."""
    if not dry_run:
        step = "leave --no-dry-run away; the operator collects by itself what was an orphan in two sweeps running"
        raise CliError("sweep: the command line deletes nothing", step, ExitCode.USAGE)
    async with opened(call, SWEEP_SECONDS) as api:
        installation = installation or await _installation(api, operator_namespace)
        door = KubeDoor(api.configuration)
        try:
            found = await survey(door, installation)
        except SandholdError as error:
            code = ExitCode.FORBIDDEN if isinstance(error, ForbiddenError) else ExitCode.UNREACHABLE
            step = "ask for the right to list these objects in all namespaces"
            raise CliError(f"sweep: {error}", step, code) from error
        finally:
            await door.close()
    shape = _shape(installation, as_document(plan_sweep(found, {}, USUAL, datetime.now(UTC), time.monotonic())))
    for kind, why in shape.unread.items():
        note(f"sandhold: {kind} objects could not be read, so nothing is said of them: {why}")
    _show(call, shape, everything=everything)


async def _installation(api: Api, operator_namespace: str | None) -> str:
    """Whose objects are looked for: what the operator in this cluster calls itself."""
    try:
        answer = await ask(api, operator_namespace, "installation")
    except UnansweredError as error:
        step = "name the installation with --installation-id (installation_id of the backends file)"
        raise CliError(error.message, step, error.code) from error
    return str(answer.get("installation", ""))


def _shape(installation: str, document: Mapping[str, Any]) -> SweepShape:
    objects = [
        SweepObjectShape(**{key: one[key] for key in SweepObjectShape.model_fields}) for one in document["objects"]
    ]
    return SweepShape(
        installation_id=installation,
        dry_run=True,
        stopped=document["stopped"],
        unread=document["unread"],
        judged=len(objects),
        orphans=sum(one.orphan for one in objects),
        objects=objects,
    )


def _show(call: Call, shape: SweepShape, *, everything: bool) -> None:
    shown = shape.objects if everything else [one for one in shape.objects if one.orphan]
    if call.output in (Output.JSON, Output.YAML):
        show(call.output, shape.model_copy(update={"objects": shown}), name="", text=lambda: None)
        return
    nothing = f"{shape.judged} objects of installation {shape.installation_id} looked at, no orphan among them"
    show_list(call.output, shown, _COLUMNS, name=lambda each: f"{each.kind.lower()}/{each.name}", nothing=nothing)
    if shape.orphans:
        note(f"{shape.orphans} of {shape.judged} objects have no owner; nothing was deleted")
    if shape.stopped is not None:
        note(f"The operator would delete none of them: {shape.stopped}")
