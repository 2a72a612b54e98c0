package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sort"
	"syscall"
)

const (
	readBuffer = 128 << 10
	// attempts bounds how often a name that changes under the walk is looked at anew.
	attempts = 5
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
	way     *way
	tar     *tarWriter
	records *Spool
	totals  Totals
	notice  func(Totals)
	links   map[inode]*linked
	holes   int64
	digest  hash.Hash
	buffer  []byte
	uid     uint32
}

type inode struct{ dev, ino uint64 }

// linked is the first of a group of hard links.
type linked struct {
	record Record
}

// Archive walks the tree at root and writes it to layer as a tar and to records as records. It tells notice now and
// then how far it is. Nothing the tree's owner does meanwhile leads it outside or makes it wait.
func Archive(root string, layer io.Writer, records *Spool, notice func(Totals)) (Totals, error) {
	way, err := newWay(root)
	if err != nil {
		return Totals{}, err
	}
	w := &walk{
		way: way, tar: &tarWriter{out: layer}, records: records, notice: notice,
		links: map[inode]*linked{}, digest: sha256.New(), buffer: make([]byte, readBuffer), uid: uint32(os.Geteuid()),
	}
	err = w.run()
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
	fd, opened, err := w.open(dirfd, name, st, folderFlags, 0o500)
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
		here.leave = func(fd int) error { return syscall.Fchmod(fd, mode) }
	}
	if err := w.put(member{
		record: recordOf(path, TypeFolder, &opened.Stat_t), flag: tarFolder, uid: opened.Uid, gid: opened.Gid,
	}); err != nil {
		return err
	}
	return w.list(here)
}

func (w *walk) addFile(dirfd int, name, path string, st *syscall.Stat_t) (failure error) {
	fd, opened, err := w.open(dirfd, name, st, readFlags, 0o400)
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
	if first := w.links[key]; first != nil {
		record := first.record
		record.Path = path
		return w.put(member{record: record, flag: tarLink, target: first.record.Path, uid: opened.Uid, gid: opened.Gid})
	}
	record := recordOf(path, TypeFile, &opened.Stat_t)
	if opened.Nlink > 1 {
		record.Link = int64(len(w.links)) + 1
	}
	if record, err = w.store(fd, record, &opened.Stat_t); err != nil {
		return err
	}
	if record.Link > 0 {
		w.links[key] = &linked{record}
	}
	return nil
}

// store writes a file's member and its record, which says what the tar holds.
func (w *walk) store(fd int, record Record, st *syscall.Stat_t) (Record, error) {
	segments, isSparse := segmentsOf(fd, st)
	m := member{record: record, flag: tarFile, stored: record.Size, sparse: isSparse, uid: st.Uid, gid: st.Gid}
	var head []byte
	if isSparse {
		head = sparseMap(segments, record.Size)
		m.stored = int64(len(head))
		for _, one := range segments {
			m.stored += one.length
		}
		if w.holes += record.Size - m.stored; w.holes > maxHoles {
			return record, &TooLargeError{fmt.Sprintf("holes of more than %d GiB in sparse files", maxHoles>>30)}
		}
	} else {
		segments = []segment{{0, record.Size}}
	}
	if err := w.tar.add(m); err != nil {
		return record, err
	}
	if _, err := w.tar.Write(head); err != nil {
		return record, err
	}
	sum, err := w.copySegments(fd, segments, record.Size)
	if err != nil {
		return record, err
	}
	if err := w.tar.pad(m.stored); err != nil {
		return record, err
	}
	record.SHA256 = sum
	w.totals.Bytes += record.Size
	return record, w.note(record)
}

// copySegments copies data to the tar and returns the digest of the whole file, holes included. A file that shrinks
// meanwhile reads as zeros from there on; one that grows is cut at the size it had.
func (w *walk) copySegments(fd int, segments []segment, size int64) (string, error) {
	w.digest.Reset()
	at := int64(0)
	for _, one := range segments {
		hashZeros(w.digest, one.offset-at)
		end := one.offset + one.length
		for at = one.offset; at < end; {
			chunk := w.buffer[:min(int64(len(w.buffer)), end-at)]
			n, err := readFullAt(fd, chunk, at)
			if err != nil {
				return "", err
			}
			clear(chunk[n:])
			w.digest.Write(chunk)
			if _, err := w.tar.Write(chunk); err != nil {
				return "", err
			}
			at += int64(len(chunk))
		}
	}
	hashZeros(w.digest, size-at)
	return hex.EncodeToString(w.digest.Sum(nil)), nil
}

// put writes a member without content and its record.
func (w *walk) put(m member) error {
	if err := w.tar.add(m); err != nil {
		return err
	}
	return w.note(m.record)
}

func (w *walk) note(record Record) error {
	w.totals.Files++
	w.totals.RawBytes = w.tar.written
	w.notice(w.totals)
	return w.records.Add(record)
}

func recordOf(path, kind string, st *syscall.Stat_t) Record {
	record := Record{
		Path: path, Type: kind, Mode: st.Mode & modeBits,
		Mtime: Time{int64(st.Mtim.Sec), int64(st.Mtim.Nsec)},
	}
	if kind == TypeFile {
		record.Size = st.Size
	}
	return record
}

// openedStat is what an opened file is; its mode is the one it had before it was opened up.
type openedStat struct {
	syscall.Stat_t
	wasOpenedUp bool
}

// open opens what st describes and makes sure that it is still of that type. Where our own mode bits are in the way
// (need: read, and search for folders) they are added; the caller puts them back.
func (w *walk) open(dirfd int, name string, st *syscall.Stat_t, flags int, need uint32) (int, openedStat, error) {
	opened := openedStat{}
	if w.uid != 0 && st.Uid == w.uid && st.Mode&need != need {
		if err := changeModeAt(dirfd, name, st, st.Mode&modeBits|need); err != nil {
			return -1, opened, err
		}
		opened.wasOpenedUp = true
	}
	fd, err := openAt(dirfd, name, flags)
	if err == nil {
		err = syscall.Fstat(fd, &opened.Stat_t)
	}
	if err == nil && (opened.Mode&syscall.S_IFMT != st.Mode&syscall.S_IFMT ||
		(opened.wasOpenedUp && (opened.Ino != st.Ino || opened.Dev != st.Dev))) {
		err = errChanged
	}
	if err != nil {
		closeFD(fd)
		if opened.wasOpenedUp {
			err = errors.Join(err, ignoreGone(changeModeAt(dirfd, name, st, st.Mode&modeBits)))
		}
		return -1, opened, err
	}
	if opened.wasOpenedUp {
		opened.Mode = st.Mode
	}
	return fd, opened, nil
}

// ignoreGone drops what says that there is nothing left to put back.
func ignoreGone(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, errChanged) {
		return nil
	}
	return err
}
