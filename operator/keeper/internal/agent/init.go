// Package agent is PID 1 of the agent container: it waits for the gate, starts the agent, reaps every orphan and ends
// the agent on order. It stays when the agent has ended, so that the pod stays for the archive.
//
//	Waiting --word--> Running --the agent exits, or an order to end--> (ending) --nobody is left--> Ended
//	Waiting --order to end--> Ended
//
// While it is ordered to freeze, everybody but itself is stopped and no word is taken.
//
// It decides nothing about the workspace, and nobody believes what it writes: the agent has its uid.
package agent

import (
	"log"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/threads"
)

const (
	// quickGrace is what the rest of the pod gets when the pod is being deleted: every second of it is the keeper's loss.
	quickGrace    = time.Second
	longestGrace  = time.Hour
	endingEvery   = 10 * time.Millisecond
	sparedThreads = 6
)

type initProcess struct {
	paths     gate.Paths
	hint      gate.Hint
	hintWrote bool
	agentPID  int // 0 while there is none
	ending    *ending
	freeze    *freeze // while it is ordered
	exits     bool    // leave when nobody is left
	started   time.Time
	word      watched
	orders    watched
}

// Run is init. It returns the exit code of the process.
func Run(paths gate.Paths) int {
	log.SetFlags(log.LstdFlags | log.LUTC)
	log.SetPrefix("init: ")
	if os.Getpid() != 1 {
		// Ending the agent means ending every process that can be seen; only PID 1 of a container may do that.
		log.Print("this must be PID 1 of the agent container (shareProcessNamespace is not supported)")
		return 1
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals) // every one: with the runtime's defaults the agent could end PID 1 by SIGQUIT
	runtime.GOMAXPROCS(1)
	threads.Start(sparedThreads)
	for _, err := range []error{threads.HideMemory(), threads.AvoidHugePages()} {
		if err != nil {
			log.Printf("prctl: %v", err)
		}
	}
	process := &initProcess{
		paths:   paths,
		hint:    gate.Hint{Challenge: gate.RandomID(), State: gate.Waiting},
		started: time.Now(),
		word:    watched{path: paths.Word()},
		orders:  watched{path: paths.Orders()},
	}
	process.writeHint()
	return process.loop(signals)
}

func (p *initProcess) loop(signals <-chan os.Signal) int {
	timer := time.NewTimer(0)
	for {
		select {
		case received := <-signals:
			if received == syscall.SIGTERM {
				p.exits = true
				p.beginEnding(quickGrace)
			}
		case <-timer.C:
			p.look()
			timer.Reset(p.pause())
		}
		p.reap()
		p.proceed()
		if p.exits && p.hint.State == gate.Ended {
			return 0
		}
	}
}

func (p *initProcess) pause() time.Duration {
	if p.ending != nil || p.freeze.isEager() {
		return endingEvery
	}
	return gate.PollEvery(p.started)
}

// look reads what the keeper wrote. What is not for the init that runs now is ignored.
func (p *initProcess) look() {
	if !p.hintWrote {
		p.writeHint()
	}
	if p.orders.changed() {
		orders, err := gate.ReadOrders(p.orders.path)
		if err != nil {
			log.Printf("orders: %v", err)
		} else if names(orders.Challenges, p.hint.Challenge) {
			p.obey(orders)
		}
	}
	if p.hint.State != gate.Waiting || p.ending != nil || p.freeze != nil || !p.word.changed() {
		return
	}
	word, err := gate.ReadWord(p.word.path)
	if err != nil {
		log.Printf("word: %v", err)
	} else if word.Challenge == p.hint.Challenge {
		p.open(word)
	}
}

func (p *initProcess) obey(orders gate.Orders) {
	switch {
	case orders.End != nil:
		p.beginEnding(graceOf(*orders.End))
	case orders.Freeze:
		p.beginFreeze()
	default:
		p.thaw()
	}
}

func (p *initProcess) open(word gate.Word) {
	if len(word.Argv) == 0 {
		p.tell(gate.Running, 0, "")
		return
	}
	pid, failure := start(word)
	if failure != nil {
		log.Printf("the agent was not started: %s", failure.message)
		p.tell(gate.Ended, failure.exitCode, failure.message)
		return
	}
	p.agentPID = pid
	p.tell(gate.Running, 0, "")
}

// beginEnding starts the end of every process but this one, or brings a running one forward.
func (p *initProcess) beginEnding(grace time.Duration) {
	p.endFreeze()
	if p.ending == nil {
		p.ending = newEnding(grace)
	} else {
		p.ending.hurry(grace)
	}
}

// proceed carries a freeze or an ending on and notes when nobody is left.
func (p *initProcess) proceed() {
	p.holdStill()
	if p.ending == nil || !p.ending.isOver() {
		return
	}
	if p.reap(); p.agentPID != 0 {
		return // dead, and its exit code still to come
	}
	p.ending = nil
	if p.hint.State != gate.Ended {
		p.tell(gate.Ended, p.hint.ExitCode, "")
	}
}

// reap collects every child that has ended, ours or adopted. What an agent leaves behind ends with it, as it would in
// any container.
func (p *initProcess) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == p.agentPID {
			p.agentPID = 0
			p.hint.ExitCode = exitCode(status)
			p.beginEnding(quickGrace)
		}
	}
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func (p *initProcess) tell(state string, code int, message string) {
	p.hint.State, p.hint.ExitCode, p.hint.Message = state, code, gate.Shorten(message)
	p.writeHint()
}

// writeHint may fail (a full disk, an agent that put a folder in the way): the next look tries again.
func (p *initProcess) writeHint() {
	err := gate.WriteJSON(p.paths.Hint(), p.hint, false)
	if err != nil && p.hintWrote {
		log.Printf("hint: %v", err)
	}
	p.hintWrote = err == nil
}

// Ready is the readiness probe: 0 when the gate was opened for the init that runs now.
func Ready(paths gate.Paths) int {
	hint, err := gate.ReadHint(paths.Hint())
	if err != nil {
		return 1
	}
	word, err := gate.ReadWord(paths.Word())
	if err != nil || word.Challenge != hint.Challenge {
		return 1
	}
	return 0
}

// watched is a file that is only read again when it is another one.
type watched struct {
	path string
	seen gate.Fingerprint
}

func (w *watched) changed() bool {
	now, exists := gate.FingerprintOf(w.path)
	if !exists || now == w.seen {
		return false
	}
	w.seen = now
	return true
}

func names(challenges []string, challenge string) bool {
	for _, one := range challenges {
		if one == challenge {
			return true
		}
	}
	return false
}

func graceOf(end gate.End) time.Duration {
	return min(max(time.Duration(end.GraceSeconds)*time.Second, 0), longestGrace)
}
