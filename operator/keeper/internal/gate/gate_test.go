package gate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOnlyPlainFilesAreRead(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for _, err := range []error{
		os.WriteFile(path("plain"), []byte("content"), 0o600),
		os.WriteFile(path("large"), []byte(strings.Repeat("x", 101)), 0o600),
		os.Symlink(path("plain"), path("link")),
		syscall.Mkfifo(path("fifo"), 0o600),
		os.Mkdir(path("folder"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if content, err := ReadPlain(path("plain"), 100); err != nil || string(content) != "content" {
		t.Fatal(string(content), err)
	}
	for name, want := range map[string]error{
		"large": ErrNotPlain, "fifo": ErrNotPlain, "folder": ErrNotPlain, "link": syscall.ELOOP, "absent": fs.ErrNotExist,
	} {
		if content, err := ReadPlain(path(name), 100); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
}

func TestAFileIsReplacedWholeAndLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "word.json")
	for _, durable := range []bool{false, true} {
		if err := WriteJSON(path, Word{Challenge: "c", Argv: []string{"a"}}, durable); err != nil {
			t.Fatal(err)
		}
		if word, err := ReadWord(path); err != nil || word.Argv[0] != "a" {
			t.Fatal(word, err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSON(filepath.Join(folder, "taken"), 1, false); err == nil {
		t.Fatal("a folder was replaced")
	}
	if names, err := os.ReadDir(folder); err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
}

func TestAFingerprintTellsAReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, exists := FingerprintOf(path); exists {
		t.Fatal("nothing has a fingerprint")
	}
	var seen []Fingerprint
	for _, content := range []string{"1", "2"} {
		if err := WriteJSON(path, content, false); err != nil {
			t.Fatal(err)
		}
		now, exists := FingerprintOf(path)
		if !exists {
			t.Fatal("no fingerprint")
		}
		seen = append(seen, now)
	}
	if seen[0] == seen[1] {
		t.Fatal("both look alike")
	}
}
