// Package keeper is the sidecar: it calls home, prepares the workspace, gathers evidence, opens the gate when it is
// told to, and archives the workspace. It obeys the mover's orders and judges nothing.
package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/threads"
)

const (
	spareThreads = 10
	// collectAt keeps the heap of a process that mostly sleeps close to what it holds.
	collectAt = 50
	// lastArchive bounds how long an archive may go on after SIGTERM; the kubelet's grace is what really ends it.
	lastArchive = 15 * time.Minute
	// lastOrderWithin bounds how long the end waits for an order to archive what no archive has.
	lastOrderWithin = 10 * time.Second
	// lastWordWithin bounds how long the end waits for the mover to hear how that archive ended.
	lastWordWithin = time.Second
	// tornGrace is an agent's grace when nobody knows any more which one was ordered.
	tornGrace = 10 // seconds
)

// keeper is one process. Its parts work beside each other and meet on the board.
type keeper struct {
	board
	paths   gate.Paths
	entries entryList
	turn    turn
	told    atomic.Uint64 // the last change that a mover was told of

	mutex     sync.Mutex
	busy      bool          // a preparation runs
	waiting   *prepareOrder // a preparation that waits for its entries
	probing   bool          // evidence is being gathered since the first preparation
	endWithin *int          // an end was ordered, with this grace, for every init from then on
	ephemeral []string      // paths that no archive takes; set once, when the workspace is ready
}

// turn lets one archive run at a time, and the end of the process wait for it.
type turn struct {
	sync.WaitGroup
	mutex   sync.Mutex
	running bool
	closed  bool
}

// Run is the keeper, until SIGTERM. It returns the exit code of the process.
func Run(paths gate.Paths, version string) int {
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetPrefix("keeper: ")
	if err := threads.AvoidHugePages(); err != nil {
		log.Printf("prctl: %v", err)
	}
	debug.SetGCPercent(collectAt)
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	threads.Start(spareThreads)
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	k := &keeper{paths: paths}
	if err := k.remember(version); err != nil {
		log.Printf("%v", err)
		return 1
	}
	living, end := context.WithCancel(context.Background())
	defer end()
	go k.watchHints(living)
	go k.callHome(living)
	giveMemoryBack()
	<-terminated.Done()
	stayed := k.stayForWork(lastOrderWithin)
	if wasRunning, isOver := k.turn.finish(lastArchive); !isOver {
		log.Printf("an archive was still running %s after SIGTERM", lastArchive)
	} else if wasRunning || stayed {
		k.lastWord(lastWordWithin)
	}
	return 0
}

// stayForWork waits while the workspace holds what no archive has: somebody deletes the pod, its agent has just ended, and
// the order to archive is on its way. It returns false when there was nothing to wait for.
func (k *keeper) stayForWork(within time.Duration) bool {
	changes, idle := k.watch(), time.NewTimer(within)
	defer idle.Stop()
	for stayed := false; ; stayed = true {
		state := k.read()
		isStored := state.Archive != nil && state.Archive.State == ArchiveStored
		if state.Marker == nil || state.Gate.Opened == "" || isStored {
			return stayed
		}
		if state.Archive != nil && state.Archive.State == ArchiveRunning {
			idle.Reset(within)
		}
		select {
		case <-changes:
		case <-idle.C:
			log.Printf("nobody asked for an archive within %s after SIGTERM", within)
			return true
		}
	}
}

// giveMemoryBack returns to the node what a transfer needed.
func giveMemoryBack() {
	runtime.GC() // pools keep what they hold for one collection more
	debug.FreeOSMemory()
}

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
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	orders, err := gate.ReadOrders(k.paths.Orders())
	if isTorn(err) {
		orders.End, err = &gate.End{GraceSeconds: tornGrace}, nil // nothing but an end is ever ordered
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if orders.End != nil {
		k.endWithin = &orders.End.GraceSeconds
	}
	k.ephemeral = found.Ephemeral
	k.change(func(r *Report) {
		r.Version, r.Boot = version, gate.RandomID()
		r.Workspace.State = WorkspaceEmpty
		r.Agent.State = gate.Unknown
		r.Gate.Opened = word.Challenge
		r.Archive = stored
		if exists && found.Complete {
			r.Marker = &found.Marker
			r.Workspace = Workspace{State: WorkspaceReady, Files: found.Files, Bytes: found.Bytes}
		}
	})
	return nil
}

// isTorn tells a file that a power loss left empty or in part from one that cannot be read.
func isTorn(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax)
}

// begin returns false when an archive runs already or the process ends.
func (t *turn) begin() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.running || t.closed {
		return false
	}
	t.running = true
	t.Add(1)
	return true
}

func (t *turn) done() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.running = false
	t.Done()
}

// finish lets nothing begin any more and waits for what runs.
func (t *turn) finish(within time.Duration) (wasRunning, isOver bool) {
	t.mutex.Lock()
	wasRunning, t.closed = t.running, true
	t.mutex.Unlock()
	idle := make(chan struct{})
	go func() {
		t.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return wasRunning, true
	case <-time.After(within):
		return wasRunning, false
	}
}
