package keeper

import (
	"context"
	"log"
	"time"

	"sandhold.dev/keeper/internal/gate"
)

// watchHints passes on what init says, and that the pod's end has begun, for as long as the process lives. What no honest init would have written is
// ignored, and what was known before stays.
func (k *keeper) watchHints(ctx context.Context) {
	started := time.Now()
	var seen gate.Fingerprint
	for ctx.Err() == nil {
		if !k.leaving.isClosed() && gate.IsLeaving(k.paths) {
			k.leaving.close()
		}
		k.passAgain()
		if now, exists := gate.FingerprintOf(k.paths.Hint()); exists && now != seen {
			seen = now
			if hint, err := gate.ReadHint(k.paths.Hint()); err == nil {
				k.takeHint(hint)
			}
		}
		sleep(ctx, gate.PollEvery(started))
	}
}

func (k *keeper) takeHint(hint gate.Hint) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	isNew := k.read().Gate.Challenge != hint.Challenge
	k.change(func(r *Report) {
		r.Gate.Challenge = hint.Challenge
		r.Agent = Agent{State: hint.State, ExitCode: hint.ExitCode, Message: hint.Message}
		if r.Guard != nil {
			guard := *r.Guard
			guard.Frozen = hint.Frozen
			r.Guard = &guard
		}
	})
	if isNew {
		if err := k.repeatOrders(); err != nil {
			log.Printf("orders for init: %v", err)
		}
	}
}
