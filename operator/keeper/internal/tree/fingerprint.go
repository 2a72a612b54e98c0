package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"syscall"
)

// Fingerprint adds up the digests of a tree's names, so that their order does not matter: a folder of a million names is
// looked at as it comes. An agent that makes two trees collide deceives nobody but itself.
type Fingerprint struct {
	sum   [4]uint64
	names int64
}

// Names is how many names it stands for.
func (f *Fingerprint) Names() int64 { return f.names }

func (f *Fingerprint) add(digest [sha256.Size]byte) {
	for i := range f.sum {
		f.sum[i] += binary.LittleEndian.Uint64(digest[8*i:])
	}
	f.names++
}

// mark adds a name to the fingerprint. What has to be opened up is told by its modification time: opening it up changes
// the other one.
func (s *survey) mark(name string, st *syscall.Stat_t) {
	modified, changed := timeOf(st.Mtim), timeOf(st.Ctim)
	if s.uid != 0 && st.Uid == s.uid && st.Mode&needOf(st) != needOf(st) {
		changed = modified
	}
	if s.Youngest.before(changed) {
		s.Youngest = changed
	}
	text := append(s.scratch[:0], s.way.path...)
	text = append(append(text, '/'), name...)
	text = append(text, 0) // in no name: what follows has a fixed length
	text = binary.LittleEndian.AppendUint32(text, st.Mode)
	for _, number := range []int64{
		st.Size, modified.Sec, modified.Nsec, changed.Sec, changed.Nsec, int64(st.Ino),
	} {
		text = binary.LittleEndian.AppendUint64(text, uint64(number))
	}
	s.scratch = text
	s.Fingerprint.add(sha256.Sum256(text))
}

// needOf are the mode bits without which an archive opens a file or folder up.
func needOf(st *syscall.Stat_t) uint32 {
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return folderNeed
	case syscall.S_IFREG:
		return fileNeed
	}
	return 0
}
