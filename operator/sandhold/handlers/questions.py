"""What this operator would do now, and why, for whoever may ask it: the real world, the real plan, nothing carried out.

It gathers a world and decides like a pass does, and ends there. Whatever may be secret is masked with a key that dies
with the process. A standby has no plans: it says who leads.
"""

import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandhold import names
from sandhold.api.meta import time_text
from sandhold.cluster.door import Door
from sandhold.cluster.kinds import SANDBOX, SESSION
from sandhold.cluster.pending import pending
from sandhold.desired.masking import masked
from sandhold.desired.narration import steps
from sandhold.desired.plan import Plan, Reference, to_parts
from sandhold.desired.sandbox import plan_sandbox
from sandhold.desired.session import plan_session
from sandhold.desired.world import (
    Absent,
    Keeper,
    KubeObject,
    Observed,
    Present,
    SandboxWorld,
    SessionWorld,
    SlotHistory,
    StoreTrouble,
    Unknown,
)
from sandhold.errors import NotFoundError, SandholdError
from sandhold.handlers.assembly import Parts
from sandhold.logs import about

VERSION = 1
_log = logging.getLogger(__name__)
KINDS = {SESSION.lower(): SESSION, SANDBOX.lower(): SANDBOX}


@dataclass(frozen=True, slots=True)
class _Decided:
    subject: KubeObject
    world: SessionWorld | SandboxWorld
    plan: Plan


class Questions:
    """Answers them. `leads` says whether passes are made here."""

    def __init__(self, parts: Parts, door: Door, operator_namespace: str, leads: Callable[[], bool]) -> None:
        self._parts = parts
        self._door = door
        self._lease = Reference("coordination.k8s.io/v1", "Lease", operator_namespace, names.ELECTION_LEASE)
        self._leads = leads
        self._key = secrets.token_bytes(32)

    async def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer as a plain document; one that is not `ok` carries a code and a message."""
        if not self._leads():
            return await self._standby()
        match question:
            case {"verb": "installation"}:
                return _ok(installation=self._parts.facts.current().id, namespace=self._lease.namespace)
            case {"verb": "plan", "kind": str(kind), "namespace": str(namespace), "name": str(name)} if kind in KINDS:
                with about(kind=KINDS[kind], namespace=namespace, name=name):
                    _log.info("somebody asks for the plan")
                    return await self._plan(KINDS[kind], namespace, name)
        return refused("invalid", f"verbs are plan (kinds: {', '.join(KINDS)}) and installation")

    async def _plan(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        try:
            found = await self._decided(kind, namespace, name)
        except SandholdError as error:
            return refused("failed", str(error))
        if found is None:
            return refused("not_found", f"the operator sees no {kind} {namespace}/{name}")
        left = pending(found.plan, found.subject, self._parts.cache, self._parts.memory)
        return _ok(
            kind=kind,
            namespace=namespace,
            name=name,
            resourceVersion=found.subject["metadata"].get("resourceVersion", ""),
            observed=_seen(found.world),
            steps=list(steps(left, found.subject.get("status") or {})),
            settled=is_settled(left),
            wakeAfterSeconds=found.plan.wake_after,
            plan=masked(to_parts(left), self._digest),
        )

    async def _decided(self, kind: str, namespace: str, name: str) -> "_Decided | None":
        """What a pass would start with: observe and decide."""
        if kind == SESSION:
            session = await self._parts.observer.session(namespace, name)
            return _Decided(session.subject, session.world, plan_session(session.world)) if session else None
        sandbox = await self._parts.observer.sandbox(namespace, name)
        return _Decided(sandbox.subject, sandbox.world, plan_sandbox(sandbox.world)) if sandbox else None

    async def _standby(self) -> dict[str, Any]:
        try:
            lease = await self._door.get(self._lease)
        except NotFoundError:
            holder = ""
        except SandholdError as error:
            return refused("standby", f"this operator does not lead, and who does could not be read: {error}")
        else:
            holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        pod = holder.rpartition("_")[0]
        said = f"this operator does not lead: {pod} does" if pod else "no operator leads at the moment"
        return {**refused("standby", said), "leader": pod}

    def _digest(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()[:12]


def refused(code: str, message: str) -> dict[str, Any]:
    """An answer that is none."""
    return {"version": VERSION, "ok": False, "code": code, "message": message}


def is_settled(plan: Plan) -> bool:
    """Whether nothing is wanted but to look again."""
    changes = (plan.finalizer_add, plan.writes, plan.calls, plan.status, plan.events, plan.finalizer_remove)
    return not any(changes)


def _ok(**parts: Any) -> dict[str, Any]:
    return {"version": VERSION, "ok": True, **parts}


def _seen(world: SessionWorld | SandboxWorld) -> dict[str, Any]:
    """What the decision was made from, in short: what is there, what is not, and what nobody knows."""
    pods = world.pods
    seen = {
        "at": time_text(world.now),
        "networkPolicy": _outcome(world.policy),
        "serviceAccount": _outcome(world.service_account),
        "pods": sorted(pod["metadata"]["name"] for pod in pods.value) if isinstance(pods, Present) else _outcome(pods),
    }
    if isinstance(world, SandboxWorld):
        return {**seen, "sessions": len(world.sessions.value) if isinstance(world.sessions, Present) else None}
    return {
        **seen,
        "sandbox": _outcome(world.sandbox),
        "keepers": {uid: _keeper(keeper) for uid, keeper in sorted(world.keepers.items())},
        "store": _history(world.history),
    }


def _outcome(observed: Observed[Any]) -> str:
    match observed:
        case Present():
            return "present"
        case Absent():
            return "absent"
        case Unknown(why):
            return f"unknown: {why}"


def _keeper(keeper: Keeper) -> dict[str, Any]:
    report = keeper.report
    if report is None:
        return {"connected": keeper.connected}
    archive = {"sequence": report.archive_sequence, "state": report.archive_state, "message": report.archive_message}
    return {
        "connected": keeper.connected,
        "workspace": report.workspace_state,
        "gateOpen": bool(report.opened) and report.opened == report.challenge,
        "agent": report.agent_state,
        "archive": archive if report.archive_state else None,
    }


def _history(history: Observed[SlotHistory] | StoreTrouble) -> str:
    match history:
        case Present(SlotHistory(_, content)) if content is not None:
            return f"archive {content.epoch}-{content.sequence}"
        case Present():
            return "no archive"
        case StoreTrouble(code, message, _):
            return f"{code}: {message}"
        case Absent():
            return "not asked: no archives are kept"
        case Unknown(why):
            return f"unknown: {why}"
