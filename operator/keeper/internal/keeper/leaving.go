package keeper

import (
	"context"
	"errors"
	"log"
	"time"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/tree"
	"sandhold.dev/keeper/internal/wire"
)

const (
	// leavingGrace is what the agent gets when the pod goes: every second of it is the archive's loss.
	leavingGrace = 1 // seconds
	// endedWithin bounds how long the archive waits for the agent's end, of which there is no more than a hint.
	endedWithin        = 3 * time.Second
	firstLeavingPause  = 200 * time.Millisecond
	longestLeavingWait = 2 * time.Second
	// codeGrantRefused is the mover's for a grant that is not, or no longer, one.
	codeGrantRefused = "grant_refused"
)

// leave stores what the agent leaves behind when the pod goes, without an order: told by the preStop hook, while there is
// an agent to be ended, or by SIGTERM, when there is none any more. Where nothing permits that, orders may still come.
func (k *keeper) leave(terminated <-chan struct{}) {
	defer k.left.close()
	changes := k.watch()
	select {
	case <-k.leaving.channel:
		k.endQuickly()
		k.awaitEnd(changes, terminated)
	case <-terminated:
		k.noteAgentIsGone()
	}
	within, cancel := context.WithTimeout(context.Background(), lastArchive)
	defer cancel()
	k.storeFinal(within, changes)
	if !k.mayHaveMissedSome() {
		return
	}
	select {
	case <-terminated:
		k.noteAgentIsGone()
		k.storeFinal(within, changes)
	case <-within.Done():
	}
}

func (k *keeper) endQuickly() {
	if err := k.end(endOrder{GraceSeconds: leavingGrace}); err != nil {
		log.Printf("orders for init: %v", err)
	}
}

// awaitEnd waits for init to say that the agent has ended, or for the end of its container.
func (k *keeper) awaitEnd(changes <-chan struct{}, terminated <-chan struct{}) {
	limit := time.NewTimer(endedWithin)
	defer limit.Stop()
	for k.read().Agent.State != gate.Ended {
		select {
		case <-changes:
		case <-terminated:
			k.noteAgentIsGone()
			return
		case <-limit.C:
			log.Printf("init did not say within %s that the agent has ended", endedWithin)
			return
		}
	}
	k.noteAgentIsGone()
}

func (k *keeper) noteAgentIsGone() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.isAgentGone = true
}

func (k *keeper) mayHaveMissedSome() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.tookLiving
}

// storeFinal makes the final archive until it is stored, or until there is nothing more that could be tried.
func (k *keeper) storeFinal(within context.Context, changes <-chan struct{}) {
	for pause := firstLeavingPause; within.Err() == nil; {
		order, isWanted, hasTurn := k.beginFinal()
		if !isWanted {
			return
		}
		if !hasTurn { // another archive runs: it may be the one, or it has been told to give up
			select {
			case <-changes:
			case <-within.Done():
			}
			continue
		}
		if err := k.runArchive(context.Background(), order); err == nil || isHopeless(err) || k.hasExpired(err) {
			return
		}
		sleep(within, pause)
		pause = min(2*pause, longestLeavingWait)
	}
}

// beginFinal takes the turn for the final archive, if one is wanted and permitted. A checkpoint that is in the way is
// given up: it can only be of less worth. Whether the grant has expired is the mover's to say: by then nobody may be there
// who could give another, and this node's clock may be wrong.
func (k *keeper) beginFinal() (order archiveOrder, isWanted, hasTurn bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	state, grant := k.read(), k.grants.Final
	if k.hasFinal(state) || !state.isArchivable() || grant.Grant == "" {
		return order, false, false
	}
	if k.giveUp != nil {
		k.giveUp()
	}
	order = archiveOrder{Sequence: state.nextSequence(), Final: true, Grant: grant.Grant, MaxBytes: grant.MaxBytes}
	return order, true, k.begin(order)
}

// hasExpired tells whether mover and keeper agree that the grant for the final archive is of no use any more.
func (k *keeper) hasExpired(err error) bool {
	var refused *wire.FailedError
	if !errors.Is(err, wire.ErrRefused) || !errors.As(err, &refused) || refused.Code != codeGrantRefused {
		return false
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return !k.grants.Final.isValid()
}

// isHopeless tells failures that another try would only repeat.
func isHopeless(err error) bool {
	var large *tree.TooLargeError
	var failed *wire.FailedError
	if errors.As(err, &large) {
		return true
	}
	return errors.As(err, &failed) && !failed.Retryable && !errors.Is(err, wire.ErrRefused)
}
