"""The workspace of an AgentSandbox: where it is mounted, how large it may grow, what stands in it at first."""

from typing import Annotated, ClassVar

from pydantic import Field

from sandhold.api.model import ApiModel, ListMap, Rule
from sandhold.api.quantity import Quantity, size_rule
from sandhold.api.texts import absolute_path_rule, key_rule, mount_place_rules, name_rule, relative_path_rule

FILE_MODE = 0o644
SECRET_MODE = 0o600
DIRECTORY_MODE = 0o755
ENTRIES_CHARACTERS = 262144
"""What the contents of all entries may hold together: they travel to the keeper as one bounded message."""
MOST_SOURCES = 32
"""How many entries may come from ConfigMaps and Secrets: each of them is a volume of the pod."""


class FileEntry(ApiModel):
    """A file with its content written here."""

    content: Annotated[str, Field(max_length=131072)] = Field(
        default="", description="Content of the file, as UTF-8 text."
    )


class DirectoryEntry(ApiModel):
    """A folder. It has no settings: write {}."""


class ConfigMapEntry(ApiModel):
    """A ConfigMap in the namespace of the AgentSandbox, or one key of it."""

    kind: ClassVar[str] = "ConfigMap"

    name: Annotated[str, Field(min_length=1, max_length=253), name_rule("workspace.entries configMap.name")] = Field(
        description="Name of the ConfigMap. While it does not exist, sessions wait for it."
    )
    key: Annotated[str, Field(min_length=1, max_length=253), key_rule("workspace.entries configMap.key")] | None = (
        Field(
            default=None,
            description="With a key the entry is a file, without one a folder that holds a file for every key.",
        )
    )


class SecretEntry(ApiModel):
    """A Secret in the namespace of the AgentSandbox, or one key of it."""

    kind: ClassVar[str] = "Secret"

    name: Annotated[str, Field(min_length=1, max_length=253), name_rule("workspace.entries secret.name")] = Field(
        description="Name of the Secret. While it does not exist, sessions wait for it."
    )
    key: Annotated[str, Field(min_length=1, max_length=253), key_rule("workspace.entries secret.key")] | None = Field(
        default=None,
        description="With a key the entry is a file, without one a folder that holds a file for every key.",
    )


_MODE_RULE = Rule(
    cel="self >= 0 && self <= 511",
    message="workspace.entries mode must be from 0 to 0777: permission bits only, no setuid, setgid or sticky",
    holds=lambda mode: 0 <= mode <= 0o777,
)


class Entry(ApiModel):
    """A file or folder that is put into the workspace."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.file), has(self.directory), has(self.configMap), has(self.secret)].filter(x, x).size() == 1",
            message="workspace.entries item must have exactly one of file, directory, configMap and secret",
            holds=lambda entry: (
                sum(part is not None for part in (entry.file, entry.directory, entry.config_map, entry.secret)) == 1
            ),
        ),
    )

    path: Annotated[str, Field(min_length=1, max_length=1024), relative_path_rule("workspace.entries path")] = Field(
        description="Path below the mount path. Missing parent folders are made with mode 0755."
    )
    mode: Annotated[int, _MODE_RULE] | None = Field(
        default=None,
        description=(
            "Permission bits. YAML takes octal (0640); JSON needs the decimal number (416). The default is 0644 for a "
            "file, 0600 for one from a Secret and 0755 for a folder. For a folder of keys it is the mode of its files; "
            "the folder itself is open to whoever may read them. Never setuid, setgid or sticky."
        ),
    )
    file: FileEntry | None = Field(default=None, description="Makes the entry a file.")
    directory: DirectoryEntry | None = Field(default=None, description="Makes the entry a folder. Write {}.")
    config_map: ConfigMapEntry | None = Field(
        default=None, description="Makes the entry a copy of a ConfigMap, taken when the workspace is prepared."
    )
    secret: SecretEntry | None = Field(
        default=None, description="Makes the entry a copy of a Secret, taken when the workspace is prepared."
    )
    ephemeral: bool | None = Field(
        default=None,
        description=(
            "True: written anew at every start and left out of archives, with everything below its path. False: "
            "written where nothing stands yet, then kept and archived as the agent leaves it. The default is true for "
            "a secret, false for everything else."
        ),
    )

    @property
    def source(self) -> ConfigMapEntry | SecretEntry | None:
        """The object that the content is copied from."""
        return self.config_map or self.secret

    @property
    def is_file(self) -> bool:
        """Whether the entry is one file, so that nothing can stand below it."""
        return self.file is not None or (self.source is not None and self.source.key is not None)

    @property
    def is_ephemeral(self) -> bool:
        """Whether it is written at every start and never archived."""
        return self.secret is not None if self.ephemeral is None else self.ephemeral

    @property
    def effective_mode(self) -> int:
        """The mode that applies to the file, to the files of a folder of keys, or to the folder of `directory`."""
        if self.mode is not None:
            return self.mode
        if self.directory is not None:
            return DIRECTORY_MODE
        return SECRET_MODE if self.secret is not None else FILE_MODE

    @property
    def folder_mode(self) -> int:
        """The mode of a folder of keys: whoever may read its files may look for them; its owner may always write."""
        return self.effective_mode | 0o700 | (self.effective_mode & 0o444) >> 2


def _contents_length(entries: tuple[Entry, ...]) -> int:
    return sum(len(entry.file.content) for entry in entries if entry.file is not None)


def _below(entries: tuple[Entry, ...], above: Entry) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry.path.startswith(above.path + "/"))


def _are_ephemeral_below_ephemeral(entries: tuple[Entry, ...]) -> bool:
    ephemeral = (entry for entry in entries if entry.is_ephemeral)
    return all(entry.is_ephemeral for above in ephemeral for entry in _below(entries, above))


def _cel_ephemeral(entry: str) -> str:
    return f"(has({entry}.ephemeral) ? {entry}.ephemeral : has({entry}.secret))"


# Not startsWith(a.path + '/'): what the API server reckons for the longer text would be over its budget for a rule.
_CEL_BELOW = "(b.path.startsWith(a.path) && b.path.charAt(a.path.size()) == '/')"
_CEL_FILE = "has(a.file) || (has(a.configMap) && has(a.configMap.key)) || (has(a.secret) && has(a.secret.key))"

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
    Rule(
        cel=f"self.filter(e, has(e.configMap) || has(e.secret)).size() <= {MOST_SOURCES}",
        message=f"workspace.entries must not hold more than {MOST_SOURCES} items with configMap or secret",
        holds=lambda entries: sum(entry.source is not None for entry in entries) <= MOST_SOURCES,
    ),
    Rule(
        cel=f"self.all(a, !({_CEL_FILE}) || !self.exists(b, {_CEL_BELOW}))",
        message="workspace.entries path must not lie below the path of an item that is a file",
        holds=lambda entries: not any(_below(entries, above) for above in entries if above.is_file),
    ),
    Rule(
        cel=f"self.all(a, !{_cel_ephemeral('a')} || self.all(b, {_cel_ephemeral('b')} || !{_CEL_BELOW}))",
        message=(
            "workspace.entries item below the path of an ephemeral one must be ephemeral too: "
            "nothing below that path is archived"
        ),
        holds=_are_ephemeral_below_ephemeral,
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
        description=(
            "Files and folders of the workspace. A new workspace gets all of them; one that was restored gets the "
            "ephemeral ones anew, and the others where nothing stands any more."
        ),
    )
