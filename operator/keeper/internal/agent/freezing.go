package agent

import (
	"syscall"

	"sandhold.dev/keeper/internal/gate"
)

// patience is how many looks a process has to leave the kernel. In it it does nothing new, and a parent in vfork never
// leaves it while its child is stopped.
const patience = 50

// stillFor is how many looks in a row have to find everybody stopped: a process counts as stopped as soon as its first
// thread is.
const stillFor = 2

// eagerLooks bounds how long init looks often: a process whose first thread is gone never counts as stopped.
const eagerLooks = 500

// freeze is a level that holds until the keeper says otherwise.
type freeze struct {
	still int // looks in a row that found everybody stopped
	looks int
}

func (p *initProcess) beginFreeze() {
	if p.freeze == nil && p.ending == nil && p.hint.State != gate.Ended {
		p.freeze = &freeze{}
	}
}

// holdStill stops everybody, again and again: a process that somebody starts by an exec meanwhile too. Before everybody
// was seen to be stopped it is called a hundred times a second, so no fork bomb outruns it.
func (p *initProcess) holdStill() {
	if p.freeze == nil {
		return
	}
	nobody := signalEverybody(syscall.SIGSTOP) == syscall.ESRCH
	if p.hint.Frozen {
		return
	}
	p.freeze.looks++
	isPatient := p.freeze.looks < patience
	if !nobody && anybody(func(state byte) bool { return moves(state) && (isPatient || state != 'D') }) {
		p.freeze.still = 0
		return
	}
	if p.freeze.still++; p.freeze.still >= stillFor {
		p.hint.Frozen = true
		p.writeHint()
	}
}

// thaw lets everybody go on.
func (p *initProcess) thaw() {
	if p.freeze != nil {
		p.endFreeze()
		_ = signalEverybody(syscall.SIGCONT) // fails when nobody is there
	}
}

// endFreeze leaves it to the caller to let everybody go on: who is to end gets the signal for it first.
func (p *initProcess) endFreeze() {
	p.freeze = nil
	if p.hint.Frozen {
		p.hint.Frozen = false
		p.writeHint()
	}
}

func (f *freeze) isEager() bool { return f != nil && f.still < stillFor && f.looks < eagerLooks }

// moves tells a state in which a process could do something from those in which it is stopped, also by a tracer.
func moves(state byte) bool {
	return state != 'T' && state != 't'
}
