package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"syscall"
)

// folderMode is what a folder has while it is filled.
const folderMode = 0o700

// unpacking writes a layer into an empty tree, in step with the records that vouch for it.
type unpacking struct {
	way    *way
	tar    *tarReader
	links  map[int64]Record // first of each group of hard links
	totals Totals
	digest hash.Hash
	buffer []byte
	notice func(Totals)
}

// Unpack fills the empty tree at root from a layer (an uncompressed tar). Every member must be the one that the next
// record describes, in place, type, size and content: nothing is written that no record vouches for. Folders get their
// modes and times at the end. On failure the tree holds a part.
func Unpack(root string, records *Spool, layer io.Reader, notice func(Totals)) (Totals, error) {
	way, err := newWay(root)
	if err != nil {
		return Totals{}, err
	}
	u := &unpacking{
		way: way, tar: &tarReader{from: layer}, links: map[int64]Record{}, notice: notice,
		digest: sha256.New(), buffer: make([]byte, readBuffer),
	}
	err = eachRecord(records, u.unpack)
	if closing := way.close(); err == nil {
		err = closing
	}
	if err == nil {
		err = u.expectEnd()
	}
	if err == nil {
		err = finishFolders(root, records)
	}
	return u.totals, err
}

func eachRecord(records *Spool, do func(Record) error) error {
	opened, err := records.Open()
	if err != nil {
		return err
	}
	defer opened.Close() // a reader over memory: it has nothing to say on closing
	reader := newRecordReader(opened)
	for {
		record, err := reader.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(record); err != nil {
			return err
		}
	}
}

func (u *unpacking) expectEnd() error {
	m, err := u.tar.next()
	if err == nil {
		return Invalidf("member %s has no record", quoted(m.path))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (u *unpacking) unpack(record Record) error {
	m, err := u.tar.next()
	if errors.Is(err, io.EOF) {
		return Invalidf("the record of %s has no member in the layer", quoted(record.Path))
	}
	if err != nil {
		return err
	}
	if err := u.agree(record, m); err != nil {
		return err
	}
	name, err := u.way.goTo(record.Path)
	if err == nil {
		err = u.make(u.way.here().fd, name, record, m)
	}
	if err != nil && isShape(err) {
		return Invalidf("the record of %s cannot follow those before it: %v", quoted(record.Path), err)
	}
	if err != nil {
		return atPath(record.Path, err)
	}
	u.totals.Files++
	u.notice(u.totals)
	return nil
}

// agree compares what the manifest says with what the layer holds.
func (u *unpacking) agree(record Record, m readMember) error {
	flag := map[string]byte{TypeFile: tarFile, TypeFolder: tarFolder, TypeSymlink: tarSymlink}[record.Type]
	size, target := record.Size, record.Target
	if first, known := u.links[record.Link]; known && record.Link > 0 {
		flag, size, target = tarLink, 0, first.Path
		if record.Size != first.Size || record.SHA256 != first.SHA256 || record.Mode != first.Mode || record.Mtime != first.Mtime {
			return Invalidf("the record of %s differs from that of its hard link %s", quoted(record.Path), quoted(first.Path))
		}
	}
	switch {
	case m.path != record.Path:
		return Invalidf("the layer holds %s where the manifest has %s", quoted(m.path), quoted(record.Path))
	case m.flag != flag:
		return Invalidf("%s is of type %q in the layer and %s in the manifest", quoted(m.path), m.flag, record.Type)
	case m.size != size:
		return Invalidf("%s has %d bytes in the layer and %d in the manifest", quoted(m.path), m.size, size)
	case m.target != target:
		return Invalidf("%s leads to %s in the layer and to %s in the manifest", quoted(m.path), quoted(m.target), quoted(target))
	}
	return nil
}

func (u *unpacking) make(dirfd int, name string, record Record, m readMember) error {
	switch m.flag {
	case tarFolder:
		return syscall.Mkdirat(dirfd, name, folderMode)
	case tarSymlink:
		if err := symlinkAt(record.Target, dirfd, name); err != nil {
			return err
		}
		return setTime(dirfd, name, record.Mtime)
	case tarLink:
		return u.link(dirfd, name, u.links[record.Link].Path)
	}
	if record.Link > 0 {
		u.links[record.Link] = record
	}
	u.totals.Bytes += record.Size
	return u.file(dirfd, name, record, m)
}

// link makes a hard link to a file of this tree, which is found from the root without following anything.
func (u *unpacking) link(dirfd int, name, path string) error {
	parent, from := split(path)
	fd, err := syscall.Dup(u.way.folders[0].fd)
	for err == nil && parent != "" {
		var next string
		var below int
		next, parent = cutName(parent)
		below, err = openFolderAt(fd, next)
		closeFD(fd)
		fd = below
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return linkAt(fd, from, dirfd, name)
}

func (u *unpacking) file(dirfd int, name string, record Record, m readMember) (failure error) {
	fd, err := createAt(dirfd, name)
	if err != nil {
		return err
	}
	defer func() {
		if err := syscall.Close(fd); failure == nil {
			failure = err
		}
	}()
	segments, head := []segment{{0, m.size}}, int64(0)
	if m.sparse {
		if segments, head, err = readSparseMap(u.tar.from, m.size); err != nil {
			return cutOff(err)
		}
	}
	if err := ftruncate(fd, m.size); err != nil {
		return err
	}
	stored := head
	for _, one := range segments {
		stored += one.length
	}
	if stored != m.stored {
		return Invalidf("its sparse map stands for %d bytes, and %d are there", stored, m.stored)
	}
	if err := u.fill(fd, segments, record); err != nil {
		return err
	}
	if err := u.tar.skipPadding(m.stored); err != nil {
		return err
	}
	return firstError(syscall.Fchmod(fd, record.Mode), setTime(fd, "", record.Mtime))
}

// fill writes a file's data and compares the whole with its record. Zeros stay holes: gVisor shows nobody the holes of
// a sparse file, so that an archive made there holds them as data.
func (u *unpacking) fill(fd int, segments []segment, record Record) error {
	u.digest.Reset()
	at := int64(0)
	for _, one := range segments {
		hashZeros(u.digest, one.offset-at)
		end := one.offset + one.length
		for at = one.offset; at < end; {
			chunk := u.buffer[:min(int64(len(u.buffer)), end-at)]
			if _, err := io.ReadFull(u.tar.from, chunk); err != nil {
				return cutOff(err)
			}
			u.digest.Write(chunk)
			if !isZeros(chunk) {
				if err := writeFullAt(fd, chunk, at); err != nil {
					return err
				}
			}
			at += int64(len(chunk))
		}
	}
	hashZeros(u.digest, record.Size-at)
	if sum := hex.EncodeToString(u.digest.Sum(nil)); sum != record.SHA256 {
		return Invalidf("%s has another SHA-256 than its record says", quoted(record.Path))
	}
	return nil
}

// finishFolders gives every folder its mode and time, the deepest first, when nothing in it changes any more.
func finishFolders(root string, records *Spool) error {
	way, err := newWay(root)
	if err != nil {
		return err
	}
	err = eachRecord(records, func(record Record) error {
		if record.Type != TypeFolder {
			return nil
		}
		name, err := way.goTo(record.Path)
		if err != nil {
			return err
		}
		fd, err := openFolderAt(way.here().fd, name)
		if err != nil {
			return atPath(record.Path, err)
		}
		here, err := way.enter(name, fd)
		if err != nil {
			return err
		}
		here.leave = func(fd int) error {
			return firstError(setTime(fd, "", record.Mtime), syscall.Fchmod(fd, record.Mode))
		}
		return nil
	})
	if closing := way.close(); err == nil {
		err = closing
	}
	return err
}

func isZeros(data []byte) bool {
	for len(data) > 0 {
		n := min(len(data), len(zeros))
		if !bytes.Equal(data[:n], zeros[:n]) {
			return false
		}
		data = data[n:]
	}
	return true
}

func ftruncate(fd int, size int64) error {
	for {
		err := syscall.Ftruncate(fd, size)
		if err != syscall.EINTR {
			return err
		}
	}
}

// Sync makes everything in the tree's file system durable.
func Sync(root string) error {
	fd, err := openRoot(root)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if err := syncFileSystem(fd); err != nil {
		return fmt.Errorf("sync %s: %w", root, err)
	}
	return nil
}
