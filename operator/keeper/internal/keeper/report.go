package keeper

import "sync"

// Report is the whole state of a keeper (PROTOCOL.md section 4.1).
type Report struct {
	Version   string     `json:"version"`
	Boot      string     `json:"boot"`
	Marker    *Marker    `json:"marker"`
	Workspace Workspace  `json:"workspace"`
	Evidence  *Evidence  `json:"evidence"`
	Gate      Gate       `json:"gate"`
	Agent     Agent      `json:"agent"`
	Archive   *Archiving `json:"archive"`
	Kept      *Kept      `json:"kept"`
	Guard     *Guard     `json:"guard"`
}

// Source names the snapshot that a workspace came from.
type Source struct {
	Epoch    int64 `json:"epoch"`
	Sequence int64 `json:"sequence"`
}

// States of the workspace.
const (
	WorkspaceEmpty     = "Empty"
	WorkspacePreparing = "Preparing"
	WorkspaceReady     = "Ready"
	WorkspaceFailed    = "Failed"
)

// Workspace says how far the workspace is.
type Workspace struct {
	State   string `json:"state"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Files   int64  `json:"files"`
	Bytes   int64  `json:"bytes"`
	// WaitingFor is the place of the entry whose source is not there yet.
	WaitingFor *int `json:"waitingFor,omitempty"`
}

// Evidence is what was observed before the gate opens.
type Evidence struct {
	Challenge string        `json:"challenge"`
	Round     int           `json:"round"`
	Runtime   Runtime       `json:"runtime"`
	Probes    []Observation `json:"probes"`
}

// Runtime is what the kernel says of itself.
type Runtime struct {
	Version string `json:"version"`
	Release string `json:"release"`
}

// Observation is the outcome of one probe.
type Observation struct {
	Name         string `json:"name"`
	Outcome      string `json:"outcome"`
	Milliseconds int64  `json:"milliseconds"`
}

// Gate says which init waits and for which one the gate was opened.
type Gate struct {
	Challenge string `json:"challenge"`
	Opened    string `json:"opened"`
}

// Agent passes on what init says. Nobody should believe it.
type Agent struct {
	State    string `json:"state"`
	ExitCode int    `json:"exitCode"`
	Message  string `json:"message"`
}

// States of an archive.
const (
	ArchiveRunning = "Running"
	ArchiveStored  = "Stored"
	ArchiveFailed  = "Failed"
)

// Archiving says how far the last archive is. Its sequence is the mover's once it is stored.
type Archiving struct {
	Sequence int64  `json:"sequence"`
	Final    bool   `json:"final"`
	State    string `json:"state"`
	Code     string `json:"code"`
	Message  string `json:"message"`
	Files    int64  `json:"files"`
	Bytes    int64  `json:"bytes"`
}

// Kept says until when (Unix seconds, 0 for none) a standing grant of each kind is held.
type Kept struct {
	Checkpoint int64 `json:"checkpoint"`
	Final      int64 `json:"final"`
}

// Guard says how large the workspace may be, and how full it is. It is also the keeper's private note of that.
type Guard struct {
	Level           string `json:"level"`
	SizeBytes       int64  `json:"sizeBytes"`
	LimitBytes      int64  `json:"limitBytes"`
	IntervalSeconds int64  `json:"intervalSeconds"`
	UsedBytes       int64  `json:"usedBytes"` // when the level changed last
	Frozen          bool   `json:"frozen"`    // as init says
}

// board is where everybody in the process writes what they know, and from where it is reported.
type board struct {
	mutex    sync.Mutex
	report   Report
	changes  uint64 // how often it changed
	watchers []chan struct{}
}

// read returns the state now. What pointers lead to is never changed in place.
func (b *board) read() Report {
	report, _ := b.readChange()
	return report
}

// readChange returns the state now and which change made it.
func (b *board) readChange() (Report, uint64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.report, b.changes
}

// change changes the state and wakes who watches it.
func (b *board) change(do func(*Report)) {
	b.mutex.Lock()
	do(&b.report)
	b.changes++
	watchers := b.watchers
	b.mutex.Unlock()
	for _, watcher := range watchers {
		select {
		case watcher <- struct{}{}:
		default: // it has yet to look: once is enough
		}
	}
}

// watch returns a channel that has something in it after every change. It is meant for those that live as long as the
// process.
func (b *board) watch() <-chan struct{} {
	watcher := make(chan struct{}, 1)
	watcher <- struct{}{}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.watchers = append(b.watchers[:len(b.watchers):len(b.watchers)], watcher)
	return watcher
}
