"""`sandhold plan` and `sandhold explain`: what the operator would do now and why, without anything being done."""

from collections.abc import Mapping
from typing import Any

from sandhold.cli.api import Api, Object
from sandhold.cli.call import Call, Output
from sandhold.cli.explaining import (
    Told,
    advice,
    conditions_in_words,
    explain_sandbox,
    explain_session,
    recovery,
    waits_for_in_words,
)
from sandhold.cli.failures import CliError, ExitCode
from sandhold.cli.opening import opened
from sandhold.cli.operator_door import UnansweredError, ask
from sandhold.cli.printing import clean, fields, show, write
from sandhold.cli.reading import spec_of
from sandhold.cli.shapes import ExplanationShape, PlanShape
from sandhold.cli.waiting import SESSION
from sandhold.cli.words import span, until

SANDBOX = "AgentSandbox"
_KINDS: Mapping[str, tuple[str, ...]] = {
    SESSION: ("session", "sessions", "sbs", "sandboxsession", "sandboxsessions", "sandboxsession.sandhold.dev"),
    SANDBOX: ("sandbox", "sandboxes", "asb", "agentsandbox", "agentsandboxes", "agentsandbox.sandhold.dev"),
}
ASK_SECONDS = 25.0


def parse(target: str) -> tuple[str, str]:
    """KIND/NAME; a name alone is a session's."""
    kind, _, name = target.rpartition("/")
    known = next((one for one, called in _KINDS.items() if kind.lower() in called), None if kind else SESSION)
    if known is None or not name:
        step = "write session/NAME or sandbox/NAME"
        raise CliError(f"{clean(target)!r} names no object that Sandhold plans for", step, ExitCode.USAGE)
    return known, name


async def plan(call: Call, *, target: str, operator_namespace: str | None) -> None:
    """What the operator would do."""
    kind, name = parse(target)
    async with opened(call) as api:
        namespace = api.namespace
        answer = await ask(api, operator_namespace, "plan", f"{kind.lower()}/{namespace}/{name}")
    shape = _plan_shape(answer)
    show(call.output, shape, name=f"{_named(kind)}/{name}", text=lambda: _plan_text(shape, call.output))


async def explain(call: Call, *, target: str, operator_namespace: str | None) -> None:
    """Where it is, and why."""
    kind, name = parse(target)
    async with opened(call) as api:
        raw = await api.get(kind, api.namespace, name)
        told = await _told(api, operator_namespace, f"{kind.lower()}/{api.namespace}/{name}")
        if kind == SANDBOX:
            shape = explain_sandbox(raw, told)
        else:
            shape = explain_session(raw, await _sandbox_of(api, raw), told)
    show(call.output, shape, name=f"{_named(kind)}/{name}", text=lambda: _explanation_text(shape))


async def _told(api: Api, operator_namespace: str | None, target: str) -> Told:
    """The operator's word, or why there is none: explaining goes on without it."""
    try:
        return Told(await ask(api, operator_namespace, "plan", target))
    except UnansweredError as error:
        return Told(None, error.message)
    except CliError as error:
        if error.code is not ExitCode.NOT_FOUND:
            raise
        return Told(None, error.message)


async def _sandbox_of(api: Api, raw: Object) -> Object | None:
    name = (spec_of(raw).get("sandboxRef") or {}).get("name")
    try:
        return await api.get(SANDBOX, api.namespace, str(name))
    except CliError as error:
        if error.code in (ExitCode.NOT_FOUND, ExitCode.FORBIDDEN):
            return None
        raise


def _plan_shape(answer: Mapping[str, Any]) -> PlanShape:
    wake = answer.get("wakeAfterSeconds")
    return PlanShape(
        kind=str(answer.get("kind", "")),
        namespace=str(answer.get("namespace", "")),
        name=str(answer.get("name", "")),
        settled=bool(answer.get("settled")),
        steps=[str(step) for step in answer.get("steps") or ()],
        wake_after_seconds=float(wake) if isinstance(wake, int | float) else None,
        resource_version=str(answer.get("resourceVersion", "")),
        observed=dict(answer.get("observed") or {}),
        plan=dict(answer.get("plan") or {}),
    )


def _named(kind: str) -> str:
    return "sandboxsession.sandhold.dev" if kind == SESSION else "agentsandbox.sandhold.dev"


def _plan_text(shape: PlanShape, form: Output) -> None:
    write(
        clean(
            f"{shape.kind} {shape.namespace}/{shape.name}: "
            + ("nothing to do now" if shape.settled else "the operator's next pass")
        )
    )
    _numbered(shape.steps)
    _again(shape.wake_after_seconds)
    if form is Output.WIDE:
        import yaml  # noqa: PLC0415 - only where it is wanted

        write("")
        write(yaml.safe_dump(shape.plan, sort_keys=False, allow_unicode=False, width=110).rstrip("\n"))


def _explanation_text(shape: ExplanationShape) -> None:
    phase = f"{shape.phase or 'not looked at yet'} " if shape.kind == SESSION else ""
    write(clean(f"{shape.kind} {shape.namespace}/{shape.name}: {phase}(wished: {shape.wished})"))
    write(f"  {clean(shape.summary)}")
    if shape.note is not None:
        write(f"  From its status alone, since the operator could not be asked: {clean(shape.note)}")
    pod = shape.pod
    fields(
        [
            ("Waits for", waits_for_in_words(shape)),
            ("Refused", shape.refusal and f"{shape.refusal.code}: {shape.refusal.meaning or shape.refusal.message}"),
            ("Pod", pod and f"{pod.name} on {pod.node or 'no node yet'}"),
            ("Recovery point", recovery(shape) if shape.kind == SESSION else None),
            *((f"Limit {each.limit}", f"{until(each.at) or 'running'}: {each.then}") for each in shape.limits),
        ]
    )
    if shape.conditions:
        write("Not as wished:")
        fields((f"  {name}", words) for name, words in conditions_in_words(shape))
    if shape.next_steps is not None:
        write("The operator's next steps:" if shape.next_steps else "The operator does nothing now.")
        _numbered(shape.next_steps)
        _again(shape.wake_after_seconds)
    todo = advice(shape)
    if todo is not None:
        write(f"For you: {clean(todo)}")


def _again(seconds: float | None) -> None:
    if seconds is not None:
        write(f"  It looks again in {span(seconds)}, or when something changes.")


def _numbered(steps: list[str]) -> None:
    for number, step in enumerate(steps, 1):
        write(f"  {number}. {clean(step)}")
