package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"sandhold.dev/keeper/internal/gate"
)

// What a first frame may be for.
const (
	PurposeControl = "control"
	PurposeArchive = "archive"
	PurposeRestore = "restore"

	version    = 1
	serverName = "sandhold-mover"

	tokenLimit   = 6 << 10
	codeLimit    = 64
	podInfoLimit = 64 << 10
	dialTimeout  = 5 * time.Second
	helloTimeout = 10 * time.Second
	// Silence is how long a connection may make no progress.
	Silence = 60 * time.Second
)

type hello struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	Purpose string `json:"purpose"`
	Token   string `json:"token"`
	Grant   string `json:"grant,omitempty"`
}

// Reply is any message of the mover on a transfer, and its answer to a hello.
type Reply struct {
	Type      string `json:"type"`
	Version   int    `json:"version"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Sequence  int64  `json:"sequence"`
	Retryable bool   `json:"retryable"`
}

// FailedError is the mover's own word that something cannot be done.
type FailedError struct {
	Code      string
	Message   string
	Retryable bool
}

func (e *FailedError) Error() string { return fmt.Sprintf("the mover says %s: %s", e.Code, e.Message) }

func (r Reply) failure() error {
	return &FailedError{Code: r.Code[:min(len(r.Code), codeLimit)], Message: gate.Shorten(r.Message), Retryable: r.Retryable}
}

// ErrRefused says that the mover did not accept this keeper.
var ErrRefused = errors.New("refused by the mover")

// Dial calls home and proves itself. Address, authority and token are read anew each time: the kubelet renews them.
func Dial(ctx context.Context, paths gate.Paths, purpose, grant string) (*Conn, error) {
	address, config, err := whereHomeIs(paths)
	if err != nil {
		return nil, err
	}
	token, err := gate.ReadTrusted(paths.Token, tokenLimit)
	if err != nil {
		return nil, fmt.Errorf("service account token: %w", err)
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
	dialling, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	raw, err := dialer.DialContext(dialling, "tcp", address)
	if err != nil {
		return nil, connectionError(err)
	}
	conn := NewConn(raw, helloTimeout)
	if err := conn.introduce(hello{"hello", version, purpose, strings.TrimSpace(string(token)), grant}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	conn.timeout = Silence
	if err := conn.Patience(Silence); err != nil {
		return nil, errors.Join(connectionError(err), conn.Close())
	}
	return conn, nil
}

func (c *Conn) introduce(first hello) error {
	if err := c.WriteJSON(first); err != nil {
		return err
	}
	var reply Reply
	if err := c.ReadJSON(&reply); err != nil {
		return err
	}
	switch {
	case reply.Type == "welcome" && reply.Version == version:
		return nil
	case reply.Type == "refused":
		return fmt.Errorf("%w: %w", ErrRefused, reply.failure())
	}
	return fmt.Errorf("%w: %q (version %d) where a welcome was due", ErrConnection, gate.Shorten(reply.Type), reply.Version)
}

func whereHomeIs(paths gate.Paths) (string, *tls.Config, error) {
	text, err := gate.ReadTrusted(paths.MoverAddress(), podInfoLimit)
	if err != nil {
		return "", nil, fmt.Errorf("mover address: %w", err)
	}
	address, err := netip.ParseAddrPort(strings.TrimSpace(string(text)))
	if err != nil { // never a name: the sandbox may have no DNS, and nobody but us should answer for it
		return "", nil, fmt.Errorf("mover address %q: %w", gate.Shorten(string(text)), err)
	}
	authority, err := gate.ReadTrusted(paths.MoverCA(), podInfoLimit)
	if err != nil {
		return "", nil, fmt.Errorf("mover CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return "", nil, errors.New("mover CA: no certificate in PEM form")
	}
	return address.String(), &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ServerName:             serverName,
		RootCAs:                pool,
		SessionTicketsDisabled: true,
	}, nil
}
