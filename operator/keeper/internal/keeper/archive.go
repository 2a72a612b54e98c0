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

// errGivenUp says that a checkpoint made room for the archive that counts.
var errGivenUp = errors.New("given up: the pod goes, and its final archive comes first")

// archive sends the workspace to the mover because it was ordered to, unless that was done or is being done.
func (k *keeper) archive(order archiveOrder) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.beginOrdered(order)
}

// beginOrdered begins an ordered archive, or has it wait for a checkpoint to end. The mutex is held.
func (k *keeper) beginOrdered(order archiveOrder) error {
	state := k.read()
	switch {
	case k.hasFinal(state) && state.Archive.Sequence >= order.Sequence:
		return nil
	case !state.isArchivable():
		const message = "refused: nothing is archived from a workspace that is not complete or that no agent has seen"
		k.tellArchive(Archiving{
			Sequence: order.Sequence, Final: order.Final, State: ArchiveFailed, Code: codeProducerFailed, Message: message,
		})
		return errors.New(message)
	case !k.begin(order):
		if k.giveUp != nil {
			k.behind = &order
		}
		return nil
	}
	go func() {
		// How it went is told and logged already.
		_ = k.runArchive(context.Background(), order)
	}()
	return nil
}

// isArchivable is false for a workspace that is not complete or that no agent has seen.
func (r Report) isArchivable() bool { return r.Marker != nil && r.Gate.Opened != "" }

// nextSequence is the lowest number that another archive may get, as far as this keeper knows.
func (r Report) nextSequence() int64 {
	switch {
	case r.Archive == nil:
		return 1
	case r.Archive.State == ArchiveStored:
		return r.Archive.Sequence + 1
	}
	return max(1, r.Archive.Sequence)
}

// hasFinal tells whether the last archive is stored and leaves nothing to be archived after it. The mutex is held.
func (k *keeper) hasFinal(state Report) bool {
	return state.Archive != nil && state.Archive.State == ArchiveStored && state.Archive.Final && !k.tookLiving
}

// begin takes the turn and tells so, or returns false. The mutex is held.
func (k *keeper) begin(order archiveOrder) bool {
	if !k.turn.begin() {
		return false
	}
	if order.Final {
		k.tookLiving = k.leaving.isClosed() && !k.isAgentGone
	}
	k.tellArchive(Archiving{Sequence: order.Sequence, Final: order.Final, State: ArchiveRunning})
	return true
}

// runArchive archives the workspace in the turn that was taken, and gives the turn to the order that waits.
func (k *keeper) runArchive(ctx context.Context, order archiveOrder) error {
	sequence, totals, err := k.send(ctx, order)
	result := Archiving{
		Sequence: order.Sequence, Final: order.Final, State: ArchiveStored, Files: totals.Files, Bytes: totals.Bytes,
	}
	if err == nil {
		if sequence > 0 { // a mover that does not number archives gives it the order's
			result.Sequence = sequence
		}
		k.noteStored(result)
	} else {
		if ctx.Err() != nil {
			err = errGivenUp
		}
		log.Printf("archive %d: %v", order.Sequence, err)
		result.State, result.Message = ArchiveFailed, gate.Shorten(err.Error())
		result.Code = codeOf(err, codeProducerFailed)
	}
	giveMemoryBack()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.tellArchive(result)
	k.turn.done()
	next := k.behind
	k.giveUp, k.behind = nil, nil
	if next != nil {
		if err := k.beginOrdered(*next); err != nil {
			log.Printf("order \"archive\" that waited: %v", err)
		}
	}
	return err
}

// noteStored only saves a second upload after a restart of this process; without it the mover sees that it has it. An
// archive that is to be made again when the agent has ended has no note: a restarted keeper makes it again then.
func (k *keeper) noteStored(result Archiving) {
	if result.Final && k.mayHaveMissedSome() {
		return
	}
	if err := gate.WriteJSON(k.paths.Stored(), result, false); err != nil {
		log.Printf("archive %d is stored, its note is not: %v", result.Sequence, err)
	}
}

func (k *keeper) tellArchive(state Archiving) {
	k.change(func(r *Report) { r.Archive = &state })
}

// send streams layer and records to the mover and waits for its verdict: the number of the archive, or 0. It ends with
// the context.
func (k *keeper) send(ctx context.Context, order archiveOrder) (int64, tree.Totals, error) {
	conn, err := wire.Dial(ctx, k.paths, wire.PurposeArchive, order.Grant)
	if err != nil {
		return 0, tree.Totals{}, err
	}
	defer conn.Close() // the verdict says whether the archive is stored
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	// The mover may give up at any time, and otherwise says nothing while it receives.
	if err := conn.Patience(0); err != nil {
		return 0, tree.Totals{}, err
	}
	verdict, sequence := make(chan error, 1), int64(0)
	go func() {
		var err error
		sequence, err = conn.Verdict()
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
		return 0, totals, rather(verdict, conn, err)
	}
	limit := time.AfterFunc(verdictLimit, func() { conn.Close() })
	defer limit.Stop()
	err = <-verdict
	return sequence, totals, err
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
	k.opening.Lock() // two walks that open folders up would take each other's modes for the agent's
	totals, err := tree.Archive(k.paths.Workspace, scope, layer, records, k.tellProgress(order))
	k.opening.Unlock()
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

func (k *keeper) tellProgress(order archiveOrder) func(tree.Totals) {
	return nowAndThen(func(totals tree.Totals) {
		k.tellArchive(Archiving{
			Sequence: order.Sequence, Final: order.Final, State: ArchiveRunning, Files: totals.Files, Bytes: totals.Bytes,
		})
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
