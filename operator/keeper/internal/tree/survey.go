package tree

import (
	"errors"
	"math"
	"os"
	"syscall"
	"time"
)

const (
	// settleTime is how old a change has to be to be told from one that follows it: clocks of file systems are coarse.
	settleTime = 2 * time.Second
	// blockSize is what every file takes a multiple of. Under gVisor st_blocks is the size in units of 512 bytes.
	blockSize = 4096
)

// Survey is what names and inodes alone tell of a tree.
type Survey struct {
	// Fingerprint stands for everything that an archive would take: paths, types, modes, sizes, times, inodes.
	Fingerprint Fingerprint
	// Youngest is the latest change time in it, and IsSettled says that it is old enough: whatever changes after the
	// survey gives another fingerprint.
	Youngest  Time
	IsSettled bool
	Allocated int64 // bytes on disk of everything that is there, a group of hard links once
	Hidden    int64 // the part of Allocated below folders that had to be opened up
	Closed    int64 // folders that were left closed
}

// survey is a walk that opens nothing but folders.
type survey struct {
	Survey
	way       *way
	leftOut   map[string]bool
	opensUp   bool
	uid       uint32
	used      int64 // of the disk, which nothing in the tree can exceed
	out       int   // how deep the left-out folder is that we are in, 0 for none
	openedUp  int   // likewise the folder that was opened up
	scratch   []byte
	directory []byte
}

// Look surveys the tree at root. Paths that are left out count for the disk and not for the fingerprint. With opensUp,
// folders that their mode closes to us are opened up for the walk, as Archive does. On failure the survey holds what was
// seen so far.
func Look(root string, leftOut []string, opensUp bool) (Survey, error) {
	way, err := newWay(root)
	if err != nil {
		return Survey{}, err
	}
	s := &survey{
		way: way, leftOut: map[string]bool{}, opensUp: opensUp, uid: uint32(os.Geteuid()), directory: make([]byte, 32<<10),
	}
	for _, path := range leftOut {
		s.leftOut[path] = true
	}
	started := time.Now()
	s.Youngest = Time{Sec: math.MinInt64}
	err = s.run()
	if closing := way.close(); err == nil {
		err = closing
	}
	limit := started.Add(-settleTime)
	s.IsSettled = s.Youngest.before(Time{limit.Unix(), int64(limit.Nanosecond())})
	return s.Survey, err
}

func (t Time) before(other Time) bool {
	return t.Sec < other.Sec || (t.Sec == other.Sec && t.Nsec < other.Nsec)
}

func (s *survey) run() error {
	var root syscall.Stat_t
	if err := syscall.Fstat(s.way.here().fd, &root); err != nil {
		return err
	}
	s.weigh(&root)
	if err := s.list(); err != nil {
		return err
	}
	for {
		here := s.way.here()
		if last := len(here.pending) - 1; last >= 0 {
			name := here.pending[last]
			here.pending = here.pending[:last]
			if err := s.enter(here.fd, name); err != nil {
				return err
			}
			continue
		}
		if s.way.isAtRoot() {
			return nil
		}
		if depth := len(s.way.folders); depth == s.out {
			s.out = 0
		}
		if depth := len(s.way.folders); depth == s.openedUp {
			s.openedUp = 0
		}
		if err := s.way.leave(); err != nil {
			return err
		}
	}
}

// list looks at every name of the folder that is worked in. Folders in it are kept for later.
func (s *survey) list() error {
	here := s.way.here()
	for {
		n, err := readDirent(here.fd, s.directory)
		if err != nil || n == 0 {
			return atPath(s.way.path, err)
		}
		_, _, names := syscall.ParseDirent(s.directory[:n], -1, nil)
		for _, name := range names {
			st, err := statAt(here.fd, name)
			if errors.Is(err, syscall.ENOENT) {
				continue // gone between listing and looking
			}
			if errors.Is(err, syscall.EACCES) {
				s.Closed++ // it may be listed and no more
				return nil
			}
			if err != nil {
				return atPath(join(s.way.path, name), err)
			}
			s.see(here, name, &st)
		}
		if len(here.pending) > maxNames {
			return atPath(s.way.path, &TooLargeError{"a folder with too many folders"})
		}
	}
}

func (s *survey) see(here *folder, name string, st *syscall.Stat_t) {
	if uint64(st.Dev) != here.dev {
		return // a mount
	}
	s.weigh(st)
	kind := st.Mode & syscall.S_IFMT
	if kind == syscall.S_IFDIR {
		here.pending = append(here.pending, name)
	}
	isArchived := kind == syscall.S_IFDIR || kind == syscall.S_IFREG || kind == syscall.S_IFLNK
	if isArchived && s.out == 0 && !s.isLeftOut(name) {
		s.mark(name, st)
	}
}

func (s *survey) isLeftOut(name string) bool {
	return len(s.leftOut) > 0 && s.leftOut[join(s.way.path, name)]
}

// weigh counts what an inode takes of the disk. Of a group of hard links each counts its share.
func (s *survey) weigh(st *syscall.Stat_t) {
	taken := st.Blocks * 512
	if taken < 0 || taken > math.MaxInt64-blockSize {
		return
	}
	taken = (taken + blockSize - 1) / blockSize * blockSize
	if taken > s.used && taken > s.diskUse() {
		return // a hole that nobody shows us: it cannot be true
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR && st.Nlink > 1 {
		taken /= int64(st.Nlink)
	}
	s.Allocated += taken
	if s.openedUp > 0 {
		s.Hidden += taken
	}
}

// diskUse is how much of the disk is taken now. It grows while we look.
func (s *survey) diskUse() int64 {
	var st syscall.Statfs_t
	err := syscall.Fstatfs(s.way.here().fd, &st)
	if err != nil || st.Blocks == 0 || st.Bfree > st.Blocks || st.Blocks-st.Bfree > uint64(math.MaxInt64/st.Bsize) {
		s.used = math.MaxInt64 // it does not tell
	} else {
		s.used = int64(st.Blocks-st.Bfree) * st.Bsize
	}
	return s.used
}

// enter goes into a folder. One that has become something else since it was listed is no part of what was seen.
func (s *survey) enter(dirfd int, name string) error {
	path := join(s.way.path, name)
	st, err := statAt(dirfd, name)
	if err != nil {
		return atPath(path, ignoreMoved(err))
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return nil
	}
	uid := uint32(0) // opens nothing up
	if s.opensUp {
		uid = s.uid
	}
	fd, opened, err := openAs(uid, dirfd, name, &st, folderNeed)
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		s.Closed++
		return nil
	}
	if err != nil {
		return atPath(path, ignoreMoved(err))
	}
	isOut := s.isLeftOut(name)
	here, err := s.way.enter(name, fd)
	if err != nil {
		if opened.wasOpenedUp {
			err = errors.Join(err, ignoreGone(changeModeAt(dirfd, name, &st, opened.Mode&modeBits)))
		}
		return atPath(path, err)
	}
	depth := len(s.way.folders)
	if isOut && s.out == 0 {
		s.out = depth
	}
	if opened.wasOpenedUp {
		here.leave = opened.putBack(folderNeed)
		if s.openedUp == 0 {
			s.openedUp = depth
		}
	}
	return s.list()
}

// ignoreMoved drops what only says that a name means something else than when it was listed.
func ignoreMoved(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EXDEV) || isStale(err) {
		return nil
	}
	return err
}

// ClockIsPast tells whether the tree's file system would give a change that comes now a later time than moment. It
// touches the root, which is in no archive.
func ClockIsPast(root string, moment Time) (bool, error) {
	fd, err := openRoot(root)
	if err != nil {
		return false, err
	}
	defer closeFD(fd)
	if err := touch(fd); err != nil {
		return false, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return false, err
	}
	return moment.before(timeOf(st.Ctim)), nil
}
