package tree

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
)

// hostile is one member of a tar that tries something, and the record that vouches for it.
type hostile struct {
	member  tar.Header
	content string
	record  Record
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func aFile(path, content string) hostile {
	return hostile{
		tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(content)), Mode: 0o644}, content,
		Record{Path: path, Type: TypeFile, Mode: 0o644, Size: int64(len(content)), SHA256: sumOf(content)},
	}
}

func aFolder(path string) hostile {
	return hostile{
		tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755}, "",
		Record{Path: path, Type: TypeFolder, Mode: 0o755},
	}
}

func aLink(path, target string) hostile {
	return hostile{
		tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: 0o777}, "",
		Record{Path: path, Type: TypeSymlink, Mode: 0o777, Target: target},
	}
}

func with(h hostile, change func(*hostile)) hostile {
	change(&h)
	return h
}

func build(t *testing.T, members []hostile) (*bytes.Buffer, *Spool) {
	t.Helper()
	var layer bytes.Buffer
	writer := tar.NewWriter(&layer)
	records, err := NewSpool()
	must(t, err)
	for _, one := range members {
		one.member.Format = tar.FormatPAX
		must(t, writer.WriteHeader(&one.member))
		_, err := writer.Write([]byte(one.content))
		must(t, err, records.Add(one.record))
	}
	must(t, writer.Close(), records.Seal())
	return &layer, records
}

func TestHostileArchivesAreRefusedAndReachNothing(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/file", "precious")
	for name, members := range map[string][]hostile{
		"upwards":                   {aFile("../escaped", "x")},
		"upwards from inside":       {aFolder("a"), aFile("a/../../escaped", "x")},
		"absolute":                  {aFile(outside+"/escaped", "x")},
		"through a link":            {aLink("a", outside), aFile("a/escaped", "x")},
		"through a link upwards":    {aLink("a", ".."), aFile("a/escaped", "x")},
		"a folder through a link":   {aLink("a", outside), aFolder("a/escaped")},
		"over a link":               {aLink("a", outside+"/file"), aFile("a", "x")},
		"a folder over a link":      {aLink("a", outside), aFolder("a")},
		"through a file":            {aFile("a", "x"), aFile("a/b", "x")},
		"the same file twice":       {aFile("a", "x"), aFile("a", "x")},
		"the same folder twice":     {aFolder("a"), aFolder("a")},
		"without its folder":        {aFile("a/b", "x")},
		"upwards in the tar alone":  {with(aFile("a", "x"), func(h *hostile) { h.member.Name = "../escaped" })},
		"absolute in the tar alone": {with(aFile("a", "x"), func(h *hostile) { h.member.Name = outside + "/escaped" })},
		"a hard link to outside": {with(aFile("a", ""), func(h *hostile) {
			h.member.Typeflag, h.member.Linkname = tar.TypeLink, outside+"/file"
		})},
		"a hard link to outside in a group": {
			with(aFile("a", "x"), func(h *hostile) { h.record.Link = 1 }),
			with(aFile("b", "x"), func(h *hostile) {
				h.record.Link = 1
				h.member.Typeflag, h.member.Linkname, h.member.Size, h.content = tar.TypeLink, outside+"/file", 0, ""
			}),
		},
		"a device": {with(aFile("a", ""), func(h *hostile) { h.member.Typeflag = tar.TypeChar })},
		"a FIFO":   {with(aFile("a", ""), func(h *hostile) { h.member.Typeflag = tar.TypeFifo })},
		"a global head": {with(aFile("a", ""), func(h *hostile) {
			h.member = tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "x"}}
		})},
		"more than its record": {with(aFile("a", "x"), func(h *hostile) {
			h.content, h.member.Size = strings.Repeat("x", 100_000), 100_000
		})},
		"less than its record": {with(aFile("a", "xx"), func(h *hostile) { h.content, h.member.Size = "x", 1 })},
		"other content":        {with(aFile("a", "x"), func(h *hostile) { h.content = "y" })},
		"another target":       {with(aLink("a", "b"), func(h *hostile) { h.record.Target = "c" })},
		"a link for a file":    {with(aLink("a", "b"), func(h *hostile) { h.record = aFile("a", "").record })},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			layer, records := build(t, members)
			_, err := Unpack(root, records, layer, func(Totals) {})
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%T %v", err, err)
			}
			if content, err := os.ReadFile(outside + "/file"); err != nil || string(content) != "precious" {
				t.Fatal(string(content), err)
			}
			for _, place := range []string{outside + "/escaped", root + "/../escaped"} {
				if _, err := os.Lstat(place); err == nil {
					t.Fatal(place)
				}
			}
			must(t, Empty(root))
		})
	}
}

func TestTheSameMembersUnharmedAreTaken(t *testing.T) {
	layer, records := build(t, []hostile{
		aFolder("a"), aFile("a/b", "x"), aLink("a/c", "/etc"), with(aFile("d", "x"), func(h *hostile) { h.record.Link = 1 }),
		with(aFile("e", "x"), func(h *hostile) {
			h.record.Link = 1
			h.member.Typeflag, h.member.Linkname, h.member.Size, h.content = tar.TypeLink, "d", 0, ""
		}),
	})
	totals, err := Unpack(t.TempDir(), records, layer, func(Totals) {})
	if err != nil || totals.Files != 5 || totals.Bytes != 2 {
		t.Fatal(totals, err)
	}
}

func TestATarThatIsCutAnywhereIsRefused(t *testing.T) {
	from := t.TempDir()
	write(t, from+"/a/file", strings.Repeat("content", 300))
	write(t, from+"/"+strings.Repeat("n", 120), "x")
	archive := pack(t, from)
	for length := 0; length < len(archive.tar); length += 97 {
		root := t.TempDir()
		_, err := Unpack(root, archive.records, bytes.NewReader(archive.tar[:length]), func(Totals) {})
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Fatalf("cut at %d of %d: %v", length, len(archive.tar), err)
		}
	}
}

func TestSparseMapsThatLieAreRefused(t *testing.T) {
	pad := func(text string) string { return text + strings.Repeat("\x00", (512-len(text)%512)%512) }
	for name, text := range map[string]string{
		"beyond the end":    pad("1\n0\n101\n"),
		"overflow":          pad("1\n9223372036854775807\n9223372036854775807\n"),
		"overlap":           pad("2\n0\n50\n40\n10\n"),
		"backwards":         pad("2\n50\n10\n0\n10\n"),
		"negative":          pad("1\n-1\n10\n"),
		"too many":          pad("99999999\n0\n1\n"),
		"more than numbers": pad("1\n0x\n1\n"),
		"a long number":     pad("1\n" + strings.Repeat("1", 30) + "\n1\n"),
	} {
		var invalid *InvalidError
		if segments, _, err := readSparseMap(strings.NewReader(text), 100); !errors.As(err, &invalid) {
			t.Errorf("%s: %v, %v", name, segments, err)
		}
	}
	if _, _, err := readSparseMap(strings.NewReader("2\n0\n"), 100); err == nil {
		t.Error("cut off")
	}
}
