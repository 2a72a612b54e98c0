"""The credentials of one store: a folder of small files, mounted from a Secret and replaced while we run."""

from dataclasses import dataclass, field
from pathlib import Path

from sandhold.errors import InvalidError
from sandhold.snapshots.mac import MacKeys, parse_mac_keys

_LONGEST_FILE = 64 * 1024
_FILES = ("access-key-id", "secret-access-key", "mac-keys.json")

Stamp = tuple[tuple[int, int, int], ...]


class CredentialsError(InvalidError):
    """A file is absent or not usable. The message names the file, never its content."""


@dataclass(frozen=True, slots=True)
class StoreCredentials:
    """What opens a store, and what proves its manifests."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    mac_keys: MacKeys = field(repr=False)


def stamp(folder: Path) -> Stamp:
    """Changes whenever one of the files is replaced; cheap enough to be asked for before every use."""
    stats = [(folder / name).stat() for name in _FILES if (folder / name).exists()]
    return tuple((found.st_mtime_ns, found.st_size, found.st_ino) for found in stats)


def read_credentials(folder: Path) -> StoreCredentials:
    """Read the three files."""
    access_key_id, secret_access_key, mac_keys = (_read(folder / name) for name in _FILES)
    return StoreCredentials(access_key_id.strip(), secret_access_key.strip(), parse_mac_keys(mac_keys))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_FILE + 1)
    except OSError as error:
        raise CredentialsError(
            f"{path} cannot be read ({error.strerror}); put it into the store's Secret, which is mounted there"
        ) from error
    if not content.strip() or len(content) > _LONGEST_FILE:
        raise CredentialsError(f"{path} is empty or longer than {_LONGEST_FILE} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CredentialsError(f"{path} is not UTF-8") from None
