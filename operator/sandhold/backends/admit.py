"""PURE: may this AgentSandbox run here, on which tier and with what, or why not.

Only what the configuration and the object say is decided here. Whether a pod really got what it was promised is
judged later, from evidence.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sandhold.api.pod import EnvVar
from sandhold.api.quantity import quantity_value
from sandhold.api.sandbox import AgentSandbox
from sandhold.api.workspace import Entry
from sandhold.backends.model import Backends, Tier
from sandhold.reasons import Refusal, RefusalCode, refuse

WORD_BYTES = 56 * 1024
"""What command and environment may take as JSON: a frame to the keeper holds 64 KiB, and there is more in it."""
ENTRIES_BYTES = 1 << 20
"""What all entries may take as JSON (operator/keeper/PROTOCOL.md 4.2)."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What an AgentSandbox gets."""

    tier: str
    runtime_class: str
    handler: str
    """The node's handler behind the runtime class, such as `runc` or `runsc`."""
    egress_mechanism: str
    image: str
    store: str | None
    """Store of its archives; None when it keeps none (`snapshot.onStop: false`)."""
    ttl_seconds: int | None
    """Time limit of sessions that set none."""
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Requests and limits with the configured defaults, as a container has them."""


def admit(
    sandbox: AgentSandbox, backends: Backends, runtime_classes: Mapping[str, str], env: Iterable[EnvVar] = ()
) -> Admission | Refusal:
    """Decide on an AgentSandbox. `runtime_classes` maps names to handlers; `env` is a session's own environment.

    The caller reads the runtime classes: a read that failed is no empty mapping and must not come here.
    """
    name = sandbox.spec.tier or backends.default_tier
    tier = backends.tiers.get(name)
    if tier is None:
        known = ", ".join(sorted(backends.tiers))
        message = f"spec.tier of AgentSandbox {sandbox.metadata.name} is {name}, and the configured tiers are: {known}"
        return refuse(RefusalCode.TIER_UNKNOWN, message)
    image = _image(sandbox, name, tier, backends)
    if isinstance(image, Refusal):
        return image
    refusal = (
        _runtime_refusal(name, tier, runtime_classes)
        or _store_refusal(sandbox, backends)
        or _entries_refusal(sandbox)
        or _word_refusal(sandbox, env)
    )
    if refusal is not None:
        return refusal
    return Admission(
        tier=name,
        runtime_class=tier.runtime_class,
        handler=runtime_classes[tier.runtime_class],
        egress_mechanism=tier.egress.mechanism,
        image=image,
        store=_store(sandbox, backends),
        ttl_seconds=sandbox.spec.lifecycle.ttl_seconds or backends.sandbox_ttl_seconds,
        resources=_resources(sandbox, backends),
    )


def _image(sandbox: AgentSandbox, name: str, tier: Tier, backends: Backends) -> str | Refusal:
    image = sandbox.spec.image or tier.default_image
    if image is None:
        return refuse(
            RefusalCode.SPEC_REFUSED,
            f"spec.image of AgentSandbox {sandbox.metadata.name} is missing, and tier {name} has no default_image",
        )
    if not backends.allows(image):
        message = f"spec.image of AgentSandbox {sandbox.metadata.name} is {image}, which is not on image_allowlist"
        return refuse(RefusalCode.IMAGE_NOT_ALLOWED, message)
    return image


def _runtime_refusal(name: str, tier: Tier, runtime_classes: Mapping[str, str]) -> Refusal | None:
    if tier.runtime_class in runtime_classes:
        return None
    message = f"tiers.{name}.runtime_class is {tier.runtime_class}, and the cluster has no RuntimeClass of that name"
    return refuse(RefusalCode.RUNTIME_CLASS_MISSING, message)


def _store(sandbox: AgentSandbox, backends: Backends) -> str | None:
    if not sandbox.spec.snapshot.on_stop:
        return None
    return backends.store_for(sandbox.spec.snapshot.store)


def _store_refusal(sandbox: AgentSandbox, backends: Backends) -> Refusal | None:
    store = _store(sandbox, backends)
    if not sandbox.spec.snapshot.on_stop or store in backends.stores:
        return None
    name = sandbox.metadata.name
    if store is None:
        message = f"AgentSandbox {name} wants an archive at every stop, and no store is configured"
    else:
        known = ", ".join(backends.stores) or "none"
        message = f"spec.snapshot.store of AgentSandbox {name} is {store}, and the configured stores are: {known}"
    action = "Configure the store in the operator's configuration, or set spec.snapshot.onStop to false."
    return refuse(RefusalCode.SNAPSHOT_STORE_UNAVAILABLE, message, action)


def _entries_refusal(sandbox: AgentSandbox) -> Refusal | None:
    if sum(_entry_bytes(entry) for entry in sandbox.spec.workspace.entries) <= ENTRIES_BYTES:
        return None
    message = f"spec.workspace.entries of AgentSandbox {sandbox.metadata.name} are larger than 1 MiB as they travel"
    return refuse(RefusalCode.SPEC_REFUSED, message, "Put less content into the entries, or write it from the agent.")


def _entry_bytes(entry: Entry) -> int:
    """At least what an entry takes as JSON: base64 of the content, the path, and the words around them."""
    content = len(entry.file.content.encode()) if entry.file is not None else 0
    return 4 * (content // 3 + 1) + len(json.dumps(entry.path)) + 64


def _word_refusal(sandbox: AgentSandbox, env: Iterable[EnvVar]) -> Refusal | None:
    spec = sandbox.spec
    variables = {item.name: item.value for item in (*spec.env, *env)}
    if len(json.dumps([*spec.command, *spec.args, variables]).encode()) <= WORD_BYTES:
        return None
    message = f"spec.command, spec.args and env of AgentSandbox {sandbox.metadata.name} are too long together"
    return refuse(RefusalCode.COMMAND_TOO_LONG, message)


def _resources(sandbox: AgentSandbox, backends: Backends) -> dict[str, dict[str, str]]:
    """Requests and limits with the configured limits where the object sets none, never below what it requests."""
    given = sandbox.spec.resources
    requests = dict(given.requests) if given is not None else {}
    limits = dict(given.limits) if given is not None else {}
    for name, amount in backends.resource_defaults.items():
        if name not in limits:
            limits[name] = _larger(amount, requests.get(name))
    return {key: amounts for key, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _larger(amount: str, other: str | None) -> str:
    return other if other is not None and quantity_value(other) > quantity_value(amount) else amount
