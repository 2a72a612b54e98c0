package tree

import (
	"errors"
	"fmt"
	"syscall"
)

// errChanged says that a name means something else than a moment ago: somebody works in the tree.
var errChanged = errors.New("it changed while it was looked at")

// TooLargeError says which bound the tree exceeds.
type TooLargeError struct{ what string }

func (e *TooLargeError) Error() string { return "too large to be archived: " + e.what }

// InvalidError says that a snapshot is not what its manifest promises, or tries something that no snapshot needs.
type InvalidError struct{ what string }

func (e *InvalidError) Error() string { return e.what }

// Invalidf returns an InvalidError.
func Invalidf(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// ConflictError says that an entry of the sandbox cannot be written because of what is already there.
type ConflictError struct{ what string }

func (e *ConflictError) Error() string { return e.what }

// atPath adds the path to a failure.
func atPath(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", quoted(path), err)
}

// quoted prints a hostile path for a person, bounded.
func quoted(path string) string {
	if len(path) > 200 {
		return fmt.Sprintf("%.100q…%q", path[:100], path[len(path)-80:])
	}
	return fmt.Sprintf("%q", path)
}

// isShape tells failures that come from the shape of the names from those of the disk: in a snapshot they mean that a
// record contradicts another one.
func isShape(err error) bool {
	for _, errno := range []error{
		syscall.EEXIST, syscall.ENOENT, syscall.ELOOP, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG,
		syscall.EINVAL, syscall.EXDEV,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
