"""`docs/reference/labels.md`: every label, annotation, finalizer and port, each with who sets it and what for.

The names come from `names.py`; the words stand here. A name without words, and words without a name, stop the
generator: neither can be forgotten.
"""

from generate.tables import page, table
from sandhold import names

_WORDS = {
    "LABEL_INSTALLATION": "On everything we make: whose it is. Nothing without our installation id is ever collected.",
    "LABEL_MANAGED_BY": f"On everything we make: `{names.MANAGED_BY}`.",
    "LABEL_KIND": f"On pods: `{names.KIND_AGENT}` or `{names.KIND_WEBUI}`.",
    "LABEL_SANDBOX": "On everything made for an AgentSandbox: its name (hashed when longer than 63 characters).",
    "LABEL_SANDBOX_UID": "On everything made for an AgentSandbox: its UID.",
    "LABEL_SLOT": "On SandboxSnapshots: the slot that the archive is of.",
    "LABEL_SESSION_UID": "On everything made for a SandboxSession: its UID.",
    "LABEL_FOREIGN_WEBUI": "Honoured, never set: any value marks an interactive WebUI pod, which no sweep touches.",
    "LABEL_APP": "Set by the chart on its own pods.",
    "LABEL_COMPONENT": f"Set by the chart on its own pods; `{names.COMPONENT_MOVER}` is what sandboxes may reach.",
    "ANNOTATION_OWNER": "On everything we make: `kind/namespace/name/uid` of the object that it was made for.",
    "ANNOTATION_RETRY": "Set by you on a SandboxSession: a new value starts a stopped or refused session again.",
    "ANNOTATION_DISCARD": "Set by you on a SandboxSession: `true` lets it go without an archive. What it held is lost.",
    "ANNOTATION_MOVER_ADDRESS": "On pods: where the keeper calls home.",
    "ANNOTATION_MOVER_CA": "On pods: the CA that the keeper trusts.",
    "ANNOTATION_EPOCH": "On pods: the epoch of the slot that the pod was made for.",
    "ANNOTATION_INTENT": "On pods: digest of the pod as it was asked for.",
    "FINALIZER_WORKSPACE": "On SandboxSessions: until the workspace is stored and verified and the pod is gone.",
    "FINALIZER_WALLS": "On AgentSandboxes: until no session and no pod needs their NetworkPolicy and account.",
    "PORT_KEEPERS": "Mover: keepers call home here.",
    "PORT_OPERATORS": "Mover: the operator's connection.",
    "PORT_CANARY": "Mover: admits everybody, so that only a sandbox's own wall can block it.",
    "PORT_METRICS": "Operator: `/metrics`.",
    "PORT_HEALTH": "Operator and mover: `/livez` and `/readyz`.",
}
_KINDS = (("LABEL_", "Labels"), ("ANNOTATION_", "Annotations"), ("FINALIZER_", "Finalizers"), ("PORT_", "Ports"))


class UndescribedNameError(Exception):
    """A name of names.py has no words here, or words here have no name."""


def names_page() -> str:
    """The whole page."""
    prefixes = tuple(prefix for prefix, _ in _KINDS)
    known = {name: getattr(names, name) for name in vars(names) if name.startswith(prefixes)}
    odd = sorted(known.keys() ^ _WORDS.keys())
    if odd:
        raise UndescribedNameError(f"hack/generate/names_page.py and names.py differ in {', '.join(odd)}")
    introduction = (
        "Labels and annotations of a custom object are never copied to what is made for it. "
        f"Only the field manager `{names.FIELD_MANAGER}` sets names under `{names.GROUP}/` on pods."
    )
    parts = [introduction]
    for prefix, title in _KINDS:
        rows = [(f"`{value}`", _WORDS[name]) for name, value in known.items() if name.startswith(prefix)]
        parts += [f"## {title}", table(("name", "meaning"), rows)]
    return page(
        "Labels, annotations, finalizers, ports", "hack/generate/reference from operator/sandhold/names.py", parts
    )
