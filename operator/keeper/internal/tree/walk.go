package tree

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"sort"
	"syscall"
)

const (
	readBuffer = 128 << 10
	// attempts bounds how often a name that changes under the walk is looked at anew.
	attempts = 50
)

// Totals is what an archive holds.
type Totals struct {
	Files    int64 // records of every type
	Bytes    int64 // sizes of files, a group of hard links counted once
	RawBytes int64 // of the tar
	Skipped  int64 // sockets, FIFOs, devices and mount points, left out
}

// walk writes a tree as a tar and records.
type walk struct {
	way      *way
	tar      *tarWriter
	records  *Spool
	totals   Totals
	notice   func(Totals)
	links    map[inode]Record // the first of each group of hard links
	holes    int64
	dense    int64 // bytes of files without holes, or whose holes nobody shows us
	disk     int64 // the size of the file system, which such bytes cannot exceed
	maxBytes int64
	leftOut  map[string]bool
	digest   hash.Hash
	buffer   []byte
	uid      uint32
}

type inode struct{ dev, ino uint64 }

// Scope says what of a tree an archive takes.
type Scope struct {
	MaxBytes int64    // 0 for no bound but the disk's own
	LeftOut  []string // paths that stay out, with everything below them
}

// Archive walks the tree at root and writes it to layer as a tar and to records as records. It tells notice now and
// then how far it is. Nothing the tree's owner does meanwhile leads it outside or makes it wait.
//
// A sparse file may claim any size at no cost. Where its holes show they are bounded, where they do not (gVisor) the
// disk's own size bounds what can be read; scope.MaxBytes ends it sooner.
func Archive(root string, scope Scope, layer io.Writer, records *Spool, notice func(Totals)) (Totals, error) {
	way, err := newWay(root)
	if err != nil {
		return Totals{}, err
	}
	w := newWalk(way, layer, records, notice)
	if scope.MaxBytes > 0 {
		w.maxBytes = scope.MaxBytes
	}
	for _, path := range scope.LeftOut {
		w.leftOut[path] = true
	}
	if w.disk, err = diskSize(way.here().fd); err == nil {
		err = w.run()
	}
	// Modes that were opened up are put back on leaving, also when the walk failed.
	if closing := way.close(); err == nil {
		err = closing
	}
	if err == nil {
		err = w.tar.finish()
	}
	w.totals.RawBytes = w.tar.written
	return w.totals, err
}

func newWalk(way *way, layer io.Writer, records *Spool, notice func(Totals)) *walk {
	return &walk{
		way: way, tar: &tarWriter{out: layer}, records: records, notice: notice,
		links: map[inode]Record{}, leftOut: map[string]bool{}, digest: sha256.New(), buffer: make([]byte, readBuffer), uid: uint32(os.Geteuid()),
		disk: math.MaxInt64, maxBytes: math.MaxInt64,
	}
}

func (w *walk) run() error {
	if err := w.list(w.way.here()); err != nil {
		return err
	}
	for {
		here := w.way.here()
		if len(here.pending) > 0 {
			name := here.pending[0]
			here.pending = here.pending[1:]
			if err := w.visit(here.fd, name); err != nil {
				return err
			}
			continue
		}
		if w.way.isAtRoot() {
			return nil
		}
		if err := w.way.leave(); err != nil {
			return err
		}
	}
}

func (w *walk) list(here *folder) error {
	names, err := namesIn(here.fd)
	if err != nil {
		return atPath(w.way.path, err)
	}
	sort.Strings(names)
	here.pending = names
	return nil
}

// visit archives one name. A name that means something else by the time it is opened is looked at anew.
func (w *walk) visit(dirfd int, name string) error {
	path := join(w.way.path, name)
	if w.leftOut[path] {
		return nil
	}
	if len(path) > maxPath {
		return atPath(path, &TooLargeError{fmt.Sprintf("a path of more than %d bytes", maxPath)})
	}
	err := errChanged
	for range attempts {
		var st syscall.Stat_t
		if st, err = statAt(dirfd, name); err == nil {
			err = w.add(dirfd, name, path, &st)
		}
		if !isStale(err) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil // gone between listing and looking: it is no part of the tree any more
	case errors.Is(err, syscall.EXDEV):
		w.totals.Skipped++ // a mount
		return nil
	}
	return atPath(path, err)
}

// isStale tells whether an error only says that the name was something else a moment ago.
func isStale(err error) bool {
	return errors.Is(err, errChanged) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) ||
		errors.Is(err, syscall.ENXIO)
}

func (w *walk) add(dirfd int, name, path string, st *syscall.Stat_t) error {
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return w.addFile(dirfd, name, path, st)
	case syscall.S_IFDIR:
		return w.addFolder(dirfd, name, path, st)
	case syscall.S_IFLNK:
		return w.addSymlink(dirfd, name, path, st)
	}
	w.totals.Skipped++
	return nil
}

func (w *walk) addSymlink(dirfd int, name, path string, st *syscall.Stat_t) error {
	target, err := readLinkAt(dirfd, name)
	if err == syscall.EINVAL {
		return errChanged
	}
	if err != nil {
		return err
	}
	record := recordOf(path, TypeSymlink, st)
	record.Target = target
	return w.put(member{record: record, flag: tarSymlink, target: target, uid: st.Uid, gid: st.Gid})
}

func (w *walk) addFolder(dirfd int, name, path string, st *syscall.Stat_t) error {
	fd, opened, err := w.open(dirfd, name, st, folderNeed)
	if err != nil {
		return err
	}
	mode := opened.Mode & modeBits
	here, err := w.way.enter(name, fd)
	if err != nil {
		if opened.wasOpenedUp {
			err = errors.Join(err, changeModeAt(dirfd, name, st, mode))
		}
		return err
	}
	if opened.wasOpenedUp {
		here.leave = opened.putBack(folderNeed)
	}
	if err := w.put(member{
		record: recordOf(path, TypeFolder, &opened.Stat_t), flag: tarFolder, uid: opened.Uid, gid: opened.Gid,
	}); err != nil {
		return err
	}
	return w.list(here)
}

func (w *walk) addFile(dirfd int, name, path string, st *syscall.Stat_t) (failure error) {
	fd, opened, err := w.open(dirfd, name, st, fileNeed)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if opened.wasOpenedUp { // the descriptor stays good
		if err := syscall.Fchmod(fd, opened.Mode&modeBits); err != nil {
			return err
		}
	}
	key := inode{uint64(opened.Dev), opened.Ino}
	if first, isLink := w.links[key]; isLink {
		record := first
		record.Path = path
		return w.put(member{record: record, flag: tarLink, target: first.Path, uid: opened.Uid, gid: opened.Gid})
	}
	record := recordOf(path, TypeFile, &opened.Stat_t)
	if opened.Nlink > 1 {
		record.Link = int64(len(w.links)) + 1
	}
	if record, err = w.store(fd, record, &opened.Stat_t); err != nil {
		return err
	}
	if record.Link > 0 {
		w.links[key] = record
	}
	return nil
}
