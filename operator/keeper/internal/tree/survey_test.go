package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func look(t *testing.T, root string, leftOut ...string) Survey {
	t.Helper()
	survey, err := Look(root, leftOut, true)
	must(t, err)
	return survey
}

// aTree is a folder with something of everything in it.
func aTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	must(t, os.MkdirAll(root+"/a/b/c", 0o755))
	for number := range 20 {
		must(t, os.WriteFile(fmt.Sprintf("%s/a/b/file-%d", root, number), []byte("content"), 0o644))
	}
	must(t, os.Symlink("b", root+"/a/link"))
	must(t, os.Link(root+"/a/b/file-1", root+"/a/hard"))
	return root
}

func TestTheFingerprintIsTheSameWhileNothingChanges(t *testing.T) {
	root := aTree(t)
	before := look(t, root)
	if _, err := os.ReadFile(root + "/a/b/file-1"); err != nil {
		t.Fatal(err)
	}
	must(t, os.Chtimes(root, time.Now(), time.Now())) // the root itself is in no archive
	if after := look(t, root); after.Fingerprint != before.Fingerprint {
		t.Fatal("reading changed it")
	}
}

func TestEveryChangeGivesAnotherFingerprint(t *testing.T) {
	longAgo := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	for name, change := range map[string]func(file string) error{
		"content of the same size and time": func(file string) error {
			info, err := os.Stat(file)
			must(t, err)
			must(t, os.WriteFile(file, []byte("CONTENT"), 0o644))
			return os.Chtimes(file, info.ModTime(), info.ModTime())
		},
		"mode":     func(file string) error { return os.Chmod(file, 0o600) },
		"time":     func(file string) error { return os.Chtimes(file, longAgo, longAgo) },
		"removed":  os.Remove,
		"renamed":  func(file string) error { return os.Rename(file, file+"-elsewhere") },
		"replaced": func(file string) error { return os.Rename(filepath.Dir(file)+"/file-2", file) },
		"new file": func(file string) error { return os.WriteFile(file+"-new", nil, 0o644) },
		"new link": func(file string) error { return os.Symlink("x", file+"-new") },
	} {
		root := aTree(t)
		before := look(t, root)
		must(t, change(root+"/a/b/file-1"))
		if after := look(t, root); after.Fingerprint == before.Fingerprint {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestWhatIsLeftOutIsWeighedAndNotMarked(t *testing.T) {
	root := aTree(t)
	must(t, os.Mkdir(root+"/out", 0o755))
	before := look(t, root, "out", "a/secret")
	must(t, os.Mkdir(root+"/out/below", 0o755))
	must(t, os.WriteFile(root+"/out/below/file", make([]byte, 1<<20), 0o644))
	after := look(t, root, "out", "a/secret")
	if after.Fingerprint != before.Fingerprint {
		t.Error("what is left out was marked")
	}
	if grown := after.Allocated - before.Allocated; grown < 1<<20 {
		t.Errorf("it weighs %d", grown)
	}
	must(t, os.WriteFile(root+"/a/secret", nil, 0o600))
	must(t, os.WriteFile(root+"/outside", nil, 0o600))
	if look(t, root, "out", "a/secret", "outside").Fingerprint == before.Fingerprint {
		t.Error("the folder around what is left out did change")
	}
}

func TestOnlyWhatIsOldIsSettled(t *testing.T) {
	root := aTree(t)
	survey := look(t, root)
	if survey.IsSettled {
		t.Fatal("it was made a moment ago")
	}
	youngest := survey.Youngest
	limit := time.Unix(youngest.Sec, youngest.Nsec).Add(settleTime)
	for !time.Now().After(limit) {
		time.Sleep(time.Until(limit) + time.Millisecond)
	}
	if survey = look(t, root); !survey.IsSettled || survey.Youngest != youngest {
		t.Fatal(survey)
	}
	if !look(t, t.TempDir()).IsSettled {
		t.Fatal("an empty tree has nothing that is young")
	}
}

func TestTheClockOfTheTreeIsPastWhatWasMadeBefore(t *testing.T) {
	root := aTree(t)
	youngest := look(t, root).Youngest
	for isPast := false; !isPast; {
		var err error
		isPast, err = ClockIsPast(root, youngest)
		must(t, err)
	}
	now := time.Now().Add(time.Hour)
	if isPast, err := ClockIsPast(root, Time{now.Unix(), 0}); err != nil || isPast {
		t.Fatal(isPast, err)
	}
}

func TestTheDiskIsMeasuredAsItIs(t *testing.T) {
	root := t.TempDir()
	empty := look(t, root).Allocated
	grown := func() int64 { return look(t, root).Allocated - empty }
	must(t, os.WriteFile(root+"/small", []byte("x"), 0o644))
	if got := grown(); got != blockSize {
		t.Fatalf("a small file weighs %d", got)
	}
	must(t, os.WriteFile(root+"/large", make([]byte, 8<<20), 0o644))
	whole := grown()
	if whole < 8<<20 || whole > 9<<20 {
		t.Fatalf("8 MiB more weigh %d", whole)
	}
	for number := range 7 {
		must(t, os.Link(root+"/large", fmt.Sprintf("%s/link-%d", root, number)))
	}
	if got := grown(); got > whole || got < whole-8 {
		t.Fatalf("links weigh %d instead of %d", got, whole)
	}
	must(t, os.WriteFile(root+"/hole", nil, 0o644))
	must(t, os.Truncate(root+"/hole", 1<<40))
	if got := grown(); got > whole+2*blockSize {
		t.Fatalf("a hole weighs %d", got-whole)
	}
}

func TestAFolderThatIsRemovedOnceItIsOpenHasNoNames(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(root+"/gone/below", 0o755))
	way, err := newWay(root)
	must(t, err)
	fd, err := openFolderAt(way.here().fd, "gone")
	must(t, err)
	here, err := way.enter("gone", fd)
	must(t, err)
	must(t, os.RemoveAll(root+"/gone"))
	s := &survey{way: way, directory: make([]byte, 32<<10)}
	must(t, s.list())
	names, err := namesIn(here.fd)
	must(t, err)
	if len(here.pending)+len(names) > 0 {
		t.Fatal(here.pending, names)
	}
	must(t, way.close())
}

func TestATreeThatChangesUnderTheSurveyDoesNotEndIt(t *testing.T) {
	root := aTree(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for number := 0; ; number++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("%s/a/b/%d", root, number%50)
			// Whatever stands in the way of one of them is the point.
			_ = os.Mkdir(name, 0o755)
			_ = os.Rename(name, name+"-moved")
			_ = os.Symlink("/etc", name)
			_ = os.RemoveAll(name + "-moved")
			_ = os.Remove(name)
		}
	}()
	for range 200 {
		look(t, root)
	}
	close(stop)
	<-done
}

func BenchmarkLook(b *testing.B) {
	root := b.TempDir()
	for number := range 10_000 {
		folder := fmt.Sprintf("%s/%d", root, number/100)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("%s/%d", folder, number), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := Look(root, nil, false); err != nil {
			b.Fatal(err)
		}
	}
}
