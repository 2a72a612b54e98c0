package keeper

import (
	"encoding/json"
	"errors"
	"io/fs"

	"sandhold.dev/keeper/internal/gate"
)

// remember fills the first report from what an earlier process of this pod left behind. A power loss may leave a file
// torn that was not made durable: it still says that it was written, and a workspace must not wait for ever for that.
func (k *keeper) remember(version string) error {
	found, exists, err := readNote(k.paths)
	if isTorn(err) {
		found, exists, err = note{}, true, nil // it was being filled: a complete note is durable
	}
	if err != nil {
		return err
	}
	stored, err := readStored(k.paths)
	if err != nil && !isTorn(err) {
		return err
	}
	word, err := gate.ReadWord(k.paths.Word())
	if isTorn(err) {
		word.Challenge, err = gate.RandomID(), nil // the gate was opened, for an init that is gone
	}
	if err := ignoreAbsent(err); err != nil {
		return err
	}
	k.ephemeral = found.Ephemeral
	grants, err := readGrants(k.paths)
	if err != nil {
		return err
	}
	guard, err := readGuard(k.paths)
	if err != nil {
		return err
	}
	if err := k.rememberOrders(guard); err != nil {
		return err
	}
	k.change(func(r *Report) {
		r.Version, r.Boot = version, gate.RandomID()
		r.Workspace.State = WorkspaceEmpty
		r.Agent.State = gate.Unknown
		r.Gate.Opened = word.Challenge
		r.Archive, r.Guard = stored, guard
		if grants != nil {
			k.grants, r.Kept = *grants, grants.kept()
		}
		if exists && found.Complete {
			r.Marker = &found.Marker
			r.Workspace = Workspace{State: WorkspaceReady, Files: found.Files, Bytes: found.Bytes}
		}
	})
	return nil
}

// rememberOrders takes up what init was told. A freeze outlives the keeper that ordered it only when its level was critical:
// whatever else it was for, nobody would thaw anybody.
func (k *keeper) rememberOrders(guard *Guard) error {
	k.isFreezing = guard != nil && guard.Level == LevelCritical
	orders, err := gate.ReadOrders(k.paths.Orders())
	if isTorn(err) {
		return nil // whoever they were for is gone; an end that holds is ordered again
	}
	if err != nil {
		return ignoreAbsent(err)
	}
	if orders.End != nil {
		k.endWithin = &orders.End.GraceSeconds
		return nil
	}
	if orders.Freeze && !k.isFreezing {
		orders.Freeze = false
		return gate.WriteJSON(k.paths.Orders(), orders, false)
	}
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isTorn tells a file that a power loss left empty or in part from one that cannot be read.
func isTorn(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax)
}
