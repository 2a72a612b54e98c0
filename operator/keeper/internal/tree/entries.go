package tree

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Kinds of entries.
const (
	EntryFile   = "File"
	EntryFolder = "Directory"
	EntryCopy   = "Copy"

	parentMode = 0o755
	maxEntries = 4096
)

// Entry is a file or folder that is put into a sandbox's workspace.
type Entry struct {
	Path       string `json:"path"`
	Kind       string `json:"kind"`
	Mode       uint32 `json:"mode"`
	Content    []byte `json:"content"`
	Source     string `json:"source"`     // of a copy: the folder of the ConfigMap or Secret
	Key        string `json:"key"`        // of a copy: the key that is the file; empty for a folder of all keys
	FolderMode uint32 `json:"folderMode"` // of a copy of all keys
	Ephemeral  bool   `json:"ephemeral"`

	Place int       `json:"-"` // in the list that the order holds
	Files []KeyFile `json:"-"` // what was read from the source
}

// Entries gives every entry its place.
func Entries(list []Entry) []Entry {
	for i := range list {
		list[i].Place = i
	}
	return list
}

func (e Entry) isFile() bool { return e.Kind == EntryFile || e.Kind == EntryCopy && e.Key != "" }

// folderFiles are the files of a copy of all keys.
func (e Entry) folderFiles() []KeyFile {
	if e.Kind == EntryCopy && e.Key == "" {
		return e.Files
	}
	return nil
}

// Wrap names the entry that a failure is about.
func (e Entry) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("workspace.entries[%d].path %s: %w", e.Place, quoted(e.Path), err)
}

// writing puts entries into a tree.
type writing struct {
	way    *way
	places map[string]int // what was written, and for which entry
	claims claims
	totals Totals
}

// WriteEntries writes entries into the tree, durably: never through a link, never outside, and over something else only
// where an ephemeral file replaces a file, a link or an empty folder. Copies must have been read.
func WriteEntries(root string, entries []Entry) (Totals, error) {
	if len(entries) > maxEntries {
		return Totals{}, &ConflictError{fmt.Sprintf("workspace.entries: more than %d", maxEntries)}
	}
	way, err := newWay(root)
	if err != nil {
		return Totals{}, err
	}
	w := &writing{way: way, places: map[string]int{}, claims: claimsOf(entries)}
	for _, entry := range entries {
		if err = entry.Wrap(conflict(w.write(entry))); err != nil {
			break
		}
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
	return w.totals, err
}

func (w *writing) write(entry Entry) error {
	if !isPath(entry.Path) {
		return &ConflictError{"it leaves the workspace or is not normalised"}
	}
	if mode := entry.Mode | entry.FolderMode; mode&^modeBits != 0 {
		return &ConflictError{fmt.Sprintf("mode %o has more than permission bits", mode)}
	}
	switch {
	case entry.Kind == EntryFile:
		return w.writeFile(entry, entry.Path, entry.Content)
	case entry.Kind == EntryFolder:
		return w.makeFolder(entry, entry.Mode)
	case entry.Kind == EntryCopy && entry.Key != "" && len(entry.Files) == 1:
		return w.writeFile(entry, entry.Path, entry.Files[0].Content)
	case entry.Kind == EntryCopy && entry.Key == "":
		return w.copyFolder(entry)
	}
	return &ConflictError{fmt.Sprintf("kind %q is not known", entry.Kind)}
}

func (w *writing) copyFolder(entry Entry) error {
	if err := w.makeFolder(entry, entry.FolderMode); err != nil {
		return err
	}
	for _, file := range entry.Files {
		if err := w.writeFile(entry, join(entry.Path, file.Name), file.Content); err != nil {
			return fmt.Errorf("key %s: %w", quoted(file.Name), err)
		}
	}
	return nil
}

// claim takes a path for an entry. Two entries never write the same: which of them wins would be a matter of luck.
func (w *writing) claim(path string, entry Entry) error {
	if other, isTaken := w.places[path]; isTaken {
		return &ConflictError{fmt.Sprintf("workspace.entries[%d] writes %s too", other, quoted(path))}
	}
	w.places[path] = entry.Place
	return nil
}

func (w *writing) writeFile(entry Entry, path string, content []byte) error {
	if err := w.claim(path, entry); err != nil {
		return err
	}
	name, err := w.way.goToMaking(path)
	if err != nil {
		return err
	}
	dirfd := w.way.here().fd
	if err := vacate(dirfd, name, entry.Ephemeral); err != nil {
		return err
	}
	w.totals.Files++
	w.totals.Bytes += int64(len(content))
	return writeNew(dirfd, name, content, entry.Mode)
}

func (w *writing) makeFolder(entry Entry, mode uint32) error {
	if err := w.claim(entry.Path, entry); err != nil {
		return err
	}
	if entry.Ephemeral {
		if err := w.claims.check(w.way, entry); err != nil {
			return err
		}
	}
	name, err := w.way.goToMaking(entry.Path)
	if err != nil {
		return err
	}
	w.totals.Files++
	return makeFolder(w.way.here().fd, name, mode)
}

// conflict says in words what the shape of the tree has against an entry.
func conflict(err error) error {
	if err != nil && (isShape(err) || errors.Is(err, syscall.ENOTEMPTY)) {
		return &ConflictError{fmt.Sprintf("something else is in its place (%v)", err)}
	}
	return err
}

// vacate makes room for an ephemeral file, without a file, a link or an empty folder that was restored there. Anything
// else stays, and is in the way.
func vacate(dirfd int, name string, isEphemeral bool) error {
	st, err := statAt(dirfd, name)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if isEphemeral {
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFREG, syscall.S_IFLNK:
			return unlinkAt(dirfd, name, 0)
		case syscall.S_IFDIR:
			return unlinkAt(dirfd, name, atRemoveDir)
		}
	}
	return syscall.EEXIST
}

func writeNew(dirfd int, name string, content []byte, mode uint32) (failure error) {
	fd, err := createAt(dirfd, name)
	if err != nil {
		return err
	}
	defer func() {
		if err := syscall.Close(fd); failure == nil {
			failure = err
		}
	}()
	return firstError(writeFullAt(fd, content, 0), syscall.Fchmod(fd, mode), syscall.Fsync(fd))
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

// goToMaking is goTo that makes the folders that are not there, and opens up those that are closed to us until it
// leaves them.
func (w *way) goToMaking(path string) (string, error) {
	return w.goBy(path, func(next string) (int, func(int) error, error) {
		fd, leave, err := openUpAt(w.here().fd, next)
		if errors.Is(err, syscall.ENOENT) {
			if err = makeFolder(w.here().fd, next, parentMode); err == nil {
				fd, err = openFolderAt(w.here().fd, next)
			}
		}
		return fd, leave, err
	})
}

// openUpAt opens a folder that may be closed to its owner, which we are. What it returns beside puts the mode back.
func openUpAt(dirfd int, name string) (int, func(fd int) error, error) {
	st, err := statAt(dirfd, name)
	if err != nil {
		return -1, nil, err
	}
	mode := st.Mode & modeBits
	isClosed := st.Mode&syscall.S_IFMT == syscall.S_IFDIR && mode&folderMode != folderMode
	if !isClosed || st.Uid != uint32(os.Geteuid()) {
		fd, err := openFolderAt(dirfd, name)
		return fd, nil, err
	}
	if err := changeModeAt(dirfd, name, &st, mode|folderMode); err != nil {
		return -1, nil, err
	}
	fd, err := openFolderAt(dirfd, name)
	return fd, func(fd int) error { return syscall.Fchmod(fd, mode) }, err
}
