package tree

import (
	"fmt"
	"math"
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

	// Never with O_DIRECTORY: gVisor follows a link that is opened with O_NOFOLLOW and O_DIRECTORY.
	readFlags   = syscall.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC | syscall.O_NOCTTY
	createFlags = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
)

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

// touch gives an open file the time that it is now. Whoever may write to it may do that.
func touch(fd int) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0, 0, 0)
	return orNil(errno)
}

// diskSize is how large the file system is.
func diskSize(fd int) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(fd, &st); err != nil {
		return 0, err
	}
	if st.Blocks == 0 || st.Blocks > uint64(math.MaxInt64/st.Bsize) {
		return math.MaxInt64, nil // one that does not tell
	}
	return int64(st.Blocks) * st.Bsize, nil
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

// readDirent is the next part of a folder's list, 0 at its end. A folder that was removed after it was opened has no names.
func readDirent(fd int, buffer []byte) (int, error) {
	for {
		n, err := syscall.ReadDirent(fd, buffer)
		if err == syscall.ENOENT {
			return 0, nil
		}
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// namesIn lists a folder.
func namesIn(fd int) ([]string, error) {
	var names []string
	buffer := make([]byte, 32<<10)
	for {
		n, err := readDirent(fd, buffer)
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
