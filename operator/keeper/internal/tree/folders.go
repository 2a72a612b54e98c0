package tree

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	// openFolders is how many descriptors a way from the root may hold: trees may be deeper than a process may have
	// open files, so those in the middle are closed and opened again on the way back.
	openFolders = 64
	maxDepth    = 16 << 10
	maxPath     = 32 << 10
	maxNames    = 2 << 20
)

// folder is one step of the way from the root to where we are.
type folder struct {
	fd       int // -1 while closed
	dev, ino uint64
	pathEnds int                // how much of the way's path leads here
	pending  []string           // names still to be visited
	leave    func(fd int) error // what is to be done last
}

// way is the way from a root folder to the folder that is worked in, as descriptors.
type way struct {
	folders []*folder
	path    string // of the last folder, from the root; "" for the root itself
}

func newWay(path string) (*way, error) {
	fd, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return nil, err
	}
	return &way{folders: []*folder{{fd: fd, dev: uint64(st.Dev), ino: st.Ino}}}, nil
}

// here is the folder that is worked in.
func (w *way) here() *folder { return w.folders[len(w.folders)-1] }

func (w *way) isAtRoot() bool { return len(w.folders) == 1 }

// enter goes into a folder that was opened in here. It owns the descriptor from now on.
func (w *way) enter(name string, fd int) (*folder, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return nil, err
	}
	if len(w.folders) >= maxDepth {
		closeFD(fd)
		return nil, &TooLargeError{fmt.Sprintf("more than %d folders in one another", maxDepth)}
	}
	w.path = join(w.path, name)
	next := &folder{fd: fd, dev: uint64(st.Dev), ino: st.Ino, pathEnds: len(w.path)}
	w.folders = append(w.folders, next)
	if closing := len(w.folders) - openFolders; closing > 0 {
		closeFD(w.folders[closing].fd)
		w.folders[closing].fd = -1
	}
	return next, nil
}

// leave goes up one folder and does what was to be done on leaving.
func (w *way) leave() error {
	gone, path := w.here(), w.path
	w.folders = w.folders[:len(w.folders)-1]
	above := w.here()
	w.path = path[:above.pathEnds]
	defer closeFD(gone.fd)
	var failure error
	if above.fd < 0 {
		failure = reopen(above, gone.fd) // first: what is done last may close this folder to us
	}
	if gone.leave != nil {
		failure = errors.Join(failure, gone.leave(gone.fd))
	}
	return atPath(path, failure)
}

// reopen finds the folder above again, and makes sure that it is the one we came from.
func reopen(above *folder, fd int) error {
	if fd < 0 {
		return errChanged
	}
	parent, err := openParent(fd)
	if err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(parent, &st); err != nil {
		closeFD(parent)
		return err
	}
	if uint64(st.Dev) != above.dev || st.Ino != above.ino {
		closeFD(parent)
		return errChanged
	}
	above.fd = parent
	return nil
}

// close leaves every folder, whatever happens on the way, and lets the root go.
func (w *way) close() error {
	var first error
	for !w.isAtRoot() {
		first = firstError(first, w.leave())
	}
	closeFD(w.here().fd)
	return first
}

// goTo makes the parent of path the folder that is worked in, by leaving and entering, and returns the last name.
func (w *way) goTo(path string) (string, error) {
	return w.goBy(path, func(next string) (int, func(int) error, error) {
		fd, err := openFolderAt(w.here().fd, next)
		if err != nil {
			return -1, nil, atPath(join(w.path, next), err)
		}
		return fd, nil, nil
	})
}

// goBy is goTo with a way of its own to open the next folder below the one that is worked in, and what is to be done on
// leaving it.
func (w *way) goBy(path string, open func(next string) (int, func(int) error, error)) (string, error) {
	parent, name := split(path)
	for !isWithin(parent, w.path) {
		if err := w.leave(); err != nil {
			return "", err
		}
	}
	for w.path != parent {
		next := nextName(w.path, parent)
		fd, leave, err := open(next)
		if err != nil {
			return "", err
		}
		entered, err := w.enter(next, fd)
		if err != nil {
			return "", err
		}
		entered.leave = leave
	}
	return name, nil
}
