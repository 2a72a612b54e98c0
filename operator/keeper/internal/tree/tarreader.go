package tree

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

const maxExtended = 4 * maxPath

// tarReader reads the tars that tarWriter writes and nothing else: what a workspace cannot hold is refused here, before
// anybody acts on it.
type tarReader struct {
	from io.Reader
}

// readMember is a member as the tar tells it.
type readMember struct {
	path, target string
	flag         byte
	stored       int64
	sparse       bool
	size         int64 // of the file: more than is stored where it is sparse
}

// next returns io.EOF at the end of the tar.
func (r *tarReader) next() (readMember, error) {
	block, err := r.block()
	if err != nil {
		return readMember{}, err
	}
	if block == nil {
		return readMember{}, r.end()
	}
	pax := map[string]string{}
	m, err := parseHeader(block)
	if err == nil && m.flag == tarPax {
		if pax, err = r.extended(m.stored); err != nil {
			return readMember{}, err
		}
		if block, err = r.block(); err != nil {
			return readMember{}, err
		}
		m, err = parseHeader(block)
	}
	if err != nil {
		return readMember{}, err
	}
	return m, m.apply(pax)
}

// block returns nil for a block of zeros.
func (r *tarReader) block() ([]byte, error) {
	block := make([]byte, tarBlock)
	if _, err := io.ReadFull(r.from, block); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, Invalidf("the layer is cut off")
		}
		return nil, cutOff(err)
	}
	if bytes.Equal(block, zeros[:tarBlock]) {
		return nil, nil
	}
	return block, nil
}

// end reads what follows the first block of zeros: nothing but zeros, and not many.
func (r *tarReader) end() error {
	rest, err := io.ReadAll(io.LimitReader(r.from, int64(len(zeros))))
	switch {
	case err != nil:
		return cutOff(err)
	case len(rest) < tarBlock || !bytes.Equal(rest, zeros[:len(rest)]) || len(rest) == len(zeros):
		return Invalidf("the layer does not end as a tar ends")
	}
	return io.EOF
}

func (r *tarReader) extended(length int64) (map[string]string, error) {
	if length > maxExtended {
		return nil, Invalidf("an extended header of %d bytes", length)
	}
	content := make([]byte, length)
	if _, err := io.ReadFull(r.from, content); err != nil {
		return nil, cutOff(err)
	}
	if err := r.skipPadding(length); err != nil {
		return nil, err
	}
	pax := map[string]string{}
	for rest := string(content); rest != ""; {
		digits, _, found := strings.Cut(rest, " ")
		size, err := strconv.ParseUint(digits, 10, 31)
		start := len(digits) + 1
		if !found || err != nil || int(size) > len(rest) || int(size) <= start || rest[size-1] != '\n' {
			return nil, Invalidf("an extended header that is none")
		}
		key, value, found := strings.Cut(rest[start:size-1], "=")
		if !found {
			return nil, Invalidf("an extended header that is none")
		}
		pax[key] = value
		rest = rest[size:]
	}
	return pax, nil
}

func (r *tarReader) skipPadding(stored int64) error {
	var padding [tarBlock]byte
	if rest := stored % tarBlock; rest != 0 {
		if _, err := io.ReadFull(r.from, padding[:tarBlock-rest]); err != nil {
			return cutOff(err)
		}
	}
	return nil
}

func parseHeader(block []byte) (readMember, error) {
	if block == nil || string(block[257:263]) != "ustar\x00" {
		return readMember{}, Invalidf("a header that is none of a POSIX tar")
	}
	sum := int64(0)
	for i, one := range block {
		if i >= 148 && i < 156 {
			one = ' '
		}
		sum += int64(one)
	}
	if told, err := number(block[148:156]); err != nil || told != sum {
		return readMember{}, Invalidf("a header whose checksum is wrong")
	}
	stored, err := number(block[124:136])
	if err != nil {
		return readMember{}, Invalidf("a header whose size is no number")
	}
	m := readMember{path: text(block[0:100]), target: text(block[157:257]), flag: block[156], stored: stored, size: stored}
	if prefix := text(block[345:500]); prefix != "" {
		m.path = prefix + "/" + m.path
	}
	return m, nil
}

func (m *readMember) apply(pax map[string]string) error {
	if value, given := pax[paxPath]; given {
		m.path = value
	}
	if value, given := pax[paxLinkpath]; given {
		m.target = value
	}
	var err error
	if value, given := pax[paxSize]; given {
		if m.stored, err = strconv.ParseInt(value, 10, 64); err != nil || m.stored < 0 {
			return Invalidf("a member whose size is no number")
		}
		m.size = m.stored
	}
	if pax[paxMajor] == "1" {
		m.sparse = true
		m.path = pax[paxName]
		if m.size, err = strconv.ParseInt(pax[paxRealsize], 10, 64); err != nil || m.size < 0 {
			return Invalidf("a sparse member whose size is no number")
		}
	}
	switch m.flag {
	case tarFile:
	case tarFolder:
		m.path = strings.TrimSuffix(m.path, "/")
		fallthrough
	case tarLink, tarSymlink:
		if m.stored != 0 || m.sparse {
			return Invalidf("member %s: only files have content", quoted(m.path))
		}
	default:
		return Invalidf("member %s: type %q is none that a workspace holds", quoted(m.path), m.flag)
	}
	return nil
}

func text(field []byte) string {
	before, _, _ := bytes.Cut(field, []byte{0})
	return string(before)
}

func number(field []byte) (int64, error) {
	return strconv.ParseInt(strings.Trim(string(field), " \x00"), 8, 63)
}

// cutOff turns the end of the data in the middle of something into a verdict, and leaves other failures as they are.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Invalidf("the layer is cut off")
	}
	return err
}
