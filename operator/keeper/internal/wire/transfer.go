package wire

import "fmt"

// Done closes an archive: what the keeper sent.
type Done struct {
	Type        string `json:"type"`
	LayerSHA256 string `json:"layerSha256"`
	LayerBytes  int64  `json:"layerBytes"`
	RawBytes    int64  `json:"rawBytes"`
	Files       int64  `json:"files"`
	Bytes       int64  `json:"bytes"`
	Skipped     int64  `json:"skipped"`
}

// Verdict waits for the mover's last word on an archive: the number that it has in the store (0 when the mover does not
// say), or why there is none. The caller bounds the wait by closing the connection.
func (c *Conn) Verdict() (int64, error) {
	for {
		var reply Reply
		if err := c.ReadJSON(&reply); err != nil {
			return 0, err
		}
		switch reply.Type {
		case "wait":
			c.holdOn()
		case "stored":
			return reply.Sequence, nil
		case "failed":
			return 0, reply.failure()
		default:
			return 0, fmt.Errorf("%w: %q where a verdict was due", ErrConnection, reply.Type)
		}
	}
}

// Header is what the keeper reads of a manifest's first line.
type Header struct {
	Version int     `json:"version"`
	Slot    string  `json:"slot"`
	Epoch   int64   `json:"epoch"`
	Layers  []Layer `json:"layers"`
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`

	Sequence int64 `json:"sequence"`
}

// Layer is one archive of a manifest.
type Layer struct {
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes"`
	RawBytes int64  `json:"rawBytes"`
}

type manifest struct {
	Reply
	Header Header `json:"header"`
}

// Manifest reads the first message of a restore.
func (c *Conn) Manifest() (Header, error) {
	var first manifest
	if err := c.ReadJSON(&first); err != nil {
		return Header{}, err
	}
	switch first.Type {
	case "manifest":
		return first.Header, nil
	case "failed":
		return Header{}, first.failure()
	}
	return Header{}, fmt.Errorf("%w: %q where a manifest was due", ErrConnection, first.Type)
}

// End reads the last message of a restore.
func (c *Conn) End() error {
	var last Reply
	if err := c.ReadJSON(&last); err != nil {
		return err
	}
	switch last.Type {
	case "end":
		return nil
	case "failed":
		return last.failure()
	}
	return fmt.Errorf("%w: %q where the end was due", ErrConnection, last.Type)
}
