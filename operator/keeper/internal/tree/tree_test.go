package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// packed is an archive in memory.
type packed struct {
	tar     []byte
	records *Spool
	totals  Totals
}

func pack(t *testing.T, root string) packed {
	t.Helper()
	var layer bytes.Buffer
	records, err := NewSpool()
	if err != nil {
		t.Fatal(err)
	}
	totals, err := Archive(root, Scope{}, &layer, records, func(Totals) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := records.Seal(); err != nil {
		t.Fatal(err)
	}
	return packed{layer.Bytes(), records, totals}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644))
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write(t, from+"/a/b/file", "content")
	write(t, from+"/large", strings.Repeat("0123456789", 50_000))
	write(t, from+"/"+strings.Repeat("n", 255), "")
	must(t,
		os.Mkdir(from+"/empty", 0o700), os.Symlink("/etc/passwd", from+"/absolute"), os.Symlink("b/file", from+"/a/relative"),
		os.Link(from+"/a/b/file", from+"/zz-link"), os.Chmod(from+"/large", 0o4711|fs.ModeSetuid),
		os.Chtimes(from+"/a/b", time.Time{}, time.Unix(12345, 678)),
	)
	archive := pack(t, from)
	totals, err := Unpack(to, archive.records, bytes.NewReader(archive.tar), func(Totals) {})
	must(t, err)
	if totals.Files != archive.totals.Files || totals.Bytes != archive.totals.Bytes || totals.Files != 9 {
		t.Fatalf("%+v packed, %+v unpacked", archive.totals, totals)
	}
	if again := pack(t, to); !bytes.Equal(again.tar, archive.tar) {
		t.Fatal("packed again, it is another tar")
	}
}

// Go's own reader is one more that has to understand what we write.
func TestAnotherReaderUnderstandsTheTar(t *testing.T) {
	from := t.TempDir()
	name := strings.Repeat("long", 60) + "\xff"
	write(t, from+"/"+name, "content")
	must(t, os.Chtimes(from+"/"+name, time.Time{}, time.Unix(-5, 250)), os.Symlink(strings.Repeat("t", 200), from+"/link"))
	sparse, err := os.Create(from + "/sparse")
	must(t, err)
	_, err = sparse.WriteAt([]byte("island"), 1<<20)
	must(t, err, sparse.Truncate(4<<20), sparse.Close())
	reader := tar.NewReader(bytes.NewReader(pack(t, from).tar))
	seen := map[string]*tar.Header{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		seen[header.Name] = header
		if header.Name == "sparse" {
			content, err := io.ReadAll(reader)
			must(t, err)
			if len(content) != 4<<20 || string(content[1<<20:1<<20+6]) != "island" {
				t.Fatal("the sparse file reads as something else")
			}
		}
	}
	if file := seen[name]; file == nil || !file.ModTime.Equal(time.Unix(-5, 250)) || file.Size != 7 {
		t.Fatalf("%+v", file)
	}
	if link := seen["link"]; link == nil || link.Linkname != strings.Repeat("t", 200) {
		t.Fatalf("%+v", link)
	}
}

func TestExtendedHeadersCountTheirOwnDigits(t *testing.T) {
	for length := range 1200 {
		record := paxRecord("path", strings.Repeat("x", length))
		digits, _, _ := strings.Cut(record, " ")
		if want := len(record); digits != strconv.Itoa(want) {
			t.Fatalf("%q says %s, is %d", record[:20], digits, want)
		}
	}
}

func walkOver(t *testing.T, root string) *walk {
	t.Helper()
	way, err := newWay(root)
	must(t, err)
	t.Cleanup(func() { way.close() })
	return &walk{way: way, uid: uint32(os.Geteuid())}
}

// Between looking at a name and opening it an agent may put anything in its place.
func TestWhatTakesAFilesPlaceIsNotOpened(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/secret", "secret")
	for name, replace := range map[string]func(path string) error{
		"a link to a file":   func(path string) error { return os.Symlink(outside+"/secret", path) },
		"a link to a folder": func(path string) error { return os.Symlink(outside, path) },
		"a FIFO":             func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"a folder":           func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			w := walkOver(t, root)
			write(t, root+"/name", "x")
			st, err := statAt(w.way.here().fd, "name")
			must(t, err, os.Remove(root+"/name"), replace(root+"/name"))
			fd, _, err := w.open(w.way.here().fd, "name", &st, 0o400)
			if !isStale(err) {
				closeFD(fd)
				t.Fatal(fd, err)
			}
		})
	}
}

func TestWhatTakesAFoldersPlaceIsNotEntered(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	w := walkOver(t, root)
	must(t, os.Mkdir(root+"/name", 0o755))
	st, err := statAt(w.way.here().fd, "name")
	must(t, err, os.Remove(root+"/name"), os.Symlink(outside, root+"/name"))
	if fd, _, err := w.open(w.way.here().fd, "name", &st, 0o500); !isStale(err) {
		t.Fatal(fd, err)
	}
}

func TestOnlyNamesAreOpened(t *testing.T) {
	root, err := openRoot(t.TempDir())
	must(t, err)
	defer closeFD(root)
	for _, name := range []string{"", ".", "..", "a/b", "/etc", "a\x00", strings.Repeat("x", 256)} {
		if fd, err := openFolderAt(root, name); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %d, %v", name, fd, err)
		}
		if fd, err := createAt(root, name); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %d, %v", name, fd, err)
		}
	}
}

// A folder that an agent moves while we are deep below it must not lead us anywhere else.
func TestAFolderThatWasMovedIsNotTakenForTheOneWeCameFrom(t *testing.T) {
	root := t.TempDir()
	deep := root + strings.Repeat("/d", openFolders+5)
	must(t, os.MkdirAll(deep, 0o755), os.Mkdir(root+"/elsewhere", 0o755))
	way, err := newWay(root)
	must(t, err)
	defer way.close()
	for range openFolders + 5 {
		fd, err := openFolderAt(way.here().fd, "d")
		must(t, err)
		_, err = way.enter("d", fd)
		must(t, err)
	}
	must(t, os.Rename(root+"/d/d/d", root+"/elsewhere/d"))
	for err == nil && !way.isAtRoot() {
		err = way.leave()
	}
	if !errors.Is(err, errChanged) {
		t.Fatal(err)
	}
}

func TestAFileThatShrinksIsFilledUpAndOneThatGrowsIsCut(t *testing.T) {
	for name, now := range map[string]string{"shrinks": "12345", "grows": strings.Repeat("1234567890", 100)} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root+"/file", "1234567890")
			fd, err := syscall.Open(root+"/file", readFlags, 0)
			must(t, err)
			defer closeFD(fd)
			var st syscall.Stat_t
			must(t, syscall.Fstat(fd, &st), os.WriteFile(root+"/file", []byte(now), 0o644))
			var layer bytes.Buffer
			w := newWalk(nil, &layer, nil, func(Totals) {})
			w.records, err = NewSpool()
			must(t, err)
			record, err := w.store(fd, recordOf("file", TypeFile, &st), &st)
			must(t, err, w.tar.finish(), w.records.Seal())
			if record.Size != 10 {
				t.Fatalf("%+v", record)
			}
			to := t.TempDir()
			_, err = Unpack(to, w.records, &layer, func(Totals) {})
			must(t, err)
			want := (now + "\x00\x00\x00\x00\x00")[:10]
			if content, err := os.ReadFile(to + "/file"); err != nil || string(content) != want {
				t.Fatalf("%q, %v", content, err)
			}
		})
	}
}

func TestHolesAreBounded(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		must(t, os.WriteFile(root+"/"+name, nil, 0o644), os.Truncate(root+"/"+name, maxHoles/2-1))
	}
	records, err := NewSpool()
	must(t, err)
	var large *TooLargeError
	started := time.Now()
	must(t, os.Truncate(root+"/a", 1<<43))
	if _, err := Archive(root, Scope{}, io.Discard, records, func(Totals) {}); !errors.As(err, &large) {
		t.Fatal(err)
	}
	if took := time.Since(started); took > time.Second {
		t.Fatalf("it took %s to say so", took)
	}
}

func TestEmptyRemovesEverythingAndFollowsNothing(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, outside+"/precious", "x")
	write(t, root+"/a/b/c", "x")
	must(t, os.MkdirAll(root+strings.Repeat("/deep", 500), 0o755), os.Symlink(outside, root+"/link"),
		os.Symlink(outside, root+"/a/link"), syscall.Mkfifo(root+"/fifo", 0o644), os.Mkdir(root+"/closed", 0o000))
	must(t, Empty(root))
	if isEmpty, err := IsEmpty(root); err != nil || !isEmpty {
		t.Fatal(isEmpty, err)
	}
	if _, err := os.Stat(outside + "/precious"); err != nil {
		t.Fatal(err)
	}
}
