package keeper

import (
	"context"
	"encoding/json"
	"log"
	"math/rand/v2"
	"time"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/wire"
)

const (
	firstPause    = 100 * time.Millisecond
	longestPause  = 5 * time.Second
	lookForChange = 100 * time.Millisecond
	reportEvery   = 20 * time.Millisecond
	pingAfter     = 20 * time.Second
)

type message struct {
	Type   string          `json:"type"`
	Report *Report         `json:"report,omitempty"`
	Order  json.RawMessage `json:"order,omitempty"`
}

// callHome keeps a control connection to a mover, for ever. A mover that is away for an hour is a normal event.
func (k *keeper) callHome(ctx context.Context) {
	changes := k.watch()
	pause := firstPause
	lastFailure := ""
	for ctx.Err() == nil {
		conn, err := wire.Dial(ctx, k.paths, wire.PurposeControl, "")
		if err == nil {
			log.Print("at home")
			pause, lastFailure = firstPause, ""
			err = k.stayHome(ctx, conn, changes)
		}
		if text := err.Error(); text != lastFailure { // an hour of the same says it once
			log.Print(text)
			lastFailure = text
		}
		k.waitToCall(ctx, pause)
		pause = min(2*pause, longestPause)
	}
}

// waitToCall waits between two calls, but not when the way home has just changed.
func (k *keeper) waitToCall(ctx context.Context, pause time.Duration) {
	end := time.Now().Add(pause/2 + rand.N(pause/2))
	before := k.wayHome()
	for ctx.Err() == nil && time.Now().Before(end) && k.wayHome() == before {
		sleep(ctx, min(lookForChange, time.Until(end)))
	}
}

// wayHome is a fingerprint of the files that say where home is.
func (k *keeper) wayHome() [2]string {
	var way [2]string
	for i, path := range []string{k.paths.MoverAddress(), k.paths.MoverCA()} {
		// What cannot be read is an empty text: the next dial says why.
		content, _ := gate.ReadTrusted(path, 64<<10)
		way[i] = string(content)
	}
	return way
}

// stayHome reports every change and takes orders until the connection ends. It always returns why.
func (k *keeper) stayHome(ctx context.Context, conn *wire.Conn, changes <-chan struct{}) error {
	ending := make(chan error, 1)
	go func() { ending <- k.takeOrders(conn) }()
	err := k.reportChanges(ctx, conn, changes, ending)
	conn.Close() // it is broken or no longer wanted: nothing is lost with it
	return err
}

func (k *keeper) reportChanges(ctx context.Context, conn *wire.Conn, changes <-chan struct{}, ending <-chan error) error {
	if err := k.tellAll(conn); err != nil {
		return err
	}
	silence := time.NewTimer(pingAfter)
	defer silence.Stop()
	for {
		var err error
		select {
		case err = <-ending:
		case <-ctx.Done():
			err = ctx.Err()
		case <-silence.C:
			err = conn.WriteJSON(message{Type: "ping"})
		case <-changes:
			sleep(ctx, reportEvery) // what changes meanwhile goes with it
			err = k.tellAll(conn)
		}
		if err != nil {
			return err
		}
		silence.Reset(pingAfter)
	}
}

// tellAll reports the whole state.
func (k *keeper) tellAll(conn *wire.Conn) error {
	report, change := k.readChange()
	err := conn.WriteJSON(message{Type: "report", Report: &report})
	if err == nil {
		k.told.Store(change)
	}
	return err
}

// lastWord waits until the mover was told everything, or for as long as that is worth.
func (k *keeper) lastWord(within time.Duration) {
	waiting, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for waiting.Err() == nil {
		if _, change := k.readChange(); k.told.Load() >= change {
			return
		}
		sleep(waiting, reportEvery)
	}
}

func (k *keeper) takeOrders(conn *wire.Conn) error {
	for {
		var received message
		if err := conn.ReadJSON(&received); err != nil {
			return err
		}
		if received.Type == "order" {
			k.obey(received.Order)
		}
	}
}

func sleep(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
