package tree

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"unicode/utf8"
)

const tarBlock = 512

// Type flags of the members that a workspace can have.
const (
	tarFile    = '0'
	tarLink    = '1'
	tarSymlink = '2'
	tarFolder  = '5'
	tarPax     = 'x'
)

// Keys of extended headers.
const (
	paxPath      = "path"
	paxLinkpath  = "linkpath"
	paxSize      = "size"
	paxMtime     = "mtime"
	paxMajor     = "GNU.sparse.major"
	paxMinor     = "GNU.sparse.minor"
	paxName      = "GNU.sparse.name"
	paxRealsize  = "GNU.sparse.realsize"
	sparsePrefix = "GNUSparseFile.0/"
)

var zeros [64 << 10]byte

// member is one entry of a tar.
type member struct {
	record Record
	flag   byte
	target string // of a symlink, or the first path of a group of hard links
	stored int64  // bytes that follow in the tar
	sparse bool
	uid    uint32
	gid    uint32
}

// tarWriter writes the POSIX form by hand: Go's archive/tar can write neither sparse files nor names in any bytes.
type tarWriter struct {
	out     io.Writer
	written int64
}

func (w *tarWriter) Write(data []byte) (int, error) {
	n, err := w.out.Write(data)
	w.written += int64(n)
	return n, err
}

// add writes the headers of a member. What is stored of it must follow, then pad.
func (w *tarWriter) add(m member) error {
	name := m.record.Path
	pax := paxRecords{}
	if m.sparse {
		pax.set(paxMajor, "1")
		pax.set(paxMinor, "0")
		pax.set(paxName, name)
		pax.set(paxRealsize, strconv.FormatInt(m.record.Size, 10))
		name = sparsePrefix + name
	}
	if m.flag == tarFolder {
		name += "/"
	}
	if !fits(name, 100) {
		if !m.sparse {
			pax.set(paxPath, name)
		}
		name = plain(name)
	}
	target := m.target
	if !fits(target, 100) {
		pax.set(paxLinkpath, target)
		target = plain(target)
	}
	if m.stored > 0o77777777777 {
		pax.set(paxSize, strconv.FormatInt(m.stored, 10))
	}
	if t := m.record.Mtime; t.Nsec != 0 || t.Sec < 0 || t.Sec > 0o77777777777 {
		pax.set(paxMtime, t.decimal())
	}
	if len(pax) > 0 {
		if err := w.extended(pax); err != nil {
			return err
		}
	}
	_, err := w.Write(header(m, name, target))
	return err
}

func (w *tarWriter) extended(pax paxRecords) error {
	content := strings.Join(pax, "")
	m := member{flag: tarPax, stored: int64(len(content)), record: Record{Mode: 0o644}}
	if _, err := w.Write(header(m, "PaxHeaders/x", "")); err != nil {
		return err
	}
	if _, err := io.WriteString(w, content); err != nil {
		return err
	}
	return w.pad(m.stored)
}

// pad fills the last block of a member.
func (w *tarWriter) pad(stored int64) error {
	if rest := stored % tarBlock; rest != 0 {
		_, err := w.Write(zeros[:tarBlock-rest])
		return err
	}
	return nil
}

// finish writes the end of the tar.
func (w *tarWriter) finish() error {
	_, err := w.Write(zeros[:2*tarBlock])
	return err
}

func header(m member, name, target string) []byte {
	block := make([]byte, tarBlock)
	copy(block[0:100], name)
	octal(block[100:108], int64(m.record.Mode))
	octal(block[108:116], bounded(int64(m.uid), 0o7777777))
	octal(block[116:124], bounded(int64(m.gid), 0o7777777))
	octal(block[124:136], bounded(m.stored, 0o77777777777))
	octal(block[136:148], bounded(m.record.Mtime.Sec, 0o77777777777))
	copy(block[148:156], "        ")
	block[156] = m.flag
	copy(block[157:257], target)
	copy(block[257:265], "ustar\x0000")
	sum := 0
	for _, one := range block {
		sum += int(one)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return block
}

// bounded returns 0 for what a field cannot hold; the extended header says it then, or nothing does (owners).
func bounded(value, limit int64) int64 {
	if value < 0 || value > limit {
		return 0
	}
	return value
}

func octal(field []byte, value int64) {
	copy(field, fmt.Sprintf("%0*o", len(field)-1, value))
}

// fits tells whether a name can stand in a plain header.
func fits(name string, room int) bool {
	if len(name) > room {
		return false
	}
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plain is what stands in a plain header in place of a name that does not fit, for readers that know no better.
func plain(name string) string {
	cut := []byte(name[:min(len(name), 100)])
	for i := range cut {
		if cut[i] >= utf8.RuneSelf {
			cut[i] = '_'
		}
	}
	return string(cut)
}

type paxRecords []string

func (p *paxRecords) set(key, value string) { *p = append(*p, paxRecord(key, value)) }

// paxRecord writes "length key=value\n", where the length counts its own digits.
func paxRecord(key, value string) string {
	rest := len(key) + len(value) + 3
	length := rest + len(strconv.Itoa(rest))
	if length = rest + len(strconv.Itoa(length)); len(strconv.Itoa(length)) != length-rest {
		length++
	}
	return strconv.Itoa(length) + " " + key + "=" + value + "\n"
}

// decimal writes a time as seconds with a fraction.
func (t Time) decimal() string {
	sec, nsec, sign := t.Sec, t.Nsec, ""
	if sec < 0 {
		sign = "-"
		if sec = -sec; nsec > 0 {
			sec, nsec = sec-1, 1e9-nsec
		}
	}
	if nsec == 0 {
		return fmt.Sprintf("%s%d", sign, sec)
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, sec, nsec), "0")
}
