package tree

import (
	"errors"
	"fmt"
	"syscall"
)

// Standing tells for each path whether something stands there, or in its way: what a restored workspace holds, which an
// entry that is not ephemeral leaves as it is.
func Standing(root string, paths []string) (_ []bool, failure error) {
	way, err := newWay(root)
	if err != nil {
		return nil, err
	}
	defer func() { failure = firstError(failure, way.close()) }()
	standing := make([]bool, len(paths))
	for i, path := range paths {
		if !isPath(path) {
			continue // refused when it is written
		}
		name, err := way.goTo(path)
		if err == nil {
			_, err = statAt(way.here().fd, name)
		}
		switch {
		case err == nil, errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EACCES):
			standing[i] = true
		case !errors.Is(err, syscall.ENOENT):
			return nil, atPath(path, err)
		}
	}
	return standing, nil
}

// claims are the paths that ephemeral entries write: what stands at one of them is replaced.
type claims struct {
	files   map[string]bool
	folders map[string]bool // those on the way to a file as well
}

func claimsOf(entries []Entry) claims {
	c := claims{map[string]bool{}, map[string]bool{}}
	for _, entry := range entries {
		if !entry.Ephemeral || !isPath(entry.Path) {
			continue
		}
		if entry.isFile() {
			c.files[entry.Path] = true
		} else {
			c.folders[entry.Path] = true
		}
		for _, file := range entry.folderFiles() {
			c.files[join(entry.Path, file.Name)] = true
		}
		for above, _ := split(entry.Path); above != ""; above, _ = split(above) {
			c.folders[above] = true
		}
	}
	return c
}

// check refuses an ephemeral folder in whose place a folder stands that holds more than is written anew: no later
// archive would hold it.
func (c claims) check(way *way, entry Entry) error {
	name, err := way.goToMaking(entry.Path)
	if err != nil {
		return err
	}
	return c.checkFolder(way, name)
}

// checkFolder looks at one folder in the one that is worked in, if there is one of that name.
func (c claims) checkFolder(way *way, name string) error {
	fd, leave, err := openUpAt(way.here().fd, name)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil // nothing, or something that is refused when it is written
	}
	if err != nil {
		return err
	}
	here, err := way.enter(name, fd)
	if err != nil {
		return err
	}
	here.leave = leave
	names, err := namesIn(here.fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := join(way.path, name)
		switch {
		case c.files[path]:
		case c.folders[path]:
			if err := c.checkFolder(way, name); err != nil {
				return err
			}
		default:
			return &ConflictError{fmt.Sprintf(
				"it is ephemeral, and the archive holds %s there, which no later archive would hold: choose another path, "+
					"or make the entry not ephemeral and move the content first", quoted(path),
			)}
		}
	}
	return way.leave()
}
