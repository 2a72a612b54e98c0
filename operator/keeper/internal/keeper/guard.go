package keeper

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/tree"
)

// Levels of the size guard.
const (
	LevelNormal   = "Normal"
	LevelHigh     = "High"
	LevelFull     = "Full"
	LevelCritical = "Critical"
)

// levels from the lowest to the highest.
var levels = []string{LevelNormal, LevelHigh, LevelFull, LevelCritical}

const (
	// restFactor keeps measuring at a twentieth of one core at most.
	restFactor   = 20
	shortestRest = 2 * time.Second
	longestRest  = time.Minute
	// actEvery bounds what an agent causes that fills and empties its workspace again and again: checkpoints, and what
	// every change of a level makes the operator write.
	actEvery = 30 * time.Second
	// openUpEvery bounds how often folders are opened up that an agent closed, only to measure them.
	openUpEvery   = time.Minute
	frozenWithin  = 5 * time.Second
	longestFreeze = 120 * time.Second

	longestInterval = 31 * 24 * 3600 // seconds
)

type guardOrder struct {
	SizeBytes       int64 `json:"sizeBytes"`
	LimitBytes      int64 `json:"limitBytes"`
	IntervalSeconds int64 `json:"intervalSeconds"`
}

// guard takes how large the workspace may be, and how often to make checkpoints.
func (k *keeper) guard(order guardOrder) error {
	if order.SizeBytes < 0 || order.LimitBytes < 0 || order.IntervalSeconds < 0 || order.IntervalSeconds > longestInterval {
		return errors.New("ignored: a number out of its range")
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	now := Guard{Level: LevelNormal}
	if before := k.read().Guard; before != nil {
		now = *before
	}
	if k.read().Guard != nil && order == (guardOrder{now.SizeBytes, now.LimitBytes, now.IntervalSeconds}) {
		return nil
	}
	now.SizeBytes, now.LimitBytes, now.IntervalSeconds = order.SizeBytes, order.LimitBytes, order.IntervalSeconds
	if !now.isOn() {
		now.Level = LevelNormal
	}
	return k.takeGuard(now)
}

// isOn tells whether the size is to be guarded.
func (g Guard) isOn() bool { return g.SizeBytes > 0 || g.LimitBytes > 0 }

// takeGuard reports and notes what the guard is now, and freezes or thaws as its level says. The mutex is held.
func (k *keeper) takeGuard(now Guard) error {
	before := k.read().Guard
	k.change(func(r *Report) { r.Guard = &now })
	if isCritical := now.Level == LevelCritical; isCritical || (before != nil && before.Level == LevelCritical) {
		k.freeze(isCritical)
	}
	if err := gate.WriteJSON(k.paths.Guard(), now, false); err != nil {
		return fmt.Errorf("guard: a restart would forget it: %w", err)
	}
	return nil
}

// readGuard returns what an earlier process of this pod guarded, or nil. A torn note is none: the operator sees it in the
// report and orders again.
func readGuard(paths gate.Paths) (*Guard, error) {
	var guard Guard
	exists, err := readPrivate(paths.Guard(), &guard)
	if isTorn(err) || (err == nil && !exists) {
		return nil, nil
	}
	guard.Frozen = false // until init says so again
	return &guard, err
}

// levelAfter is the level that so much use leads to. It falls later than it rises, so that it does not flap.
func (g Guard) levelAfter(used int64) string {
	for at := len(levels) - 1; at > 0; at-- {
		level := levels[at]
		from, below := g.thresholds(level)
		if from > 0 && (used >= from || (at <= rankOf(g.Level) && used >= below)) {
			return level
		}
	}
	return LevelNormal
}

// thresholds say where a level begins on the way up and where it ends on the way down; 0 for a level that is not guarded.
func (g Guard) thresholds(level string) (from, below int64) {
	size, limit := g.SizeBytes/10, g.LimitBytes/10
	switch level {
	case LevelHigh:
		return 8 * size, 7 * size
	case LevelFull:
		return g.SizeBytes, 9 * size
	case LevelCritical:
		return 9 * limit, 8 * limit
	}
	return 0, 0
}

func rankOf(level string) int {
	for rank, known := range levels {
		if known == level {
			return rank
		}
	}
	return 0
}

// guarding is what the guard remembers between two looks.
type guarding struct {
	hidden   int64     // what folders held that had to be opened up, when they were last
	openedAt time.Time // when that was
	isClosed bool      // there are such folders
	reached  string    // the level of the last look
	roseAt   time.Time // when it was last a higher one than before
	acted    string    // the level that was acted upon
	actedAt  time.Time
	failure  string // the last one that was logged
}

// guardSize measures the workspace and acts on what it finds, for as long as the process lives.
func (k *keeper) guardSize(ctx context.Context) {
	changes := k.watch()
	g := &guarding{reached: LevelNormal, acted: LevelNormal}
	if noted := k.read().Guard; noted != nil {
		g.reached, g.acted = noted.Level, noted.Level
	}
	for ctx.Err() == nil {
		if !k.isGuarded() {
			select {
			case <-changes:
			case <-ctx.Done():
			}
			continue
		}
		started := time.Now()
		used, isWhole := g.measure(k)
		took := time.Since(started)
		level := k.takeUse(used, isWhole && g.mayFall(time.Now()))
		g.see(level, time.Now())
		g.act(ctx, k, level)
		sleep(ctx, restAfter(took))
	}
}

// mayFall tells whether the level was reached long enough ago. Whoever is frozen makes nothing rise and fall.
func (g *guarding) mayFall(now time.Time) bool {
	return g.reached == LevelCritical || now.Sub(g.roseAt) >= actEvery
}

func (g *guarding) see(level string, now time.Time) {
	if rankOf(level) > rankOf(g.reached) {
		g.roseAt = now
	}
	g.reached = level
}

func restAfter(took time.Duration) time.Duration {
	return min(max(restFactor*took, shortestRest), longestRest)
}

func (k *keeper) isGuarded() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	state := k.read()
	return state.Guard != nil && state.Guard.isOn() && k.isAtWork(state)
}

// measure says how much of the disk the workspace takes, and false when it may be more.
func (g *guarding) measure(k *keeper) (used int64, isWhole bool) {
	opensUp := g.isClosed && time.Since(g.openedAt) >= openUpEvery && k.opening.TryLock()
	survey, err := tree.Look(k.paths.Workspace, nil, opensUp)
	tidyAfter(survey)
	if opensUp {
		k.opening.Unlock()
		g.hidden, g.openedAt = survey.Hidden, time.Now()
	}
	g.isClosed = survey.Closed > 0 || survey.Hidden > 0
	used = survey.Allocated
	if !opensUp && g.isClosed {
		used += g.hidden
	}
	if err != nil && err.Error() != g.failure {
		g.failure = err.Error()
		log.Printf("measuring the workspace: %v", err)
	}
	return used, err == nil
}

// takeUse says the level that so much use leads to, after it was reported if it is another one.
func (k *keeper) takeUse(used int64, mayFall bool) string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	state := k.read()
	if state.Guard == nil {
		return LevelNormal
	}
	now := *state.Guard
	level := now.levelAfter(used)
	isFalling := rankOf(level) < rankOf(now.Level)
	if level == now.Level || (isFalling && !mayFall) || !k.isAtWork(state) {
		return now.Level
	}
	log.Printf("the workspace takes %d bytes of %d (limit %d): %s", used, now.SizeBytes, now.LimitBytes, level)
	now.Level, now.UsedBytes = level, used
	if err := k.takeGuard(now); err != nil {
		log.Printf("%v", err)
	}
	return level
}

// act does what a level calls for when it is reached from below.
func (g *guarding) act(ctx context.Context, k *keeper, level string) {
	if rankOf(level) <= rankOf(g.acted) {
		g.acted = level
		return
	}
	if !g.actedAt.IsZero() && time.Since(g.actedAt) < actEvery {
		return // the next look is soon
	}
	g.acted, g.actedAt = level, time.Now()
	if _, _, isHeld := k.mayCheckpoint(); !isHeld {
		return
	}
	switch level {
	case LevelHigh:
		k.askAndGoOn()
	case LevelFull, LevelCritical:
		k.checkpointFrozen(ctx)
	}
}

// checkpointFrozen makes a checkpoint of a tree in which nobody works. Afterwards everybody goes on, unless the level says
// otherwise.
func (k *keeper) checkpointFrozen(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, longestFreeze)
	defer cancel()
	k.mutex.Lock()
	k.freeze(true)
	k.mutex.Unlock()
	if k.awaitFrozen(within) {
		select {
		case <-k.ask(within):
		case <-within.Done():
		}
	} else {
		k.askAndGoOn() // who is not stopped may be filling the disk: the guard has to go on looking
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if guard := k.read().Guard; guard == nil || guard.Level != LevelCritical {
		k.freeze(false)
	}
}

// awaitFrozen waits for init to say that everybody is stopped, or that nobody is left. It is no more than a hint, so nobody
// waits long for it.
func (k *keeper) awaitFrozen(ctx context.Context) bool {
	waiting, cancel := context.WithTimeout(ctx, frozenWithin)
	defer cancel()
	for waiting.Err() == nil {
		state := k.read()
		if state.Guard == nil || state.Guard.Frozen || state.Agent.State == gate.Ended {
			return true
		}
		sleep(waiting, reportEvery)
	}
	return false
}

// askAndGoOn asks for a checkpoint that nobody waits for. When one is asked for already, that is the one.
func (k *keeper) askAndGoOn() {
	select {
	case k.asked <- make(chan struct{}):
	default:
	}
}

// ask asks for a checkpoint, and returns a channel that is closed when it is over.
func (k *keeper) ask(ctx context.Context) <-chan struct{} {
	over := make(chan struct{})
	select {
	case k.asked <- over:
	case <-ctx.Done():
		close(over)
	}
	return over
}
