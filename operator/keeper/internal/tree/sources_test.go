package tree

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// showKeys writes a volume as the kubelet does: a version, and the link to it.
func showKeys(t *testing.T, folder, version string, keys map[string]string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(folder, version), 0o755); err != nil {
		t.Fatal(err)
	}
	for key, content := range keys {
		if err := os.WriteFile(filepath.Join(folder, version, key), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	temporary := filepath.Join(folder, "..data_tmp")
	if err := errors.Join(os.Symlink(version, temporary), os.Rename(temporary, filepath.Join(folder, dataLink))); err != nil {
		t.Fatal(err)
	}
}

func TestASourceIsReadByKeyOrWhole(t *testing.T) {
	folder := t.TempDir()
	showKeys(t, filepath.Join(folder, "s"), "..1", map[string]string{"a": "1", "b.c": "22"})
	sources := NewSources(folder)
	one, err := sources.Read("s", "b.c")
	if err != nil || len(one) != 1 || string(one[0].Content) != "22" {
		t.Fatal(one, err)
	}
	all, err := sources.Read("s", "")
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if sources.left != MaxSourceBytes-5 {
		t.Fatal(sources.left)
	}
	showKeys(t, filepath.Join(folder, "s"), "..2", map[string]string{"a": "new"})
	if one, err = sources.Read("s", "a"); err != nil || string(one[0].Content) != "new" {
		t.Fatal(one, err)
	}
}

func TestWhatIsNotThereIsMissingAndWhatIsNoKeyIsRefused(t *testing.T) {
	folder := t.TempDir()
	showKeys(t, filepath.Join(folder, "s"), "..1", map[string]string{"a": "1"})
	showKeys(t, filepath.Join(folder, "empty"), "..1", nil)
	if err := os.Mkdir(filepath.Join(folder, "unwritten"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, missing := range [][2]string{{"absent", ""}, {"absent", "a"}, {"s", "b"}, {"empty", ""}, {"unwritten", "a"}} {
		if _, err := NewSources(folder).Read(missing[0], missing[1]); !errors.Is(err, ErrNoSource) {
			t.Errorf("%v: %v", missing, err)
		}
	}
	var conflict *ConflictError
	for _, wrong := range [][2]string{{"", "a"}, {"..", "a"}, {"s/..1", "a"}, {"s", "../s"}, {"s", "..data"}, {"s", "a b"}} {
		if _, err := NewSources(folder).Read(wrong[0], wrong[1]); !errors.As(err, &conflict) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

func TestSourcesHaveABoundInAll(t *testing.T) {
	folder := t.TempDir()
	showKeys(t, filepath.Join(folder, "s"), "..1", map[string]string{"a": "12345"})
	sources := &Sources{Folder: folder, left: 9}
	if _, err := sources.Read("s", ""); err != nil {
		t.Fatal(err)
	}
	var conflict *ConflictError
	if _, err := sources.Read("s", ""); !errors.As(err, &conflict) {
		t.Fatal(err)
	}
}

func TestWhatStandsInAPlaceOrInItsWay(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/folder/file", "x")
	write(t, root+"/file", "x")
	if err := os.Symlink("nowhere", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	paths := []string{"file", "folder", "folder/file", "link", "file/below", "link/below", "absent", "folder/absent", "absent/below", "../out"}
	standing, err := Standing(root, paths)
	if err != nil {
		t.Fatal(err)
	}
	want := []bool{true, true, true, true, true, true, false, false, false, false}
	if !slices.Equal(standing, want) {
		t.Fatal(standing)
	}
}

func TestFoldersThatAreClosedAreOpenedUpForEntriesOnly(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/closed/inner/file", "x")
	inner, closed := filepath.Join(root, "closed/inner"), filepath.Join(root, "closed")
	if err := errors.Join(os.Chmod(inner, 0o400), os.Chmod(closed, 0)); err != nil {
		t.Fatal(err)
	}
	_, err := WriteEntries(root, []Entry{{Path: "closed/inner/new", Kind: EntryFile, Mode: 0o600, Content: []byte("y")}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{closed: 0, inner: 0o400} {
		info, err := os.Stat(path)
		if err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s: %o", path, info.Mode().Perm())
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if content, err := os.ReadFile(filepath.Join(inner, "new")); err != nil || string(content) != "y" {
		t.Fatal(content, err)
	}
}

func TestPathsThatAreLeftOutAreInNoArchive(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{"/kept", "/out/deep/file", "/folder/out", "/folder/outside"} {
		write(t, root+path, "x")
	}
	records, err := NewSpool()
	must(t, err)
	scope := Scope{LeftOut: []string{"out", "folder/out", "absent"}}
	totals, err := Archive(root, scope, io.Discard, records, func(Totals) {})
	must(t, err, records.Seal())
	var paths []string
	must(t, eachRecord(records, func(record Record) error {
		paths = append(paths, record.Path)
		return nil
	}))
	if want := []string{"folder", "folder/outside", "kept"}; !slices.Equal(paths, want) || totals.Skipped != 0 {
		t.Fatal(paths, totals)
	}
}
