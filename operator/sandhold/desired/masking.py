"""PURE: a plan for people's eyes, with everything that may be secret replaced by a digest.

Whoever asks for a plan wants to know what happens, not what an environment variable holds. The digest comes from the
caller and must be keyed: a plain one of a short secret could be looked up.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sandhold import names

Digest = Callable[[str], str]
_WHOLE = frozenset({"grant", "data", "content", "entriesDigest", names.ANNOTATION_INTENT})
"""What is masked wherever it stands: grants, entries in the forms in which they travel, and digests without a key of
what holds secrets: whoever sees the rest of a pod could try a short one out."""
_COMMANDS = frozenset({"argv", "args"})
"""Words of a command line, of which the first one names the program."""


def masked(document: Any, digest: Digest) -> Any:
    """The document with the values of environments, contents of entries, grants and arguments masked."""
    if isinstance(document, Mapping):
        is_entries = document.get("verb") == "entries"
        return {str(key): _part(str(key), value, digest, is_entries=is_entries) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [masked(part, digest) for part in document]
    return document


def _part(key: str, value: Any, digest: Digest, *, is_entries: bool) -> Any:
    if key in _WHOLE and value not in (None, "", [], {}):
        return _hidden(value, digest)
    if key == "env":
        return _environment(value, digest)
    if key in _COMMANDS and isinstance(value, list | tuple):
        kept = 1 if key == "argv" else 0
        return [*value[:kept], *(_hidden(word, digest) for word in value[kept:])]
    if is_entries and key == "arguments" and isinstance(value, Mapping):
        # The digest of the whole is one of its content, without a key.
        return {
            str(name): _hidden(part, digest) if name in ("digest", "data") else part for name, part in value.items()
        }
    return masked(value, digest)


def _environment(value: Any, digest: Digest) -> Any:
    """Both forms: a mapping, and Kubernetes' list of names and values."""
    if isinstance(value, Mapping):
        return {str(name): _hidden(part, digest) for name, part in value.items()}
    if not isinstance(value, list | tuple):
        return _hidden(value, digest)
    return [
        {**one, "value": _hidden(one["value"], digest)} if isinstance(one, Mapping) and "value" in one else one
        for one in value
    ]


def _hidden(value: Any, digest: Digest) -> str:
    text = value if isinstance(value, str) else repr(value)
    return f"masked:{digest(text)}"
