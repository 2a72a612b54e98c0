package tree

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	spoolChunk = 64 << 10
	spoolLimit = 64 << 20
)

// Spool keeps a manifest's records compressed in memory: they are needed after the layer they describe (when walking)
// or before and after it (when unpacking), and a pod may have no disk to spare when it has to be archived.
type Spool struct {
	chunks  [][]byte
	size    int
	encoder *zstd.Encoder
}

// NewSpool returns an empty spool. Seal it before reading.
func NewSpool() (*Spool, error) {
	s := &Spool{}
	encoder, err := zstd.NewWriter(chunkWriter{s}, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(128<<10),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	s.encoder = encoder
	return s, nil
}

// Write adds raw lines.
func (s *Spool) Write(lines []byte) (int, error) { return s.encoder.Write(lines) }

// Add adds one record.
func (s *Spool) Add(record Record) error {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	_, err = s.Write(append(line, '\n'))
	return err
}

// Seal ends the writing.
func (s *Spool) Seal() error {
	err := s.encoder.Close()
	s.encoder = nil
	return err
}

// Open reads everything from the beginning. The caller closes it.
func (s *Spool) Open() (io.ReadCloser, error) {
	return openZstd(&chunkReader{chunks: s.chunks})
}

func openZstd(from io.Reader) (io.ReadCloser, error) {
	decoder, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(16<<20))
	if err != nil {
		return nil, err
	}
	return decoder.IOReadCloser(), nil
}

type chunkWriter struct{ *Spool }

func (w chunkWriter) Write(data []byte) (int, error) {
	if w.size += len(data); w.size > spoolLimit {
		return 0, &TooLargeError{fmt.Sprintf("the list of its files exceeds %d MiB, compressed", spoolLimit>>20)}
	}
	for rest := data; len(rest) > 0; {
		last := len(w.chunks) - 1
		if last < 0 || len(w.chunks[last]) == cap(w.chunks[last]) {
			w.chunks = append(w.chunks, make([]byte, 0, spoolChunk))
			last++
		}
		n := min(cap(w.chunks[last])-len(w.chunks[last]), len(rest))
		w.chunks[last] = append(w.chunks[last], rest[:n]...)
		rest = rest[n:]
	}
	return len(data), nil
}

type chunkReader struct {
	chunks [][]byte
	offset int
}

func (r *chunkReader) Read(buffer []byte) (int, error) {
	for len(r.chunks) > 0 && r.offset == len(r.chunks[0]) {
		r.chunks, r.offset = r.chunks[1:], 0
	}
	if len(r.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(buffer, r.chunks[0][r.offset:])
	r.offset += n
	return n, nil
}

// lineReader reads lines of a bounded length.
type lineReader struct {
	reader *bufio.Reader
	long   []byte
	limit  int
}

func newLineReader(from io.Reader, limit int) *lineReader {
	return &lineReader{reader: bufio.NewReaderSize(from, 16<<10), limit: limit}
}

// next returns a line that is valid until the next call, and io.EOF after the last one.
func (r *lineReader) next() ([]byte, error) {
	line, err := r.reader.ReadSlice('\n')
	if err == nil {
		return line[:len(line)-1], nil
	}
	r.long = r.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if r.long = append(r.long, line...); len(r.long) > r.limit {
			return nil, Invalidf("a record of more than %d bytes", r.limit)
		}
		line, err = r.reader.ReadSlice('\n')
	}
	r.long = append(r.long, line...)
	switch {
	case len(r.long) > r.limit:
		return nil, Invalidf("a record of more than %d bytes", r.limit)
	case err == nil:
		return r.long[:len(r.long)-1], nil
	case errors.Is(err, io.EOF) && len(r.long) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, Invalidf("the last record is cut off")
	}
	return nil, err
}
