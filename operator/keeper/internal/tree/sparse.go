package tree

import (
	"fmt"
	"hash"
	"io"
	"strconv"
	"syscall"
)

const (
	maxSegments = 64 << 10
	// maxHoles bounds what holes add up to in one archive: they cost nothing to make and time to hash.
	maxHoles = 16 << 30
)

// segment is a run of data in a sparse file.
type segment struct{ offset, length int64 }

// segmentsOf maps the data of a file that has holes, or returns false where storing the map would not save half.
func segmentsOf(fd int, st *syscall.Stat_t) ([]segment, bool) {
	if st.Size == 0 || st.Blocks*512 > st.Size/2 {
		return nil, false
	}
	var segments []segment
	var data int64
	for at := int64(0); at < st.Size; {
		start, err := syscall.Seek(fd, at, seekData)
		if err == syscall.ENXIO || (err == nil && start >= st.Size) {
			break
		}
		if err != nil {
			return nil, false // a file system that cannot tell: stored as it reads
		}
		end, err := syscall.Seek(fd, start, seekHole)
		if err != nil || end <= start || len(segments) == maxSegments {
			return nil, false
		}
		end = min(end, st.Size)
		segments = append(segments, segment{start, end - start})
		data += end - start
		at = end
	}
	if data > st.Size/2 {
		return nil, false
	}
	return segments, true
}

// sparseMap is the head of a sparse member's data: the map as decimal lines, padded to whole blocks.
func sparseMap(segments []segment, size int64) []byte {
	// The last entry marks the end of the file, as GNU tar writes it.
	text := fmt.Appendf(nil, "%d\n", len(segments)+1)
	for _, one := range segments {
		text = fmt.Appendf(text, "%d\n%d\n", one.offset, one.length)
	}
	text = fmt.Appendf(text, "%d\n0\n", size)
	return append(text, zeros[:(tarBlock-len(text)%tarBlock)%tarBlock]...)
}

// readSparseMap reads the head of a sparse member's data and returns how many bytes it took.
func readSparseMap(from io.Reader, size int64) ([]segment, int64, error) {
	numbers := &numberReader{from: from}
	count, err := numbers.next()
	if err != nil {
		return nil, 0, err
	}
	if count > maxSegments+1 {
		return nil, 0, Invalidf("a sparse map of %d parts", count)
	}
	segments := make([]segment, 0, min(count, 1024))
	for end := int64(0); count > 0; count-- {
		var one segment
		if one.offset, err = numbers.next(); err != nil {
			return nil, 0, err
		}
		if one.length, err = numbers.next(); err != nil {
			return nil, 0, err
		}
		if one.offset < end || one.length > size-one.offset {
			return nil, 0, Invalidf("a sparse map that leaves its file")
		}
		end = one.offset + one.length
		segments = append(segments, one)
	}
	return segments, numbers.taken, nil
}

// numberReader reads decimal lines out of blocks.
type numberReader struct {
	from  io.Reader
	block [tarBlock]byte
	left  []byte
	taken int64
}

func (r *numberReader) next() (int64, error) {
	var digits [20]byte
	n := 0
	for {
		if len(r.left) == 0 {
			if _, err := io.ReadFull(r.from, r.block[:]); err != nil {
				return 0, err
			}
			r.left = r.block[:]
			r.taken += tarBlock
		}
		digit := r.left[0]
		r.left = r.left[1:]
		if digit == '\n' {
			break
		}
		if n == len(digits)-1 || digit < '0' || digit > '9' {
			return 0, Invalidf("a sparse map that is none")
		}
		digits[n] = digit
		n++
	}
	number, err := strconv.ParseInt(string(digits[:n]), 10, 64)
	if err != nil {
		return 0, Invalidf("a sparse map that is none")
	}
	return number, nil
}

// hashZeros adds a hole to a digest.
func hashZeros(digest hash.Hash, length int64) {
	for length > 0 {
		n := min(length, int64(len(zeros)))
		digest.Write(zeros[:n])
		length -= n
	}
}
