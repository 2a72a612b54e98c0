"""Describes a tree, byte for byte and to the nanosecond, for comparing before with after: run inside a sandbox.

It shares no code and no assumption with the keeper, whose work it judges; it needs a Python and its standard library.
Prints one JSON object a line in the order of the names' bytes. Names are printed as hexadecimal: they may be any bytes.
"""

import hashlib
import json
import os
import stat
import sys


def describe(root: bytes) -> list[dict[str, object]]:
    """Everything below a folder, the folder itself left out."""
    found: list[dict[str, object]] = []
    folders = [root]
    while folders:
        folder = folders.pop()
        for name in os.listdir(folder):  # noqa: PTH208 - names as bytes, which pathlib does not do
            path = os.path.join(folder, name)  # noqa: PTH118
            found.append(_entry(root, path))
            if stat.S_ISDIR(os.lstat(path).st_mode):
                folders.append(path)
    _group(found)
    return sorted(found, key=lambda entry: str(entry["path"]))


def _entry(root: bytes, path: bytes) -> dict[str, object]:
    facts = os.lstat(path)
    relative = os.path.relpath(path, root).hex()
    entry: dict[str, object] = {
        "path": relative,
        "type": stat.S_IFMT(facts.st_mode),
        "mode": stat.S_IMODE(facts.st_mode),
        "owner": [facts.st_uid, facts.st_gid],
        "mtimeNs": facts.st_mtime_ns,
    }
    if stat.S_ISLNK(facts.st_mode):
        entry["target"] = os.readlink(path).hex()  # noqa: PTH115
    elif stat.S_ISREG(facts.st_mode):
        entry["size"] = facts.st_size
        entry["sha256"] = _digest(path)
        entry["inode"] = [facts.st_dev, facts.st_ino] if facts.st_nlink > 1 else None
    return entry


def _digest(path: bytes) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()


def _group(entries: list[dict[str, object]]) -> None:
    """Replace inode numbers, which differ by nature, by the first name of the group."""
    first: dict[str, object] = {}
    for entry in sorted(entries, key=lambda each: str(each["path"])):
        if inode := entry.pop("inode", None):
            entry["sameFileAs"] = first.setdefault(str(inode), entry["path"])


if __name__ == "__main__":
    for line in describe(os.fsencode(sys.argv[1])):
        print(json.dumps(line, sort_keys=True))
