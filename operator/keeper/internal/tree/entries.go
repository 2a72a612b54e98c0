package tree

import (
	"errors"
	"fmt"
	"syscall"
)

// Kinds of entries.
const (
	EntryFile   = "File"
	EntryFolder = "Directory"

	parentMode = 0o755
	maxEntries = 4096
)

// Entry is a file or folder that a sandbox's workspace starts with.
type Entry struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Mode    uint32 `json:"mode"`
	Content []byte `json:"content"`
}

// WriteEntries writes entries into the tree, durably: never through a link, never outside, never over something else.
func WriteEntries(root string, entries []Entry) (Totals, error) {
	var totals Totals
	if len(entries) > maxEntries {
		return totals, &ConflictError{fmt.Sprintf("workspace.entries: more than %d", maxEntries)}
	}
	way, err := newWay(root)
	if err != nil {
		return totals, err
	}
	for i, entry := range entries {
		if err = writeEntry(way, entry); err != nil {
			err = fmt.Errorf("workspace.entries[%d].path %s: %w", i, quoted(entry.Path), err)
			break
		}
		totals.Files++
		totals.Bytes += int64(len(entry.Content))
	}
	if err == nil && len(entries) > 0 {
		for !way.isAtRoot() && err == nil {
			err = way.leave()
		}
		err = firstError(err, syscall.Fsync(way.here().fd))
	}
	if closing := way.close(); err == nil {
		err = closing
	}
	return totals, err
}

func writeEntry(way *way, entry Entry) error {
	if !isPath(entry.Path) {
		return &ConflictError{"it leaves the workspace or is not normalised"}
	}
	if entry.Mode&^modeBits != 0 {
		return &ConflictError{fmt.Sprintf("mode %o has more than permission bits", entry.Mode)}
	}
	name, err := way.goToMaking(entry.Path)
	if err != nil {
		return conflict(err)
	}
	switch entry.Kind {
	case EntryFile:
		err = writeFile(way.here().fd, name, entry)
	case EntryFolder:
		err = makeFolder(way.here().fd, name, entry.Mode)
	default:
		err = &ConflictError{fmt.Sprintf("kind %q is not known", entry.Kind)}
	}
	return conflict(err)
}

// conflict says in words what the shape of the tree has against an entry.
func conflict(err error) error {
	if err != nil && isShape(err) {
		return &ConflictError{fmt.Sprintf("something else is in its place (%v)", err)}
	}
	return err
}

func writeFile(dirfd int, name string, entry Entry) (failure error) {
	if st, err := statAt(dirfd, name); err == nil {
		if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
			return syscall.EEXIST
		}
		if err := unlinkAt(dirfd, name, 0); err != nil {
			return err
		}
	} else if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	fd, err := createAt(dirfd, name)
	if err != nil {
		return err
	}
	defer func() {
		if err := syscall.Close(fd); failure == nil {
			failure = err
		}
	}()
	return firstError(writeFullAt(fd, entry.Content, 0), syscall.Fchmod(fd, entry.Mode), syscall.Fsync(fd))
}

func makeFolder(dirfd int, name string, mode uint32) error {
	if err := syscall.Mkdirat(dirfd, name, folderMode); err != nil && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	fd, err := openFolderAt(dirfd, name)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return syscall.Fchmod(fd, mode)
}

// goToMaking is goTo that makes the folders that are not there.
func (w *way) goToMaking(path string) (string, error) {
	return w.goBy(path, func(next string) (int, error) {
		fd, err := openFolderAt(w.here().fd, next)
		if errors.Is(err, syscall.ENOENT) {
			if err = makeFolder(w.here().fd, next, parentMode); err == nil {
				fd, err = openFolderAt(w.here().fd, next)
			}
		}
		return fd, err
	})
}
