package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// layerWindow is small, as the memory of a keeper is: a larger one gains little on source trees.
const layerWindow = 1 << 20

// LayerWriter compresses a tar on its way out and digests what went out.
type LayerWriter struct {
	encoder *zstd.Encoder
	out     io.Writer
	digest  hash.Hash
	bytes   int64
}

// NewLayerWriter returns a writer to out. The caller closes it.
func NewLayerWriter(out io.Writer) (*LayerWriter, error) {
	w := &LayerWriter{out: out, digest: sha256.New()}
	encoder, err := zstd.NewWriter(layerSink{w}, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(layerWindow))
	if err != nil {
		return nil, err
	}
	w.encoder = encoder
	return w, nil
}

func (w *LayerWriter) Write(tar []byte) (int, error) { return w.encoder.Write(tar) }

// Close ends the compressed stream.
func (w *LayerWriter) Close() error { return w.encoder.Close() }

// Sum is the SHA-256 of what went out, in hexadecimal, and how much it was.
func (w *LayerWriter) Sum() (string, int64) {
	return hex.EncodeToString(w.digest.Sum(nil)), w.bytes
}

type layerSink struct{ *LayerWriter }

func (s layerSink) Write(data []byte) (int, error) {
	n, err := s.out.Write(data)
	s.digest.Write(data[:n])
	s.bytes += int64(n)
	return n, err
}

// LayerReader is the way back.
type LayerReader struct {
	decoder io.ReadCloser
	source  *layerSource
}

// NewLayerReader reads a compressed layer. The caller closes it.
func NewLayerReader(from io.Reader) (*LayerReader, error) {
	source := &layerSource{from: from, digest: sha256.New()}
	decoder, err := openZstd(source)
	if err != nil {
		return nil, err
	}
	return &LayerReader{decoder: decoder, source: source}, nil
}

// Read tells what is wrong with the layer from what is wrong with the way it came.
func (r *LayerReader) Read(buffer []byte) (int, error) {
	n, err := r.decoder.Read(buffer)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case r.source.failure != nil:
		return n, r.source.failure
	}
	return n, Invalidf("the layer cannot be decompressed: %v", err)
}

// Close lets the decompressor's memory go.
func (r *LayerReader) Close() error { return r.decoder.Close() }

// Sum reads what is left of the compressed layer and returns its SHA-256 and its length.
func (r *LayerReader) Sum() (string, int64, error) {
	if _, err := io.Copy(io.Discard, r.source); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(r.source.digest.Sum(nil)), r.source.bytes, nil
}

type layerSource struct {
	from    io.Reader
	digest  hash.Hash
	bytes   int64
	failure error
}

func (s *layerSource) Read(buffer []byte) (int, error) {
	n, err := s.from.Read(buffer)
	s.digest.Write(buffer[:n])
	s.bytes += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failure = err
	}
	return n, err
}
