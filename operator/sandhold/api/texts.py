"""Texts with a form: names, paths, environment variables. Each says its claim once, with the sentence for who broke it.

Only forms are checked here. What a path means inside a pod is checked again where it is used: a link on disk is not
visible from here.
"""

import re
from typing import Any

from sandhold import names
from sandhold.api.model import Rule

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
PORT_NAME = r"^([0-9]+-?)*[a-z](-?[a-z0-9])*$"
QUALIFIED_NAME = r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)?$"
ENV_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
OBJECT_KEY = r"^[-._a-zA-Z0-9]+$"
ABSOLUTE = r"^(/[^/\x00-\x1f\x7f]+)+$"
RELATIVE = r"^[^/\x00-\x1f\x7f]+(/[^/\x00-\x1f\x7f]+)*$"
DOT_PART = r"(^|/)[.]{1,2}(/|$)"

RESERVED_ENV_PREFIX = "SANDHOLD_"
SYSTEM_FOLDERS = ("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/bin", "/sbin", "/lib", "/lib64", "/usr")
TAKEN_FOLDERS = ("/tmp", "/home", "/home/agent")  # noqa: S108 - places in a pod, not here
# Runtimes mount first what has fewer parts (containerd) or a shorter path (gVisor). A workspace that is mounted after
# the gate can be led over it by a link in the image; then a file of its own would run as init before any wall was seen.
MOUNT_PARTS = names.PATH_GATE.count("/") - 1
MOUNT_LENGTH = len(names.PATH_GATE) - 1
NO_NUL = Rule(
    cel="!self.contains('\\u0000')",
    message="a word of command, args or an env value must not hold a NUL character",
    holds=lambda text: "\x00" not in text,
)


def cel_text(text: str) -> str:
    """A text as a CEL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def matches(pattern: str, text: Any) -> bool:
    """Whether the pattern, which brings its own anchors, is found in the text. `$` means the very end."""
    return re.search(pattern.replace("$", r"\Z"), text) is not None


def pattern_rule(pattern: str, message: str) -> Rule:
    """The claim that a text has a form, with a better sentence than the API server's own."""
    return Rule(cel=f"self.matches({cel_text(pattern)})", message=message, holds=lambda text: matches(pattern, text))


def name_rule(field: str) -> Rule:
    """The claim that a field holds the name of a Kubernetes object."""
    return pattern_rule(
        DNS_NAME, f"{field} must be the name of an object: lower-case letters, digits, '-' and '.' between them"
    )


def key_rule(field: str) -> Rule:
    """The claim that a field holds a key of a ConfigMap or Secret, which is the name of a file."""
    return Rule(
        cel=f"self.matches({cel_text(OBJECT_KEY)}) && self != '.' && !self.startsWith('..')",
        message=f"{field} must be a key: letters, digits, '-', '_' and '.', not '.' alone, and no '..' at its start",
        holds=lambda text: matches(OBJECT_KEY, text) and text != "." and not text.startswith(".."),
    )


def absolute_path_rule(field: str) -> Rule:
    """The claim that a field is an absolute, normalised path other than the root."""
    return Rule(
        cel=f"self.matches({cel_text(ABSOLUTE)}) && !self.matches({cel_text(DOT_PART)})",
        message=f"{field} must be an absolute path without '.', '..', '//' or a '/' at the end, such as /workspace",
        holds=lambda text: matches(ABSOLUTE, text) and not matches(DOT_PART, text),
    )


def relative_path_rule(field: str) -> Rule:
    """The claim that a field is a relative, normalised path that stays inside the workspace."""
    return Rule(
        cel=f"self.matches({cel_text(RELATIVE)}) && !self.matches({cel_text(DOT_PART)})",
        message=f"{field} must be a path inside the workspace: relative, without '.', '..', '//' or a '/' at the end",
        holds=lambda text: matches(RELATIVE, text) and not matches(DOT_PART, text),
    )


def _outside_system(path: str) -> bool:
    return not any(path == folder or path.startswith(folder + "/") for folder in SYSTEM_FOLDERS) and path != "/var"


def mount_place_rules(field: str) -> tuple[Rule, ...]:
    """The claims that a mount path covers nothing that the system or Sandhold needs, whatever links an image has."""
    folders = "[" + ", ".join(cel_text(folder) for folder in SYSTEM_FOLDERS) + "]"
    return (
        Rule(
            cel=f"self != '/var' && !{folders}.exists(f, self == f || self.startsWith(f + '/'))",
            message=f"{field} must not cover a system folder ({', '.join(SYSTEM_FOLDERS)}); use a folder of its own",
            holds=_outside_system,
        ),
        Rule(
            cel=f"!(self in [{', '.join(cel_text(folder) for folder in TAKEN_FOLDERS)}])",
            message=f"{field} must not be {' or '.join(TAKEN_FOLDERS)}: home and /tmp have volumes of their own",
            holds=lambda path: path not in TAKEN_FOLDERS,
        ),
        Rule(
            cel=f"self.size() <= {MOUNT_LENGTH} && self.split('/').size() <= {MOUNT_PARTS + 1}",
            message=f"{field} must have at most {MOUNT_LENGTH} characters and {MOUNT_PARTS} parts, such as /srv/work",
            holds=lambda path: len(path) <= MOUNT_LENGTH and path.count("/") <= MOUNT_PARTS,
        ),
    )
