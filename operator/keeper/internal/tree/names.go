package tree

import "strings"

// Paths here are relative to the root of the tree, with "/" between names, of any bytes; the root itself is "".

func join(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

func split(path string) (parent, name string) {
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 {
		return "", path
	}
	return path[:cut], path[cut+1:]
}

// isWithin tells whether path is the folder or lies below it.
func isWithin(path, folder string) bool {
	return folder == "" || path == folder || strings.HasPrefix(path, folder+"/")
}

// nextName is the name that leads from a folder towards a path below it.
func nextName(folder, path string) string {
	rest := path
	if folder != "" {
		rest = path[len(folder)+1:]
	}
	name, _ := cutName(rest)
	return name
}

// isPath tells whether a path stays in the tree: relative, normalised, without "..".
func isPath(path string) bool {
	if len(path) == 0 || len(path) > maxPath {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if !isName(name) {
			return false
		}
	}
	return true
}

// cutName splits the first name off a path.
func cutName(path string) (name, rest string) {
	name, rest, _ = strings.Cut(path, "/")
	return name, rest
}

func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, "/\x00")
}
