package keeper

import (
	"sync"
	"time"
)

// turn lets one archive run at a time, and the end of the process wait for it.
type turn struct {
	sync.WaitGroup
	mutex   sync.Mutex
	running bool
	closed  bool
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

// latch is something that happens once.
type latch struct {
	once    sync.Once
	channel chan struct{}
}

func newLatch() latch { return latch{channel: make(chan struct{})} }

func (l *latch) close() { l.once.Do(func() { close(l.channel) }) }

func (l *latch) isClosed() bool {
	select {
	case <-l.channel:
		return true
	default:
		return false
	}
}
