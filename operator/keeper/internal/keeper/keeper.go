// Package keeper is the sidecar: it calls home, prepares the workspace, gathers evidence, opens the gate when it is
// told to, and archives the workspace. It obeys the mover's orders and judges nothing.
package keeper

import (
	"context"
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
	"sandhold.dev/keeper/internal/tree"
)

const (
	spareThreads = 12
	// collectAt keeps the heap of a process that mostly sleeps close to what it holds.
	collectAt = 50
	// manyNames is how many names a walk may see whose garbage is not worth a collection.
	manyNames = 4096
	// lastArchive bounds how long an archive may go on after SIGTERM; the kubelet's grace is what really ends it.
	lastArchive = 15 * time.Minute
	// lastOrderWithin bounds how long the end waits for an order to archive what no archive has.
	lastOrderWithin = 10 * time.Second
	// lastWordWithin bounds how long the end waits for the mover to hear how that archive ended.
	lastWordWithin = time.Second
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
	probes    chan []Probe  // what the last preparation asks to be dialled, until somebody begins
	endWithin *int          // an end was ordered, with this grace, for every init from then on

	isFreezing  bool              // everybody is to stand still, until told otherwise
	isUnpassed  bool              // what init was to be told could not be written
	grants      standingGrants    // what may be archived without an order
	giveUp      func()            // ends the checkpoint that runs, nil when none does
	behind      *archiveOrder     // an ordered archive that waits for a checkpoint to end
	baseline    *tree.Fingerprint // of the tree that is stored or was restored, nil when nobody knows
	restoredAt  tree.Time         // the latest change time of a restored tree
	hasLooked   bool              // for a restored tree; the checkpoints' own
	tookLiving  bool              // the final archive was taken before the agent was seen to have ended
	isAgentGone bool
	opening     sync.Mutex           // held by a walk that opens folders up
	asked       chan chan<- struct{} // checkpoints that the size guard wants, and whom to tell that they are over
	leaving     latch                // the pod's end has begun
	left        latch                // there is nothing more to be done for the pod's end
	ephemeral   []string             // paths that no archive takes; set once, when the workspace is ready
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
	k := &keeper{
		paths: paths, probes: make(chan []Probe, 1), asked: make(chan chan<- struct{}, 1), leaving: newLatch(), left: newLatch(),
	}
	if err := k.remember(version); err != nil {
		log.Printf("%v", err)
		return 1
	}
	living, end := context.WithCancel(context.Background())
	defer end()
	go k.watchHints(living)
	go k.gatherEvidence()
	go k.callHome(living)
	go k.makeCheckpoints(living)
	go k.guardSize(living)
	go k.leave(terminated.Done())
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

// stayForWork waits while the workspace holds what no final archive has: somebody deletes the pod, its agent has just
// ended, and the keeper archives it by itself, or the order to do so is on its way. It returns false when there was nothing
// to wait for.
func (k *keeper) stayForWork(within time.Duration) bool {
	changes, idle := k.watch(), time.NewTimer(within)
	defer idle.Stop()
	left := k.left.channel
	for stayed := false; ; stayed = true {
		k.mutex.Lock()
		state := k.read()
		isDone := !state.isArchivable() || k.hasFinal(state)
		k.mutex.Unlock()
		if isDone {
			return stayed
		}
		if state.Archive != nil && state.Archive.State == ArchiveRunning {
			idle.Reset(within)
		}
		select {
		case <-changes:
		case <-left:
			left = nil
			idle.Reset(within)
		case <-idle.C:
			if left != nil {
				idle.Reset(within) // it tries by itself
				continue
			}
			log.Printf("nobody asked for an archive within %s after SIGTERM", within)
			return true
		}
	}
}

// tidyAfter gives back what a walk over many names left behind. After a small one that would cost more than the walk.
func tidyAfter(survey tree.Survey) {
	if survey.Fingerprint.Names() > manyNames {
		giveMemoryBack()
	}
}

// giveMemoryBack returns to the node what a transfer needed.
func giveMemoryBack() {
	runtime.GC() // pools keep what they hold for one collection more
	debug.FreeOSMemory()
}
