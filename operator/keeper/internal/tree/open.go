package tree

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

type openHow struct {
	flags, mode, resolve uint64
}

// canOpenat2 is false under gVisor and under old seccomp profiles.
var canOpenat2 = sync.OnceValue(func() bool {
	fd, err := openat2(-100, "/", readFlags, resolveNoMagiclinks)
	if err != nil {
		return false
	}
	closeFD(fd)
	return true
})

func openat2(dirfd int, name string, flags int, resolve uint64) (int, error) {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	how := openHow{flags: uint64(flags), resolve: resolve}
	for {
		fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(dirfd), uintptr(unsafe.Pointer(pointer)),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno == 0 {
			return int(fd), nil
		}
		if errno != syscall.EINTR && errno != syscall.EAGAIN {
			return -1, errno
		}
	}
}

// openAt opens one name in a folder, never through a link and never into another mount (EXDEV).
func openAt(dirfd int, name string) (int, error) {
	if !isName(name) {
		return -1, syscall.EINVAL
	}
	if canOpenat2() {
		return openat2(dirfd, name, readFlags, resolveNoXdev|resolveNoMagiclinks|resolveNoSymlinks|resolveBeneath)
	}
	fd, err := plainOpenAt(dirfd, name, readFlags, 0)
	if err != nil {
		return -1, err
	}
	var folder, opened syscall.Stat_t
	if err := firstError(syscall.Fstat(dirfd, &folder), syscall.Fstat(fd, &opened)); err != nil {
		closeFD(fd)
		return -1, err
	}
	if folder.Dev != opened.Dev {
		closeFD(fd)
		return -1, syscall.EXDEV
	}
	return fd, nil
}

// openFolderAt is openAt for folders only (ENOTDIR).
func openFolderAt(dirfd int, name string) (int, error) {
	fd, err := openAt(dirfd, name)
	if err != nil {
		return -1, err
	}
	return onlyFolder(fd)
}

// onlyFolder closes what is no folder.
func onlyFolder(fd int) (int, error) {
	var st syscall.Stat_t
	err := syscall.Fstat(fd, &st)
	if err == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		err = syscall.ENOTDIR
	}
	if err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// createAt makes a new file for writing.
func createAt(dirfd int, name string) (int, error) {
	if !isName(name) {
		return -1, syscall.EINVAL
	}
	return plainOpenAt(dirfd, name, createFlags, 0o600)
}

// openParent opens the folder above an open one. The caller compares what it got with what it expects.
func openParent(dirfd int) (int, error) {
	return plainOpenAt(dirfd, "..", readFlags, 0)
}

func plainOpenAt(dirfd int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := syscall.Openat(dirfd, name, flags, mode)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

func openRoot(path string) (int, error) {
	fd, err := syscall.Open(path, readFlags, 0)
	if err == nil {
		fd, err = onlyFolder(fd)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// changeModeAt changes the mode of exactly the file that st describes, however names move meanwhile.
func changeModeAt(dirfd int, name string, st *syscall.Stat_t, mode uint32) error {
	fd, err := plainOpenAt(dirfd, name, oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	var now syscall.Stat_t
	if err := syscall.Fstat(fd, &now); err != nil {
		return err
	}
	if now.Dev != st.Dev || now.Ino != st.Ino || now.Mode&syscall.S_IFMT != st.Mode&syscall.S_IFMT {
		return errChanged
	}
	if err := syscall.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode); err != nil {
		return fmt.Errorf("change its mode: %v", err) // only the words: a missing /proc must not pass for a missing file
	}
	return nil
}

// openedStat is what an opened file is; its mode is the one it had before it was opened up.
type openedStat struct {
	syscall.Stat_t
	wasOpenedUp bool
}

// putBack returns what gives a file its own mode again, unless somebody has given it another one meanwhile.
func (o openedStat) putBack(need uint32) func(fd int) error {
	mode := o.Mode & modeBits
	return func(fd int) error {
		var now syscall.Stat_t
		if err := syscall.Fstat(fd, &now); err != nil || now.Mode&modeBits != mode|need {
			return err
		}
		return syscall.Fchmod(fd, mode)
	}
}

// Mode bits that a walk needs of what it opens.
const (
	fileNeed   = 0o400
	folderNeed = 0o500
)

// open opens what st describes and makes sure that it is still of that type. Where our own mode bits are in the way
// (need: read, and search for folders) they are added; the caller puts them back.
func (w *walk) open(dirfd int, name string, st *syscall.Stat_t, need uint32) (int, openedStat, error) {
	return openAs(w.uid, dirfd, name, st, need)
}

// openAs is open for a user. Root needs nothing opened up.
func openAs(uid uint32, dirfd int, name string, st *syscall.Stat_t, need uint32) (int, openedStat, error) {
	opened := openedStat{}
	if uid != 0 && st.Uid == uid && st.Mode&need != need {
		if err := changeModeAt(dirfd, name, st, st.Mode&modeBits|need); err != nil {
			return -1, opened, err
		}
		opened.wasOpenedUp = true
	}
	fd, err := openAt(dirfd, name)
	if err == nil {
		err = syscall.Fstat(fd, &opened.Stat_t)
	}
	if err == nil && (opened.Ino != st.Ino || opened.Dev != st.Dev || opened.Mode&syscall.S_IFMT != st.Mode&syscall.S_IFMT) {
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
