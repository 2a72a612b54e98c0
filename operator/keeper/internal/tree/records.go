// Package tree is the workspace as data: walked into a tar and records, unpacked from them, filled with entries, and
// emptied. Everything in a tree is hostile: an agent may work in it while it is walked, and an archive may try anything.
package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"unicode/utf8"
)

// Types of records.
const (
	TypeFile    = "file"
	TypeFolder  = "dir"
	TypeSymlink = "symlink"
)

const (
	modeBits    = 0o7777
	recordLimit = 8 * maxPath // a line; escapes make a path up to six times as long
)

// Time is a file's time, of any year.
type Time struct {
	Sec, Nsec int64
}

// timeOf reads the kernel's time. gVisor has negative nanoseconds before 1970, in 32 bits without a sign.
func timeOf(stamp syscall.Timespec) Time {
	t := Time{int64(stamp.Sec), int64(int32(uint32(stamp.Nsec)))}
	if t.Nsec < 0 {
		t.Sec, t.Nsec = t.Sec-1, t.Nsec+1e9
	}
	return t
}

// Record is one line of a manifest (PROTOCOL.md section 6), its names as raw bytes.
type Record struct {
	Path   string
	Type   string
	Mode   uint32
	Size   int64 // files only
	Mtime  Time
	SHA256 string // files only, hexadecimal
	Target string // symlinks only
	Link   int64  // group of hard links, 0 for none
}

type recordLine struct {
	Path         string `json:"path,omitempty"`
	PathBase64   []byte `json:"pathBase64,omitempty"`
	Type         string `json:"type"`
	Mode         uint32 `json:"mode"`
	Size         *int64 `json:"size,omitempty"`
	MtimeNs      string `json:"mtimeNs"`
	SHA256       string `json:"sha256,omitempty"`
	Target       string `json:"target,omitempty"`
	TargetBase64 []byte `json:"targetBase64,omitempty"`
	Link         int64  `json:"link,omitempty"`
}

// MarshalJSON writes the line of a record.
func (r Record) MarshalJSON() ([]byte, error) {
	line := recordLine{Type: r.Type, Mode: r.Mode, MtimeNs: r.Mtime.nanoseconds(), SHA256: r.SHA256, Link: r.Link}
	if r.Type == TypeFile {
		line.Size = &r.Size
	}
	line.Path, line.PathBase64 = textOrBytes(r.Path)
	line.Target, line.TargetBase64 = textOrBytes(r.Target)
	return json.Marshal(line)
}

func textOrBytes(name string) (string, []byte) {
	if utf8.ValidString(name) {
		return name, nil
	}
	return "", []byte(name)
}

// parseRecord reads one line and refuses what no walk would have written.
func parseRecord(text []byte) (Record, error) {
	var line recordLine
	if err := json.Unmarshal(text, &line); err != nil {
		return Record{}, Invalidf("a record is not what it should be: %v", err)
	}
	r := Record{Path: line.Path, Type: line.Type, Mode: line.Mode, SHA256: line.SHA256, Target: line.Target, Link: line.Link}
	if line.PathBase64 != nil {
		r.Path = string(line.PathBase64)
	}
	if line.TargetBase64 != nil {
		r.Target = string(line.TargetBase64)
	}
	if !isPath(r.Path) {
		return Record{}, Invalidf("the record of %s: its path leaves the workspace or is not normalised", quoted(r.Path))
	}
	var err error
	if r.Mtime, err = parseNanoseconds(line.MtimeNs); err != nil {
		return Record{}, Invalidf("the record of %s: mtimeNs %q is no time", quoted(r.Path), line.MtimeNs)
	}
	if line.Size != nil {
		r.Size = *line.Size
	}
	if err := r.check(line.Size != nil); err != nil {
		return Record{}, err
	}
	return r, nil
}

func (r Record) check(hasSize bool) error {
	isFile := r.Type == TypeFile
	switch {
	case !isFile && r.Type != TypeFolder && r.Type != TypeSymlink:
		return Invalidf("the record of %s: type %q is none that a workspace holds", quoted(r.Path), r.Type)
	case r.Mode&^modeBits != 0:
		return Invalidf("the record of %s: mode %o has more than permission bits", quoted(r.Path), r.Mode)
	case isFile != hasSize || r.Size < 0:
		return Invalidf("the record of %s: a size belongs to files, and only to them", quoted(r.Path))
	case isFile != (len(r.SHA256) == 64):
		return Invalidf("the record of %s: a SHA-256 belongs to files, and only to them", quoted(r.Path))
	case (r.Type == TypeSymlink) != (r.Target != "") || bytes.IndexByte([]byte(r.Target), 0) >= 0:
		return Invalidf("the record of %s: a target belongs to links, and only to them", quoted(r.Path))
	case r.Link < 0 || (r.Link > 0 && !isFile):
		return Invalidf("the record of %s: only files can be hard links", quoted(r.Path))
	}
	return nil
}

// nanoseconds writes a time as decimal nanoseconds; years after 2262 do not fit into 64 bits.
func (t Time) nanoseconds() string {
	sec, nsec, sign := t.Sec, t.Nsec, ""
	if sec < 0 {
		sign = "-"
		if sec = -sec; nsec > 0 {
			sec, nsec = sec-1, 1e9-nsec
		}
	}
	if sec == 0 {
		if nsec == 0 {
			return "0"
		}
		return sign + strconv.FormatInt(nsec, 10)
	}
	return fmt.Sprintf("%s%d%09d", sign, sec, nsec)
}

func parseNanoseconds(text string) (Time, error) {
	digits, negative := text, false
	if len(text) > 0 && text[0] == '-' {
		digits, negative = text[1:], true
	}
	var t Time
	var err error
	if cut := len(digits) - 9; cut > 0 {
		if t.Sec, err = strconv.ParseInt(digits[:cut], 10, 64); err != nil {
			return Time{}, err
		}
		digits = digits[cut:]
	}
	nsec, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || t.Sec < 0 {
		return Time{}, fmt.Errorf("not a number of nanoseconds: %q", text)
	}
	t.Nsec = int64(nsec)
	if negative {
		if t.Sec = -t.Sec; t.Nsec > 0 {
			t.Sec, t.Nsec = t.Sec-1, 1e9-t.Nsec
		}
	}
	return t, nil
}

// recordReader reads the lines of a manifest one by one.
type recordReader struct {
	lines *lineReader
}

func newRecordReader(from io.Reader) *recordReader {
	return &recordReader{lines: newLineReader(from, recordLimit)}
}

// next returns io.EOF after the last record.
func (r *recordReader) next() (Record, error) {
	line, err := r.lines.next()
	if err != nil {
		return Record{}, err
	}
	return parseRecord(line)
}
