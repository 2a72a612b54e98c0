package gate

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotPlain says that a path is no regular file of a bearable size.
var ErrNotPlain = errors.New("not a regular file of a bearable size")

// ReadPlain reads a regular file of at most limit bytes without following a link and without waiting for anybody: what
// the agent may have put there (a FIFO, a link, a device, an endless file) is an error and nothing else.
func ReadPlain(path string, limit int64) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Size > limit {
		return nil, fmt.Errorf("%s: %w", path, ErrNotPlain)
	}
	content := make([]byte, st.Size)
	n := 0
	for n < len(content) {
		got, err := syscall.Read(fd, content[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if got == 0 {
			break
		}
		n += got
	}
	return content[:n], nil
}

// ReadTrusted reads a file that the kubelet made (its downward-API files are links), up to limit bytes.
func ReadTrusted(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s holds more than %d bytes", path, limit)
	}
	return content, nil
}

// WriteJSON replaces path by the value in one step, so that a reader sees the old or the new and never a part.
// A durable write has reached the disk when it returns.
func WriteJSON(path string, value any, durable bool) error {
	return writeJSON(path, value, 0o644, durable)
}

// WriteSecretJSON is WriteJSON for what nobody but this user may read.
func WriteSecretJSON(path string, value any) error {
	return writeJSON(path, value, 0o600, false)
}

func writeJSON(path string, value any, mode os.FileMode, durable bool) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return replace(path, mode, durable, func(file *os.File) error {
		_, err := file.Write(content)
		return err
	})
}

// Leave tells the keeper of this pod that the pod's end has begun. An empty file needs no room on a full disk.
func Leave(paths Paths) error {
	file, err := os.OpenFile(paths.Leaving(), os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// IsLeaving tells whether the pod's end has begun.
func IsLeaving(paths Paths) bool {
	_, exists := FingerprintOf(paths.Leaving())
	return exists
}

// Install copies the running binary to path.
func Install(path string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	return replace(path, 0o555, false, func(file *os.File) error {
		_, err := io.Copy(file, self)
		return err
	})
}

func replace(path string, mode os.FileMode, durable bool, fill func(*os.File) error) error {
	temporary := path + "." + RandomID() + ".tmp"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = fill(file)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil && durable {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if durable {
		return sync(filepath.Dir(path))
	}
	return nil
}

// SyncFile makes a file and its name durable.
func SyncFile(path string) error {
	return errors.Join(sync(path), sync(filepath.Dir(path)))
}

func sync(path string) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.Sync()
}

// RandomID returns 32 hexadecimal digits that nobody can guess.
func RandomID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(id[:])
}

// Fingerprint tells one state of a file from another without reading it.
type Fingerprint struct {
	inode, size, second, nanosecond int64
}

// FingerprintOf returns the fingerprint of what stands at path now, and false when nothing does.
func FingerprintOf(path string) (Fingerprint, bool) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return Fingerprint{}, false
	}
	return Fingerprint{int64(st.Ino), st.Size, int64(st.Mtim.Sec), int64(st.Mtim.Nsec)}, true
}
