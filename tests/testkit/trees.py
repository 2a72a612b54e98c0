"""Trees of files as values: generated, built on a disk, and read back by a walker that is not the keeper.

The walker is the judge of every round trip, so it shares nothing with the code that it judges: plain os calls, every
path as bytes. It is meant for trees of a test's size and does not defend itself against anybody.
"""

# ruff: noqa: PTH101, PTH102, PTH115, PTH118, PTH123, PTH208, PTH211  # pathlib has no paths in bytes

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

BLOCK = 4096
MIB = 1 << 20
_LOOKED_SECONDS = 10.0


@dataclass(frozen=True)
class File:
    """A regular file: data at offsets, holes between them, cut or extended to `size`."""

    segments: tuple[tuple[int, bytes], ...] = ()
    size: int | None = None
    mode: int = 0o644
    mtime_ns: int = 1_700_000_000_123_456_789


@dataclass(frozen=True)
class Folder:
    """A folder. What is in it stands in the tree beside it."""

    mode: int = 0o755
    mtime_ns: int = 1_700_000_000_123_456_789


@dataclass(frozen=True)
class Symlink:
    """A symbolic link, to anything at all."""

    target: bytes
    mtime_ns: int = 1_700_000_000_123_456_789


@dataclass(frozen=True)
class HardLink:
    """One more name of a file that stands in the tree under the name `to`."""

    to: bytes


Node = File | Folder | Symlink | HardLink
Tree = Mapping[bytes, Node]
"""Nodes by path relative to the root; every parent stands in it too."""


@dataclass(frozen=True)
class Seen:
    """What a path is, as an archive has to preserve it."""

    kind: Literal["file", "folder", "symlink", "special"]
    mode: int
    mtime_ns: int
    size: int = 0
    sha256: str = ""
    target: bytes = b""
    link_group: tuple[bytes, ...] = ()
    extents: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """Runs of data, as the file system tells them: compared by tests that are about holes, not by all."""


def build(tree: Tree, root: os.PathLike[str] | bytes, owner: int | None = None) -> None:
    """Put a tree into an existing folder. Modes and times come last and from the leaves up."""
    base = os.fsencode(root)
    links = {path: node for path, node in tree.items() if isinstance(node, HardLink)}
    nodes = {path: node for path, node in tree.items() if path not in links}
    for path in sorted(nodes, key=lambda path: path.count(b"/")):
        _create(os.path.join(base, path), nodes[path])
    for path, link in links.items():
        os.link(os.path.join(base, link.to), os.path.join(base, path), follow_symlinks=False)
    for path in sorted(nodes, key=lambda path: -path.count(b"/")):
        _finish(os.path.join(base, path), nodes[path], owner)


def _create(path: bytes, node: Node) -> None:
    match node:
        case Folder():
            os.mkdir(path, 0o700)
        case Symlink():
            os.symlink(node.target, path)
        case File():
            with open(path, "xb") as file:
                for offset, data in node.segments:
                    file.seek(offset)
                    file.write(data)
                if node.size is not None:
                    file.truncate(node.size)
        case HardLink():
            raise AssertionError("hard links are made after everything else")


def _finish(path: bytes, node: Node, owner: int | None) -> None:
    assert not isinstance(node, HardLink)
    if owner is not None:
        os.chown(path, owner, owner, follow_symlinks=False)
    if not isinstance(node, Symlink):
        os.chmod(path, node.mode)
    os.utime(path, ns=(node.mtime_ns, node.mtime_ns), follow_symlinks=False)


def walk(root: os.PathLike[str] | bytes) -> dict[bytes, Seen]:
    """Everything beneath a folder, by relative path."""
    base = os.fsencode(root)
    inodes: dict[tuple[int, int], list[bytes]] = {}
    paths: list[bytes] = []
    waiting = [b""]
    while waiting:
        parent = waiting.pop()
        for name in os.listdir(os.path.join(base, parent)):
            path = os.path.join(parent, name)
            paths.append(path)
            status = os.lstat(os.path.join(base, path))
            if stat.S_ISREG(status.st_mode):
                inodes.setdefault((status.st_dev, status.st_ino), []).append(path)
            elif stat.S_ISDIR(status.st_mode):
                waiting.append(path)
    return {path: _see(base, path, inodes) for path in sorted(paths)}


async def walk_after_restore(root: os.PathLike[str], expected: Mapping[bytes, Seen]) -> dict[bytes, Seen]:
    """`walk`, once it gives what is expected, or else what it gives in the end.

    A keeper that has restored a tree looks at it once more, and for that opens folders up that are closed to everybody.
    """
    deadline = time.monotonic() + _LOOKED_SECONDS
    while (seen := walk(root)) != expected and time.monotonic() < deadline:  # noqa: ASYNC110 - a disk tells nobody
        await asyncio.sleep(0.05)
    return seen


def _see(base: bytes, path: bytes, inodes: Mapping[tuple[int, int], list[bytes]]) -> Seen:
    full = os.path.join(base, path)
    status = os.lstat(full)
    mode, mtime = stat.S_IMODE(status.st_mode), status.st_mtime_ns
    if stat.S_ISLNK(status.st_mode):
        return Seen("symlink", mode, mtime, target=os.readlink(full))
    if stat.S_ISDIR(status.st_mode):
        return Seen("folder", mode, mtime)
    if not stat.S_ISREG(status.st_mode):
        return Seen("special", mode, mtime)
    group = inodes[status.st_dev, status.st_ino]
    with open(full, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        extents = _extents(file.fileno(), status.st_size)
    return Seen("file", mode, mtime, status.st_size, digest, link_group=tuple(sorted(group)), extents=extents)


def _extents(descriptor: int, size: int) -> tuple[tuple[int, int], ...]:
    extents: list[tuple[int, int]] = []
    at = 0
    while at < size:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole from here on
            break
        at = os.lseek(descriptor, start, os.SEEK_HOLE)
        extents.append((start, at - start))
    return tuple(extents)


def allocated(extents: tuple[tuple[int, int], ...]) -> int:
    """Bytes of data in a file."""
    return sum(length for _, length in extents)


_LETTERS = st.integers(1, 255).filter(lambda byte: byte != ord("/"))
names = st.one_of(
    st.text("abcXYZ ._-~äß漢\n\\'\"", min_size=1, max_size=12).map(str.encode),
    st.lists(_LETTERS, min_size=1, max_size=12).map(bytes),
    st.lists(_LETTERS, min_size=200, max_size=255).map(bytes),
).filter(lambda name: name not in (b".", b"..") and len(name) <= 255)
"""One name in a folder, of any bytes that a file system takes."""

file_modes = st.one_of(st.sampled_from([0o644, 0o600, 0o755, 0o000, 0o4755, 0o2755, 0o444]), st.integers(0, 0o7777))
folder_modes = st.one_of(st.sampled_from([0o755, 0o700, 0o1777, 0o000, 0o555, 0o300]), st.integers(0, 0o7777))
times = st.one_of(
    st.integers(-(2**31) * 10**9, 2**33 * 10**9),
    st.sampled_from([0, -1, 1, 999_999_999, 1_700_000_000_000_000_000]),
)
targets = st.one_of(
    st.sampled_from([b"/usr/bin/python3", b"../../../etc/passwd", b".", b"dangling", b"/"]),
    st.lists(_LETTERS, min_size=1, max_size=150).map(bytes),
)


@st.composite
def _contents(draw: st.DrawFn) -> tuple[tuple[tuple[int, bytes], ...], int | None]:
    shape = draw(st.sampled_from(["empty", "small", "blocks", "sparse"]))
    if shape == "empty":
        return (), None
    if shape == "small":
        return ((0, draw(st.binary(min_size=1, max_size=2000))),), None
    if shape == "blocks":
        return ((0, draw(st.binary(min_size=1, max_size=64)) * draw(st.integers(1, 8192))),), None
    offsets = draw(st.lists(st.integers(0, 600), min_size=0, max_size=4, unique=True))
    segments = tuple((offset * BLOCK, draw(st.binary(min_size=1, max_size=100))) for offset in sorted(offsets))
    return segments, draw(st.integers(601 * BLOCK, 700 * BLOCK))


_symlinks = st.builds(Symlink, targets, times)
_folders = st.builds(Folder, folder_modes, times)
_files = st.builds(
    lambda content, mode, mtime: File(content[0], content[1], mode, mtime), _contents(), file_modes, times
)


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 25) -> dict[bytes, Node]:
    """Trees with everything in them that a workspace can hold."""
    tree: dict[bytes, Node] = {}
    folders = [b""]
    files: list[bytes] = []
    for _ in range(draw(st.integers(0, max_nodes))):
        path = os.path.join(draw(st.sampled_from(folders)), draw(names))
        if path in tree or len(path) > 3500:
            continue
        kinds: list[st.SearchStrategy[Node]] = [_files, _folders, _symlinks]
        if files:
            kinds.append(st.sampled_from(files).map(HardLink))
        node = draw(st.one_of(kinds))
        tree[path] = node
        if isinstance(node, Folder):
            folders.append(path)
        elif isinstance(node, File):
            files.append(path)
    return tree


ODD: Tree = {
    b"empty": Folder(0o755, 1),
    b"closed": Folder(0o000, 2),
    b"closed/inside": Folder(0o500, 3),
    b"closed/inside/secret": File(((0, b"secret"),), mode=0o000, mtime_ns=-1),
    b"setuid": File(((0, b"x"),), mode=0o4755),
    b"sticky": Folder(0o1777),
    b"first": File(((0, b"linked" * 1000),), mode=0o640),
    b"sticky/second": HardLink(b"first"),
    b"closed/third": HardLink(b"first"),
    b"dangling": Symlink(b"nowhere/at/all", 5),
    b"absolute": Symlink(b"/etc/passwd"),
    b"loop": Symlink(b"loop"),
    b"upwards": Symlink(b"../../../../etc"),
    b"not utf-8 \xff\xfe": File(((0, b"x"),)),
    b"to \xff": Symlink(b"not utf-8 \xff\xfe"),
    b"line\nbreak": File(),
    b"-rf": File(),
    "ünï".encode() * 30: File(((0, b"x"),)),
    b"n" * 255: File(((0, b"x"),)),
    b"sparse": File(((10 * MIB, b"island"), (30 * MIB, b"\0" * BLOCK)), size=64 * MIB, mode=0o600),
    b"hole": File((), size=16 * MIB),
    b"ends with a hole": File(((0, b"data"),), size=MIB),
    b"future": File(mtime_ns=10_000_000_000_000_000_001),
}
"""One of everything that has ever gone wrong in somebody's archive."""
