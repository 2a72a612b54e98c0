package tree

import (
	"errors"
	"os"
	"syscall"
)

// IsEmpty tells whether nothing at all is in the tree.
func IsEmpty(root string) (bool, error) {
	fd, err := openRoot(root)
	if err != nil {
		return false, err
	}
	defer closeFD(fd)
	names, err := namesIn(fd)
	return len(names) == 0, err
}

// Empty removes everything in the tree, and only there: links are removed, never followed. It is for trees that no
// agent has seen yet.
func Empty(root string) error {
	way, err := newWay(root)
	if err != nil {
		return err
	}
	err = removeAll(way)
	if closing := way.close(); err == nil {
		err = closing
	}
	return err
}

func removeAll(way *way) error {
	names, err := namesIn(way.here().fd)
	if err != nil {
		return err
	}
	way.here().pending = names
	for {
		here := way.here()
		if len(here.pending) == 0 {
			if way.isAtRoot() {
				return nil
			}
			name := lastName(way.path)
			if err := way.leave(); err != nil {
				return err
			}
			if err := unlinkAt(way.here().fd, name, atRemoveDir); err != nil {
				return atPath(join(way.path, name), err)
			}
			continue
		}
		name := here.pending[0]
		here.pending = here.pending[1:]
		if err := remove(way, name); err != nil {
			return atPath(join(way.path, name), err)
		}
	}
}

// remove unlinks a name, or enters it when it is a folder.
func remove(way *way, name string) error {
	dirfd := way.here().fd
	err := unlinkAt(dirfd, name, 0)
	if !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.EPERM) {
		return err
	}
	st, err := statAt(dirfd, name)
	if err != nil {
		return err
	}
	if st.Mode&folderMode != folderMode && os.Geteuid() != 0 {
		if err := changeModeAt(dirfd, name, &st, folderMode); err != nil {
			return err
		}
	}
	fd, err := openFolderAt(dirfd, name)
	if err != nil {
		return err
	}
	here, err := way.enter(name, fd)
	if err != nil {
		return err
	}
	here.pending, err = namesIn(fd)
	return err
}

func lastName(path string) string {
	_, name := split(path)
	return name
}
