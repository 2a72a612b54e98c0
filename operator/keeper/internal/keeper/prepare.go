package keeper

import (
	"errors"
	"fmt"
	"log"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/tree"
	"sandhold.dev/keeper/internal/wire"
)

// Codes of what can go wrong with a workspace.
const (
	codeInvalidSnapshot  = "invalid_snapshot"
	codeSetupFailed      = "workspace_setup_failed"
	codeTooLarge         = "snapshot_too_large"
	codeStoreUnavailable = "snapshot_store_unavailable"
	codeProducerFailed   = "manifest_producer_failed"
)

// prepare fills the workspace, unless it is filled or being filled, and has evidence gathered.
func (k *keeper) prepare(order prepareOrder) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.seekEvidence(order.Probes)
	state := k.read()
	switch {
	case k.busy:
		return nil
	case state.Workspace.State == WorkspaceReady:
		if m := state.Marker; m.Slot != order.Slot || m.Epoch != order.Epoch {
			return fmt.Errorf("ignored: the workspace is of slot %q, epoch %d", m.Slot, m.Epoch)
		}
		return nil
	}
	if _, there := k.entries.of(order.EntriesDigest); !there {
		k.waiting = &order
		return nil
	}
	k.waiting, k.busy = nil, true
	k.change(func(r *Report) { r.Workspace = Workspace{State: WorkspacePreparing} })
	go k.runPreparation(order)
	return nil
}

func (k *keeper) runPreparation(order prepareOrder) {
	entries, _ := k.entries.of(order.EntriesDigest) // prepare saw that they are there
	totals, err := k.fill(order, entries)
	result := Workspace{State: WorkspaceReady, Files: totals.Files, Bytes: totals.Bytes}
	var marker *Marker
	if err == nil {
		marker = order.marker()
		k.entries.forget()
	} else {
		log.Printf("preparing the workspace: %v", err)
		result = Workspace{State: WorkspaceFailed, Message: gate.Shorten(err.Error())}
		result.Code = codeOf(err, codeSetupFailed)
	}
	giveMemoryBack()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.busy = false
	if err == nil {
		k.ephemeral = ephemeralPaths(entries)
	}
	k.change(func(r *Report) { r.Workspace, r.Marker = result, marker })
}

func (o prepareOrder) marker() *Marker {
	marker := &Marker{Slot: o.Slot, Epoch: o.Epoch, Recovery: RecoveryInitialized, Source: o.Source}
	if o.Source != nil {
		marker.Recovery = RecoveryRestored
	}
	return marker
}

// fill makes the workspace complete and durable, or leaves it empty, or untouched when it is not ours to fill.
func (k *keeper) fill(order prepareOrder, entries []tree.Entry) (tree.Totals, error) {
	if err := k.makeRoom(); err != nil {
		return tree.Totals{}, err
	}
	filling := note{Marker: *order.marker(), Ephemeral: ephemeralPaths(entries)}
	if err := gate.WriteJSON(k.paths.Marker(), filling, false); err != nil {
		return tree.Totals{}, err
	}
	totals, err := k.fillEmpty(order, entries)
	if err == nil {
		filling.Complete, filling.Files, filling.Bytes = true, totals.Files, totals.Bytes
		err = gate.WriteJSON(k.paths.Marker(), filling, true)
	}
	if err != nil {
		return tree.Totals{}, errors.Join(err, tree.Empty(k.paths.Workspace))
	}
	return totals, nil
}

// makeRoom empties a tree that this keeper was filling when it was ended, and nothing else.
func (k *keeper) makeRoom() error {
	isEmpty, err := tree.IsEmpty(k.paths.Workspace)
	if err != nil || isEmpty {
		return err
	}
	found, exists, err := readNote(k.paths)
	if err != nil && !isTorn(err) {
		return err
	}
	if (!exists && !isTorn(err)) || found.Complete || k.read().Gate.Opened != "" {
		return errors.New("the workspace is not empty, and this keeper has not filled it: nothing was touched")
	}
	return tree.Empty(k.paths.Workspace)
}

func (k *keeper) fillEmpty(order prepareOrder, entries []tree.Entry) (tree.Totals, error) {
	var totals tree.Totals
	var err error
	if order.Source != nil {
		if totals, err = k.restore(order); err != nil {
			return totals, err
		}
		if err := tree.Sync(k.paths.Workspace); err != nil {
			return totals, err
		}
	}
	wanted, err := k.wanted(order, entries)
	if err != nil {
		return totals, err
	}
	if wanted, err = k.gather(wanted); err != nil {
		return totals, err
	}
	written, err := tree.WriteEntries(k.paths.Workspace, wanted)
	totals.Files += written.Files
	totals.Bytes += written.Bytes
	return totals, err
}

// codeOf turns a failure into the code that the operator acts on.
func codeOf(err error, otherwise string) string {
	var invalid *tree.InvalidError
	var large *tree.TooLargeError
	var failed *wire.FailedError
	switch {
	case errors.As(err, &failed) && !errors.Is(err, wire.ErrRefused):
		return failed.Code
	case errors.Is(err, wire.ErrConnection), errors.Is(err, wire.ErrRefused):
		return codeStoreUnavailable
	case errors.As(err, &invalid):
		return codeInvalidSnapshot
	case errors.As(err, &large):
		return codeTooLarge
	}
	return otherwise
}
