package tree

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestTimesSurviveAsText(t *testing.T) {
	for text, want := range map[string]Time{
		"0":                    {0, 0},
		"1":                    {0, 1},
		"-1":                   {-1, 999999999},
		"1000000000":           {1, 0},
		"-1000000000":          {-1, 0},
		"-1500000000":          {-2, 500000000},
		"1700000000123456789":  {1700000000, 123456789},
		"99999999999000000001": {99999999999, 1}, // beyond 64 bits
		"9223372036854775807" + strings.Repeat("9", 9): {math.MaxInt64, 999999999},
	} {
		if got := want.nanoseconds(); got != text {
			t.Errorf("%v is written as %q, want %q", want, got, text)
		}
		if got, err := parseNanoseconds(text); err != nil || got != want {
			t.Errorf("%q is read as %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "1.5", "1e9", "+1", " 1", "--1", "x", "1000000000x", "-9223372036854775808000000000"} {
		if got, err := parseNanoseconds(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestRecordsSurviveAsLines(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for _, want := range []Record{
		{Path: "a/b", Type: TypeFile, Mode: 0o4755, Size: 12, Mtime: Time{1, 2}, SHA256: sum, Link: 3},
		{Path: "empty", Type: TypeFile, SHA256: sum},
		{Path: "not utf-8 \xff\n\"", Type: TypeFolder, Mode: 0o1777, Mtime: Time{-1, 5}},
		{Path: "link", Type: TypeSymlink, Mode: 0o777, Target: "\xfe/../.."},
		{Path: "größe", Type: TypeSymlink, Mode: 0o777, Target: "/etc/passwd"},
	} {
		line, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseRecord(line); err != nil || got != want {
			t.Errorf("%s is read as %+v (%v), want %+v", line, got, err, want)
		}
	}
}

func TestTheExampleOfTheProtocolIsWhatWeWrite(t *testing.T) {
	const example = `{"path":"a/b","type":"file","mode":420,"size":12,"mtimeNs":"1700000000123456789","sha256":"SUM","link":3}`
	sum := strings.Repeat("0a", 32)
	line, err := json.Marshal(Record{
		Path: "a/b", Type: TypeFile, Mode: 0o644, Size: 12, Mtime: Time{1700000000, 123456789}, SHA256: sum, Link: 3,
	})
	if want := strings.Replace(example, "SUM", sum, 1); err != nil || string(line) != want {
		t.Errorf("%s (%v), want %s", line, err, want)
	}
}

func TestRecordsThatNoWalkWritesAreRefused(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for name, line := range map[string]string{
		"nothing":         ``,
		"a list":          `[]`,
		"upwards":         `{"path":"../a","type":"dir","mtimeNs":"0"}`,
		"upwards inside":  `{"path":"a/../b","type":"dir","mtimeNs":"0"}`,
		"absolute":        `{"path":"/a","type":"dir","mtimeNs":"0"}`,
		"empty":           `{"path":"","type":"dir","mtimeNs":"0"}`,
		"here":            `{"path":".","type":"dir","mtimeNs":"0"}`,
		"twice":           `{"path":"a//b","type":"dir","mtimeNs":"0"}`,
		"at the end":      `{"path":"a/","type":"dir","mtimeNs":"0"}`,
		"zero byte":       `{"path":"a\u0000b","type":"dir","mtimeNs":"0"}`,
		"zero in base64":  `{"pathBase64":"YQBi","type":"dir","mtimeNs":"0"}`,
		"long name":       `{"path":"` + strings.Repeat("x", 256) + `","type":"dir","mtimeNs":"0"}`,
		"long path":       `{"path":"` + strings.Repeat("x/", maxPath/2) + `x","type":"dir","mtimeNs":"0"}`,
		"device":          `{"path":"a","type":"char","mtimeNs":"0"}`,
		"mode":            `{"path":"a","type":"dir","mode":65535,"mtimeNs":"0"}`,
		"no time":         `{"path":"a","type":"dir"}`,
		"no size":         `{"path":"a","type":"file","mtimeNs":"0","sha256":"` + sum + `"}`,
		"negative size":   `{"path":"a","type":"file","size":-1,"mtimeNs":"0","sha256":"` + sum + `"}`,
		"no digest":       `{"path":"a","type":"file","size":1,"mtimeNs":"0"}`,
		"folder's digest": `{"path":"a","type":"dir","mtimeNs":"0","sha256":"` + sum + `"}`,
		"no target":       `{"path":"a","type":"symlink","mtimeNs":"0"}`,
		"file's target":   `{"path":"a","type":"file","size":1,"mtimeNs":"0","target":"b","sha256":"` + sum + `"}`,
		"linked folder":   `{"path":"a","type":"dir","mtimeNs":"0","link":1}`,
	} {
		var invalid *InvalidError
		if record, err := parseRecord([]byte(line)); !errors.As(err, &invalid) {
			t.Errorf("%s: %+v, %v", name, record, err)
		}
	}
}

func TestASpoolGivesBackWhatItTook(t *testing.T) {
	spool, err := NewSpool()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 255) + "/"
	for i := range 5000 {
		if err := spool.Add(Record{Path: strings.Repeat(long, i%50) + "y", Type: TypeFolder, Mode: uint32(i) & modeBits}); err != nil {
			t.Fatal(err)
		}
	}
	if err := spool.Seal(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		i := 0
		err := eachRecord(spool, func(r Record) error {
			if r.Path != strings.Repeat(long, i%50)+"y" || r.Mode != uint32(i)&modeBits {
				t.Fatalf("record %d is %+v", i, r)
			}
			i++
			return nil
		})
		if err != nil || i != 5000 {
			t.Fatal(i, err)
		}
	}
}

func TestLinesThatAreTooLongOrCutOffAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"long":    strings.Repeat("x", 100_001) + "\n",
		"cut off": "whole\nhal",
	} {
		reader := newLineReader(strings.NewReader(text), 100_000)
		var err error
		for err == nil {
			_, err = reader.next()
		}
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
