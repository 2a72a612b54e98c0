package keeper

import (
	"context"
	"errors"
	"io"
	"log"
	"time"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/tree"
	"sandhold.dev/keeper/internal/wire"
)

const (
	progressEvery = 500 * time.Millisecond
	// verdictLimit bounds how long a mover may say that it still verifies.
	verdictLimit = time.Hour
)

// archive sends the workspace to the mover, unless that was done or is being done.
func (k *keeper) archive(order archiveOrder) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	state := k.read()
	last := state.Archive
	switch {
	case last != nil && last.State == ArchiveStored && last.Sequence >= order.Sequence:
		return nil
	case state.Marker == nil || state.Gate.Opened == "":
		const message = "refused: nothing is archived from a workspace that is not complete or that no agent has seen"
		k.tellArchive(Archiving{Sequence: order.Sequence, State: ArchiveFailed, Code: codeProducerFailed, Message: message})
		return errors.New(message)
	case !k.turn.begin():
		return nil
	}
	k.tellArchive(Archiving{Sequence: order.Sequence, State: ArchiveRunning})
	go k.runArchive(order)
	return nil
}

func (k *keeper) runArchive(order archiveOrder) {
	totals, err := k.send(order)
	result := Archiving{Sequence: order.Sequence, State: ArchiveStored, Files: totals.Files, Bytes: totals.Bytes}
	if err == nil {
		// Only saves a second upload after a restart of this process; without it the mover sees that it has it.
		if err := gate.WriteJSON(k.paths.Stored(), result, false); err != nil {
			log.Printf("archive %d is stored, its note is not: %v", order.Sequence, err)
		}
	} else {
		log.Printf("archive %d: %v", order.Sequence, err)
		result.State, result.Message = ArchiveFailed, gate.Shorten(err.Error())
		result.Code = codeOf(err, codeProducerFailed)
	}
	giveMemoryBack()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.tellArchive(result)
	k.turn.done()
}

func (k *keeper) tellArchive(state Archiving) {
	k.change(func(r *Report) { r.Archive = &state })
}

// send streams layer and records to the mover and waits for its verdict.
func (k *keeper) send(order archiveOrder) (tree.Totals, error) {
	conn, err := wire.Dial(context.Background(), k.paths, wire.PurposeArchive, order.Grant)
	if err != nil {
		return tree.Totals{}, err
	}
	defer conn.Close() // the verdict says whether the archive is stored
	// The mover may give up at any time, and otherwise says nothing while it receives.
	if err := conn.Patience(0); err != nil {
		return tree.Totals{}, err
	}
	verdict := make(chan error, 1)
	go func() {
		_, err := conn.Verdict()
		if err != nil {
			conn.Close() // so that a write that waits for the mover fails at once
		}
		verdict <- err
	}()
	totals, err := k.stream(conn, order)
	if err == nil {
		err = conn.Patience(wire.Silence)
	}
	if err != nil {
		return totals, rather(verdict, conn, err)
	}
	limit := time.AfterFunc(verdictLimit, func() { conn.Close() })
	defer limit.Stop()
	return totals, <-verdict
}

// rather prefers the mover's own word over the broken connection that it left behind.
func rather(verdict <-chan error, conn *wire.Conn, err error) error {
	if !errors.Is(err, wire.ErrConnection) {
		return err
	}
	_ = conn.Patience(time.Second) // fails when the connection is closed, and then the verdict is there already
	var failed *wire.FailedError
	if said := <-verdict; errors.As(said, &failed) {
		return said
	}
	return err
}

func (k *keeper) stream(conn *wire.Conn, order archiveOrder) (tree.Totals, error) {
	records, err := tree.NewSpool()
	if err != nil {
		return tree.Totals{}, err
	}
	part := conn.NewPart()
	layer, err := tree.NewLayerWriter(part)
	if err != nil {
		return tree.Totals{}, err
	}
	scope := tree.Scope{MaxBytes: order.MaxBytes, LeftOut: k.leftOut()}
	totals, err := tree.Archive(k.paths.Workspace, scope, layer, records, k.tellProgress(order.Sequence))
	// Closed in any case: the compressor's goroutines end with it.
	for _, closing := range []func() error{layer.Close, records.Seal, part.Close} {
		if err == nil {
			err = closing()
		} else {
			_ = closing()
		}
	}
	if err != nil {
		return totals, err
	}
	if err := sendRecords(conn, records); err != nil {
		return totals, err
	}
	done := wire.Done{
		Type: "done", RawBytes: totals.RawBytes, Files: totals.Files, Bytes: totals.Bytes, Skipped: totals.Skipped,
	}
	done.LayerSHA256, done.LayerBytes = layer.Sum()
	return totals, conn.WriteJSON(done)
}

func sendRecords(conn *wire.Conn, records *tree.Spool) error {
	lines, err := records.Open()
	if err != nil {
		return err
	}
	defer lines.Close() // a reader over memory
	part := conn.NewPart()
	if _, err := io.Copy(part, lines); err != nil {
		return err
	}
	return part.Close()
}

func (k *keeper) tellProgress(sequence int64) func(tree.Totals) {
	return nowAndThen(func(totals tree.Totals) {
		k.tellArchive(Archiving{Sequence: sequence, State: ArchiveRunning, Files: totals.Files, Bytes: totals.Bytes})
	})
}

// nowAndThen calls do with the newest value, but not more often than a reader needs.
func nowAndThen(do func(tree.Totals)) func(tree.Totals) {
	last := time.Now()
	return func(totals tree.Totals) {
		if time.Since(last) > progressEvery {
			last = time.Now()
			do(totals)
		}
	}
}
