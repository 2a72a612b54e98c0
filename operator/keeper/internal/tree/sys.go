package tree

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// The system calls that Go's standard library has no name for. All of them take a folder's descriptor and one name in
// it, never a path: nobody can change what a descriptor means.
const (
	sysOpenat2 = 437 // the same on every architecture

	atSymlinkNofollow = 0x100
	atRemoveDir       = 0x200
	oPath             = 0x200000

	resolveNoXdev       = 0x01
	resolveNoMagiclinks = 0x02
	resolveNoSymlinks   = 0x04
	resolveBeneath      = 0x08

	seekData = 3
	seekHole = 4

	readFlags   = syscall.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC | syscall.O_NOCTTY
	folderFlags = readFlags | syscall.O_DIRECTORY
	createFlags = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
)

type openHow struct {
	flags, mode, resolve uint64
}

// canOpenat2 is false under gVisor and under old seccomp profiles.
var canOpenat2 = sync.OnceValue(func() bool {
	fd, err := openat2(-100, "/", folderFlags, resolveNoMagiclinks)
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
func openAt(dirfd int, name string, flags int) (int, error) {
	if !isName(name) {
		return -1, syscall.EINVAL
	}
	if canOpenat2() {
		return openat2(dirfd, name, flags, resolveNoXdev|resolveNoMagiclinks|resolveNoSymlinks|resolveBeneath)
	}
	fd, err := plainOpenAt(dirfd, name, flags, 0)
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

// createAt makes a new file for writing.
func createAt(dirfd int, name string) (int, error) {
	if !isName(name) {
		return -1, syscall.EINVAL
	}
	return plainOpenAt(dirfd, name, createFlags, 0o600)
}

// openParent opens the folder above an open one. The caller compares what it got with what it expects.
func openParent(dirfd int) (int, error) {
	return plainOpenAt(dirfd, "..", folderFlags, 0)
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
	fd, err := syscall.Open(path, folderFlags, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func statAt(dirfd int, name string) (syscall.Stat_t, error) {
	var st syscall.Stat_t
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return st, err
	}
	_, _, errno := syscall.Syscall6(sysFstatat, uintptr(dirfd), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(&st)), atSymlinkNofollow, 0, 0)
	return st, orNil(errno)
}

func readLinkAt(dirfd int, name string) (string, error) {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return "", err
	}
	var buffer [4096]byte // PATH_MAX: no link is longer
	n, _, errno := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(dirfd), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)), 0, 0)
	if errno != 0 {
		return "", errno
	}
	return string(buffer[:n]), nil
}

func symlinkAt(target string, dirfd int, name string) error {
	to, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(to)), uintptr(dirfd),
		uintptr(unsafe.Pointer(pointer)))
	return orNil(errno)
}

func linkAt(fromFD int, from string, dirfd int, name string) error {
	source, err := syscall.BytePtrFromString(from)
	if err != nil {
		return err
	}
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_LINKAT, uintptr(fromFD), uintptr(unsafe.Pointer(source)),
		uintptr(dirfd), uintptr(unsafe.Pointer(pointer)), 0, 0)
	return orNil(errno)
}

func unlinkAt(dirfd int, name string, flags uintptr) error {
	pointer, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(dirfd), uintptr(unsafe.Pointer(pointer)), flags)
	return orNil(errno)
}

// setTime sets the modification time of an open file (name empty) or of a name in a folder, which may be a link.
func setTime(fd int, name string, mtime Time) error {
	times := [2]syscall.Timespec{}
	times[0].Sec, times[0].Nsec = mtime.Sec, mtime.Nsec
	times[1] = times[0]
	var pointer *byte
	flags := uintptr(0)
	if name != "" {
		flags = atSymlinkNofollow
		var err error
		if pointer, err = syscall.BytePtrFromString(name); err != nil {
			return err
		}
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(fd), uintptr(unsafe.Pointer(pointer)),
		uintptr(unsafe.Pointer(&times[0])), flags, 0, 0)
	return orNil(errno)
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
	return syscall.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

func syncFileSystem(fd int) error {
	_, _, errno := syscall.Syscall(sysSyncfs, uintptr(fd), 0, 0)
	return orNil(errno)
}

// closeFD closes a descriptor that was only read, or whose writes were already checked.
func closeFD(fd int) {
	if fd >= 0 {
		_ = syscall.Close(fd)
	}
}

func orNil(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, "/\x00")
}

// namesIn lists a folder.
func namesIn(fd int) ([]string, error) {
	var names []string
	buffer := make([]byte, 32<<10)
	for {
		n, err := syscall.ReadDirent(fd, buffer)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = syscall.ParseDirent(buffer[:n], -1, names)
		if len(names) > maxNames {
			return nil, &TooLargeError{fmt.Sprintf("a folder with more than %d names", maxNames)}
		}
	}
}

// readFullAt reads until the buffer is full or the file is over.
func readFullAt(fd int, buffer []byte, offset int64) (int, error) {
	n := 0
	for n < len(buffer) {
		got, err := syscall.Pread(fd, buffer[n:], offset+int64(n))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if got == 0 {
			return n, nil
		}
		n += got
	}
	return n, nil
}

func writeFullAt(fd int, data []byte, offset int64) error {
	for len(data) > 0 {
		n, err := syscall.Pwrite(fd, data, offset)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}
