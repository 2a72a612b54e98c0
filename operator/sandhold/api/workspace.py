"""The workspace of an AgentSandbox: where it is mounted, how large it may grow, what stands in it at first."""

from typing import Annotated, ClassVar

from pydantic import Field

from sandhold.api.model import ApiModel, ListMap, Rule
from sandhold.api.quantity import Quantity, size_rule
from sandhold.api.texts import absolute_path_rule, mount_place_rules, relative_path_rule

FILE_MODE = 0o644
DIRECTORY_MODE = 0o755
ENTRIES_CHARACTERS = 262144
"""What the contents of all entries may hold together: they travel to the keeper as one bounded message."""


class FileEntry(ApiModel):
    """A file with its content written here."""

    content: Annotated[str, Field(max_length=131072)] = Field(
        default="", description="Content of the file, as UTF-8 text."
    )


class DirectoryEntry(ApiModel):
    """A folder. It has no settings: write {}."""


_MODE_RULE = Rule(
    cel="self >= 0 && self <= 511",
    message="workspace.entries mode must be from 0 to 0777: permission bits only, no setuid, setgid or sticky",
    holds=lambda mode: 0 <= mode <= 0o777,
)


class Entry(ApiModel):
    """A file or folder that a new workspace starts with."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.file) != has(self.directory)",
            message="workspace.entries item must have exactly one of file and directory",
            holds=lambda entry: (entry.file is None) != (entry.directory is None),
        ),
    )

    path: Annotated[str, Field(min_length=1, max_length=1024), relative_path_rule("workspace.entries path")] = Field(
        description="Path below the mount path. Missing parent folders are made with mode 0755."
    )
    mode: Annotated[int, _MODE_RULE] | None = Field(
        default=None,
        description=(
            "Permission bits. YAML takes octal (0640); JSON needs the decimal number (416). "
            "The default is 0644 for a file and 0755 for a folder. Never setuid, setgid or sticky."
        ),
    )
    file: FileEntry | None = Field(default=None, description="Makes the entry a file.")
    directory: DirectoryEntry | None = Field(default=None, description="Makes the entry a folder. Write {}.")

    @property
    def effective_mode(self) -> int:
        """The mode that applies: the one given, else the default of the entry's kind."""
        if self.mode is not None:
            return self.mode
        return FILE_MODE if self.file is not None else DIRECTORY_MODE


def _contents_length(entries: tuple[Entry, ...]) -> int:
    return sum(len(entry.file.content) for entry in entries if entry.file is not None)


Entries = Annotated[
    tuple[Entry, ...],
    Field(max_length=128),
    ListMap(("path",)),
    Rule(
        cel=(
            f"self.map(e, has(e.file) && has(e.file.content) ? e.file.content.size() : 0).sum() <= {ENTRIES_CHARACTERS}"
        ),
        message=f"workspace.entries must not hold more than {ENTRIES_CHARACTERS} characters of content in all",
        holds=lambda entries: _contents_length(entries) <= ENTRIES_CHARACTERS,
    ),
]


class Workspace(ApiModel):
    """The folder that survives: archived at a stop, restored at the next start."""

    mount_path: Annotated[
        str,
        Field(min_length=2, max_length=64),
        absolute_path_rule("workspace.mountPath"),
        *mount_place_rules("workspace.mountPath"),
    ] = Field(default="/workspace", description="Where the agent finds the workspace.")
    size: Annotated[Quantity, size_rule("workspace.size")] = Field(
        default="1Gi",
        description="A quantity such as 2Gi: how much the workspace is meant to hold. The hard limit is twice that.",
    )
    entries: Entries = Field(
        default=(),
        description="Files and folders that are put into the workspace at each start after a stop, over what is there.",
    )
