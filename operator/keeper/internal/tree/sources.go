package tree

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// dataLink is how the kubelet's writer names the version of a volume that counts: a link that it replaces in one
	// step, before it removes the version before.
	dataLink = "..data"
	// MaxSourceBytes bounds what all entries may copy from ConfigMaps and Secrets together.
	MaxSourceBytes = 16 << 20
	maxKeys        = 4096
)

// ErrNoSource says that a ConfigMap or Secret, or the key that is wanted, is not there (yet).
var ErrNoSource = errors.New("its source is not there")

// KeyFile is one key of a ConfigMap or Secret.
type KeyFile struct {
	Name    string
	Content []byte
}

// Sources reads the volumes of ConfigMaps and Secrets below a folder, up to a number of bytes in all.
type Sources struct {
	Folder string
	left   int64
}

// NewSources returns one that may read MaxSourceBytes.
func NewSources(folder string) *Sources { return &Sources{Folder: folder, left: MaxSourceBytes} }

// Read takes one version of a source: every key of it, or the one that is named. Only regular files of that version are
// read. A source without keys cannot be told from one that does not exist.
func (s *Sources) Read(name, key string) ([]KeyFile, error) {
	if !isName(name) || (key != "" && !isKey(key)) {
		return nil, &ConflictError{"its source has no usable name"}
	}
	root, err := openRoot(filepath.Join(s.Folder, name))
	if errors.Is(err, syscall.ENOENT) {
		return nil, ErrNoSource
	}
	if err != nil {
		return nil, err
	}
	defer closeFD(root)
	for range attempts {
		files, err := s.readVersion(root, key)
		if !errors.Is(err, errChanged) {
			return files, err
		}
	}
	return nil, errChanged
}

// readVersion reads the version that counts now; errChanged says that another one took its place meanwhile.
func (s *Sources) readVersion(root int, key string) ([]KeyFile, error) {
	version, err := readLinkAt(root, dataLink)
	if errors.Is(err, syscall.ENOENT) {
		return nil, ErrNoSource
	}
	if err != nil {
		return nil, err
	}
	if !isName(version) || !strings.HasPrefix(version, "..") {
		return nil, &ConflictError{"its source is no volume of the kubelet's"}
	}
	fd, err := openFolderAt(root, version)
	if errors.Is(err, syscall.ENOENT) {
		return nil, errChanged
	}
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	files, left, err := readKeys(fd, key, s.left)
	if now, linkErr := readLinkAt(root, dataLink); linkErr != nil || now != version {
		return nil, errChanged // what was read, and also what was not there, may be a part
	}
	if err != nil {
		return nil, err
	}
	s.left = left
	return files, nil
}

func readKeys(fd int, key string, left int64) ([]KeyFile, int64, error) {
	names := []string{key}
	if key == "" {
		var err error
		if names, err = namesIn(fd); err != nil {
			return nil, left, err
		}
		if len(names) > maxKeys {
			return nil, left, &ConflictError{fmt.Sprintf("its source has more than %d keys", maxKeys)}
		}
	}
	var files []KeyFile
	for _, name := range names {
		if !isKey(name) {
			return nil, left, &ConflictError{fmt.Sprintf("key %s of its source is no name of a file", quoted(name))}
		}
		content, err := readKey(fd, name, left)
		if errors.Is(err, syscall.ENOENT) {
			return nil, left, ErrNoSource
		}
		if err != nil {
			return nil, left, fmt.Errorf("key %s: %w", quoted(name), err)
		}
		left -= int64(len(content))
		files = append(files, KeyFile{name, content})
	}
	if len(files) == 0 {
		return nil, left, ErrNoSource
	}
	return files, left, nil
}

func readKey(dirfd int, name string, left int64) ([]byte, error) {
	fd, err := openAt(dirfd, name)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, &ConflictError{"it is no regular file"}
	}
	if st.Size > left {
		return nil, &ConflictError{fmt.Sprintf("all entries together copy more than %d bytes", int64(MaxSourceBytes))}
	}
	content := make([]byte, st.Size)
	n, err := readFullAt(fd, content, 0)
	if err == nil && n != len(content) {
		err = errChanged
	}
	return content, err
}

// isKey tells whether a name may be a key of a ConfigMap or Secret: what Kubernetes allows, and nothing that the
// kubelet uses for itself.
func isKey(name string) bool {
	if !isName(name) || strings.HasPrefix(name, "..") {
		return false
	}
	for _, letter := range []byte(name) {
		switch {
		case 'a' <= letter && letter <= 'z', 'A' <= letter && letter <= 'Z', '0' <= letter && letter <= '9':
		case letter == '-', letter == '_', letter == '.':
		default:
			return false
		}
	}
	return true
}
