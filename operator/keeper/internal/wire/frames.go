// Package wire speaks PROTOCOL.md sections 3 to 5: frames, the first exchange of a connection, and the parts of a
// transfer. It knows nothing of what the orders mean.
package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of frames and their limits.
const (
	KindJSON = 'J'
	KindData = 'D'
	KindEnd  = 'E'

	JSONLimit = 64 << 10
	DataLimit = 256 << 10

	headerSize = 5
	// dataChunk is what we put into one D frame: enough to be cheap, little enough to keep memory small.
	dataChunk = 128 << 10
	// flushEvery makes progress visible while data compresses to next to nothing.
	flushEvery = 5 * time.Second
	// longestHold bounds how long a peer may say that it is not ready to read.
	longestHold = 10 * time.Minute
)

// ErrConnection wraps every failure of the connection itself, so that it is never mistaken for a verdict on what was
// transferred.
var ErrConnection = errors.New("connection to the mover")

// Conn is one framed connection. One goroutine may read while others write.
type Conn struct {
	inner   net.Conn
	reader  *bufio.Reader
	timeout time.Duration // of a write

	waiting  sync.Mutex
	patience time.Duration // of a read; 0 waits for ever

	writing sync.Mutex
	header  [headerSize]byte
	written atomic.Int64 // when the last write was done, in nanoseconds since 1970
}

// NewConn frames a connection; every single read and write must finish within timeout.
func NewConn(inner net.Conn, timeout time.Duration) *Conn {
	return &Conn{inner: inner, reader: bufio.NewReaderSize(inner, 4<<10), timeout: timeout, patience: timeout}
}

// Patience changes how long a read may take, also for one that waits now. 0 lets it wait until the connection ends.
func (c *Conn) Patience(patience time.Duration) error {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	c.patience = patience
	return c.await()
}

func (c *Conn) await() error {
	deadline := time.Time{}
	if c.patience > 0 {
		deadline = time.Now().Add(c.patience)
	}
	if err := c.inner.SetReadDeadline(deadline); err != nil {
		return connectionError(err)
	}
	return nil
}

// Close ends the connection, and with it whatever waits for it.
func (c *Conn) Close() error { return c.inner.Close() }

// frame reads the header of the next frame: its kind and the length of its payload, within the limits.
func (c *Conn) frame() (byte, int, error) {
	c.waiting.Lock()
	err := c.await()
	c.waiting.Unlock()
	if err != nil {
		return 0, 0, err
	}
	var header [headerSize]byte
	if _, err := io.ReadFull(c.reader, header[:]); err != nil {
		return 0, 0, connectionError(err)
	}
	length := binary.BigEndian.Uint32(header[:4])
	if limit, known := limitOf(header[4]); !known || length > limit {
		return 0, 0, fmt.Errorf("%w: a frame of kind %q and %d bytes is not allowed", ErrConnection, header[4], length)
	}
	return header[4], int(length), nil
}

func limitOf(kind byte) (limit uint32, known bool) {
	switch kind {
	case KindJSON:
		return JSONLimit, true
	case KindData:
		return DataLimit, true
	case KindEnd:
		return 0, true
	}
	return 0, false
}

// ReadJSON reads the next frame, which must be a JSON object, into message.
func (c *Conn) ReadJSON(message any) error {
	kind, length, err := c.frame()
	if err != nil {
		return err
	}
	if kind != KindJSON {
		return fmt.Errorf("%w: a frame of kind %q where a message was due", ErrConnection, kind)
	}
	return c.readJSON(length, message)
}

func (c *Conn) readJSON(length int, message any) error {
	payload := make([]byte, length)
	if _, err := io.ReadFull(c.reader, payload); err != nil {
		return connectionError(err)
	}
	if err := json.Unmarshal(payload, message); err != nil {
		return fmt.Errorf("%w: a message is not what it should be: %v", ErrConnection, err)
	}
	return nil
}

// WriteJSON sends one message.
func (c *Conn) WriteJSON(message any) error {
	payload, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(payload) > JSONLimit {
		return fmt.Errorf("a message of %d bytes is longer than a frame may be", len(payload))
	}
	return c.write(KindJSON, payload)
}

func (c *Conn) write(kind byte, payload []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	binary.BigEndian.PutUint32(c.header[:4], uint32(len(payload)))
	c.header[4] = kind
	if err := c.inner.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return connectionError(err)
	}
	if len(payload) <= 4<<10 { // one TLS record for a short message
		payload = append(c.header[:], payload...)
	} else if _, err := c.inner.Write(c.header[:]); err != nil {
		return connectionError(err)
	}
	if _, err := c.inner.Write(payload); err != nil {
		return connectionError(err)
	}
	c.written.Store(time.Now().UnixNano())
	return nil
}

// holdOn lets a write that waits go on waiting: the peer says that it is not ready yet, but there.
func (c *Conn) holdOn() {
	if time.Since(time.Unix(0, c.written.Load())) < longestHold {
		_ = c.inner.SetWriteDeadline(time.Now().Add(c.timeout)) // fails on a closed connection, as the write then does
	}
}

// connectionError keeps only the words of its cause: an end of the connection must never pass for the end of a part.
func connectionError(err error) error {
	return fmt.Errorf("%w: %v", ErrConnection, err)
}

// PartWriter sends one part of a transfer as D frames.
type PartWriter struct {
	conn    *Conn
	buffer  []byte
	flushed time.Time
}

// NewPart starts a part.
func (c *Conn) NewPart() *PartWriter {
	return &PartWriter{conn: c, buffer: make([]byte, 0, dataChunk), flushed: time.Now()}
}

func (w *PartWriter) Write(data []byte) (int, error) {
	written := 0
	for written < len(data) {
		room := min(cap(w.buffer)-len(w.buffer), len(data)-written)
		w.buffer = append(w.buffer, data[written:written+room]...)
		written += room
		if len(w.buffer) == cap(w.buffer) || time.Since(w.flushed) > flushEvery {
			if err := w.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (w *PartWriter) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	err := w.conn.write(KindData, w.buffer)
	w.buffer, w.flushed = w.buffer[:0], time.Now()
	return err
}

// Close sends what is left and the end of the part.
func (w *PartWriter) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.conn.write(KindEnd, nil)
}

// PartReader reads one part of a transfer: io.EOF at its end, a *FailedError when the sender gave up.
type PartReader struct {
	conn *Conn
	left int // of the current frame
	done bool
}

// Part reads the next part.
func (c *Conn) Part() *PartReader { return &PartReader{conn: c} }

func (r *PartReader) Read(buffer []byte) (int, error) {
	for r.left == 0 {
		if r.done {
			return 0, io.EOF
		}
		kind, length, err := r.conn.frame()
		if err != nil {
			return 0, err
		}
		switch kind {
		case KindData:
			r.left = length
		case KindEnd:
			r.done = true
		default:
			return 0, r.conn.interruption(length)
		}
	}
	n, err := r.conn.reader.Read(buffer[:min(len(buffer), r.left)])
	r.left -= n
	if err != nil {
		return n, connectionError(err)
	}
	return n, nil
}

// interruption reads the message that came instead of data; only a failure may.
func (c *Conn) interruption(length int) error {
	var reply Reply
	if err := c.readJSON(length, &reply); err != nil {
		return err
	}
	if reply.Type != "failed" {
		return fmt.Errorf("%w: a message %q in the middle of a part", ErrConnection, reply.Type)
	}
	return reply.failure()
}
