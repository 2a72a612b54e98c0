package tree

import (
	"encoding/hex"
	"fmt"
	"syscall"
)

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
		if w.dense += record.Size; w.dense > w.disk {
			return record, &TooLargeError{"files of more bytes than their disk has"}
		}
	}
	if w.totals.Bytes+record.Size > w.maxBytes {
		return record, &TooLargeError{fmt.Sprintf("more than %d bytes; raise spec.snapshot.maxBytes", w.maxBytes)}
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
		Mtime: timeOf(st.Mtim),
	}
	if kind == TypeFile {
		record.Size = st.Size
	}
	return record
}
