package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func pair(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return NewConn(ours, 5*time.Second), theirs
}

func frame(kind byte, payload string) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), kind), payload...)
}

func say(t *testing.T, to net.Conn, frames ...[]byte) {
	t.Helper()
	go func() {
		to.Write(bytes.Join(frames, nil)) // a peer that hangs up early is part of some tests
		to.Close()
	}()
}

func TestAPartIsReadAsItWasSent(t *testing.T) {
	ours, theirs := pair(t)
	peer := NewConn(theirs, 5*time.Second)
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		part := peer.NewPart()
		part.Write(content)
		part.Close()
		peer.WriteJSON(Reply{Type: "end"})
	}()
	got, err := io.ReadAll(ours.Part())
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := ours.End(); err != nil {
		t.Fatal(err)
	}
}

func TestNoFrameIsLongerThanItsLimit(t *testing.T) {
	for name, head := range map[string][]byte{
		"json":    append(binary.BigEndian.AppendUint32(nil, JSONLimit+1), KindJSON),
		"data":    append(binary.BigEndian.AppendUint32(nil, DataLimit+1), KindData),
		"end":     append(binary.BigEndian.AppendUint32(nil, 1), KindEnd),
		"endless": append(binary.BigEndian.AppendUint32(nil, 1<<32-1), KindData),
		"unknown": append(binary.BigEndian.AppendUint32(nil, 0), 'X'),
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			say(t, theirs, head)
			if _, err := ours.Part().Read(make([]byte, 10)); !errors.Is(err, ErrConnection) || !strings.Contains(err.Error(), "not allowed") {
				t.Fatal(err)
			}
		})
	}
}

func TestTheEndOfTheConnectionIsNoEndOfAPart(t *testing.T) {
	for name, sent := range map[string][]byte{
		"between frames": frame(KindData, "abc"),
		"in a head":      append(frame(KindData, "abc"), 0, 0),
		"in a payload":   frame(KindData, "abcdef")[:8],
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			say(t, theirs, sent)
			_, err := io.ReadAll(ours.Part())
			if !errors.Is(err, ErrConnection) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
		})
	}
}

func TestTheSenderMayGiveUpInTheMiddleOfAPart(t *testing.T) {
	ours, theirs := pair(t)
	say(t, theirs, frame(KindData, "abc"), frame(KindJSON, `{"type":"failed","code":"invalid_snapshot","message":"gone"}`))
	_, err := io.ReadAll(ours.Part())
	var failed *FailedError
	if !errors.As(err, &failed) || failed.Code != "invalid_snapshot" || failed.Message != "gone" {
		t.Fatal(err)
	}
}

func TestAnythingElseInAPartIsABreach(t *testing.T) {
	for _, text := range []string{`{"type":"ping"}`, `nonsense`, `[]`} {
		ours, theirs := pair(t)
		say(t, theirs, frame(KindJSON, text))
		if _, err := io.ReadAll(ours.Part()); !errors.Is(err, ErrConnection) {
			t.Fatal(err)
		}
	}
}

func TestAMessageThatIsTooLongIsNotSent(t *testing.T) {
	ours, _ := pair(t)
	if err := ours.WriteJSON(Reply{Message: strings.Repeat("x", JSONLimit)}); err == nil || errors.Is(err, ErrConnection) {
		t.Fatal(err)
	}
}

func TestPatienceEndsAReadThatWaits(t *testing.T) {
	ours, _ := pair(t)
	if err := ours.Patience(0); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := ours.Verdict(); ended <- err }()
	if err := ours.Patience(20 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrConnection) {
		t.Fatal(err)
	}
}

func TestAVerdictMayBeWaitedFor(t *testing.T) {
	ours, theirs := pair(t)
	wait := frame(KindJSON, `{"type":"wait"}`)
	// Not closed afterwards: a pipe in memory, unlike TCP, refuses every deadline as soon as its other end is closed.
	go theirs.Write(bytes.Join([][]byte{wait, wait, frame(KindJSON, `{"type":"stored","key":"the key","sequence":7}`)}, nil))
	if sequence, err := ours.Verdict(); err != nil || sequence != 7 {
		t.Fatal(sequence, err)
	}
}

func TestAWriteThatWaitsHoldsOnWhileThePeerSaysSo(t *testing.T) {
	ours, theirs := pair(t)
	ours.timeout = time.Second
	go func() { ours.Verdict() }()
	ours.written.Store(time.Now().UnixNano())
	written := make(chan error, 1)
	go func() { written <- ours.WriteJSON(Reply{Type: "x"}) }()
	for range 5 { // two seconds, twice as long as a write may take otherwise
		if _, err := theirs.Write(frame(KindJSON, `{"type":"wait"}`)); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-written:
			t.Fatalf("it gave up: %v", err)
		case <-time.After(400 * time.Millisecond):
		}
	}
	if _, err := io.ReadFull(theirs, make([]byte, headerSize)); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, theirs)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}

// A verdict may close the connection at any moment: whoever changes the patience then has met a broken connection too.
func TestPatienceWithAClosedConnectionIsAFailureOfTheConnection(t *testing.T) {
	ours, _ := pair(t)
	ours.Close()
	if err := ours.Patience(time.Second); !errors.Is(err, ErrConnection) {
		t.Fatalf("%v is no failure of the connection", err)
	}
}
