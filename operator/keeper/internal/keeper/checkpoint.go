package keeper

import (
	"context"
	"log"
	"math/rand/v2"
	"time"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/tree"
)

const (
	firstBackOff = 30 * time.Second
	// longestBackOff bounds the back-off of checkpoints that no interval asks for.
	longestBackOff = 300 * time.Second
	idleFor        = time.Hour // how long to wait for nothing in particular
)

// outcome is how a checkpoint went.
type outcome int

const (
	checkpointStored outcome = iota
	checkpointUnchanged
	checkpointFailed
	checkpointSkipped // nothing may be archived now, or something else is
)

// pace says when the next checkpoint is due. It knows no clock and does nothing.
type pace struct {
	interval time.Duration // 0 for none
	due      time.Time     // zero while nothing is due
	backOff  time.Duration // 0 unless the last one failed
}

// follow takes the interval that is ordered now, and whether checkpoints may be made at all. share says where in the
// second half of the interval the first one falls, so that sandboxes that were started together part.
func (p *pace) follow(now time.Time, interval time.Duration, isOn bool, share float64) {
	switch {
	case !isOn:
		*p = pace{}
	case interval != p.interval:
		*p = pace{interval: interval}
		if interval > 0 {
			p.due = now.Add(interval/2 + time.Duration(share*float64(interval/2)))
		}
	}
}

// after takes how the last one went.
func (p *pace) after(started, now time.Time, result outcome) {
	longest := p.interval
	if longest == 0 {
		longest = longestBackOff
	}
	switch result {
	case checkpointFailed:
		p.backOff = min(max(2*p.backOff, firstBackOff), longest)
		p.due = now.Add(p.backOff)
		return
	case checkpointSkipped:
		p.due = now.Add(min(firstBackOff, longest))
		return
	}
	p.backOff, p.due = 0, time.Time{}
	if p.interval > 0 {
		// One that takes longer than its interval leaves the agent as much time without.
		p.due = latest(started.Add(p.interval), now.Add(min(now.Sub(started), p.interval)))
	}
}

func (p *pace) isDue(now time.Time) bool { return !p.due.IsZero() && !now.Before(p.due) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// makeCheckpoints makes them as the clock and the size guard want, for as long as the process lives.
func (k *keeper) makeCheckpoints(ctx context.Context) {
	changes := k.watch()
	timer := time.NewTimer(idleFor)
	defer timer.Stop()
	var pace pace
	for ctx.Err() == nil {
		var over chan<- struct{}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-timer.C:
		case over = <-k.asked:
		}
		k.takeBaseline()
		mayArchive, interval, isHeld := k.mayCheckpoint()
		now := time.Now()
		pace.follow(now, interval, mayArchive, rand.Float64())
		if mayArchive && isHeld && (over != nil || pace.isDue(now)) {
			pace.after(now, time.Now(), k.checkpoint(ctx))
		}
		if over != nil {
			close(over)
		}
		timer.Reset(untilDue(pace, isHeld))
	}
}

func untilDue(p pace, isHeld bool) time.Duration {
	if p.due.IsZero() || !isHeld {
		return idleFor // a grant that comes is a change
	}
	return max(0, time.Until(p.due))
}

// mayCheckpoint tells whether there is an agent whose work is to be kept, how often, and whether a grant is held.
func (k *keeper) mayCheckpoint() (mayArchive bool, interval time.Duration, isHeld bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	state := k.read()
	if state.Guard != nil {
		interval = time.Duration(state.Guard.IntervalSeconds) * time.Second
	}
	return k.isAtWork(state), interval, k.grants.Checkpoint.isValid()
}

// isAtWork tells whether the gate was opened and the end is not near. The mutex is held.
func (k *keeper) isAtWork(state Report) bool {
	return state.isArchivable() && k.endWithin == nil && state.Agent.State != gate.Ended && !k.leaving.isClosed()
}

// checkpoint archives the workspace if it is another than the one that is stored.
func (k *keeper) checkpoint(ctx context.Context) outcome {
	k.opening.Lock()
	now, err := tree.Look(k.paths.Workspace, k.leftOut(), true)
	k.opening.Unlock()
	tidyAfter(now)
	if err != nil {
		log.Printf("looking for changes: %v", err) // the archive says what is wrong, if it is
	}
	k.mutex.Lock()
	state := k.read()
	if err == nil && k.baseline != nil && *k.baseline == now.Fingerprint {
		k.mutex.Unlock()
		return checkpointUnchanged
	}
	grant := k.grants.Checkpoint
	order := archiveOrder{Sequence: state.nextSequence(), Grant: grant.Grant, MaxBytes: grant.MaxBytes}
	if !k.isAtWork(state) || !grant.isValid() || !k.begin(order) {
		k.mutex.Unlock()
		return checkpointSkipped
	}
	running, giveUp := context.WithCancel(ctx)
	defer giveUp()
	k.giveUp = giveUp
	k.mutex.Unlock()

	if k.runArchive(running, order) != nil {
		return checkpointFailed
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.baseline = nil
	if err == nil && now.IsSettled {
		k.baseline = &now.Fingerprint
	}
	return checkpointStored
}

// takeBaseline looks at a tree that was restored and that no agent has seen yet: what comes from the store need not go
// there again.
func (k *keeper) takeBaseline() {
	state := k.read()
	if k.hasLooked || state.Marker == nil || state.Marker.Recovery != RecoveryRestored || state.Gate.Opened != "" {
		return
	}
	k.hasLooked = true
	k.opening.Lock()
	restored, err := tree.Look(k.paths.Workspace, k.leftOut(), true)
	k.opening.Unlock()
	tidyAfter(restored)
	if err != nil {
		log.Printf("looking at what was restored: %v", err) // the first checkpoint is made then, whatever changes
		return
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.read().Gate.Opened == "" {
		k.baseline, k.restoredAt = &restored.Fingerprint, restored.Youngest
	}
}

// judgeBaseline drops the baseline when what the agent is about to change could look as young as what was restored.
// The mutex is held.
func (k *keeper) judgeBaseline() {
	if k.baseline == nil || k.read().Gate.Opened != "" {
		return
	}
	isPast, err := tree.ClockIsPast(k.paths.Workspace, k.restoredAt)
	if err != nil {
		log.Printf("the clock of the workspace: %v", err)
	}
	if err != nil || !isPast {
		k.baseline = nil
	}
}
