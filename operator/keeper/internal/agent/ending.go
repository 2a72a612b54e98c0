package agent

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
)

const everybody = -1 // every process of the pid namespace but PID 1

// ending is the end of every process in the container: a request, a grace, then force until nobody is left.
type ending struct {
	forceAt time.Time
}

func newEnding(grace time.Duration) *ending {
	e := &ending{forceAt: time.Now().Add(grace)}
	if grace > 0 {
		signalEverybody(syscall.SIGTERM)
		signalEverybody(syscall.SIGCONT) // a stopped process could not obey
	}
	return e
}

// hurry brings the force forward; it never puts it off.
func (e *ending) hurry(grace time.Duration) {
	if at := time.Now().Add(grace); at.Before(e.forceAt) {
		e.forceAt = at
	}
}

// isOver uses force once the grace is over, and tells whether anybody is left. It is called again and again: a fork
// bomb outruns one signal, not a hundred a second.
func (e *ending) isOver() bool {
	signal := syscall.Signal(0)
	if !time.Now().Before(e.forceAt) {
		signal = syscall.SIGKILL
	}
	if signalEverybody(signal) == syscall.ESRCH {
		return true
	}
	return !anybodyLives()
}

func signalEverybody(signal syscall.Signal) error {
	return syscall.Kill(everybody, signal)
}

// anybodyLives looks closer than kill can: the dead whom somebody outside has yet to reap (processes that were
// started by an exec into the container) do no more harm.
func anybodyLives() bool {
	return anybody(func(_ byte) bool { return true })
}

// anybody tells whether a process but this one lives, in a state that counts. What cannot be read counts.
func anybody(counts func(state byte) bool) bool {
	proc, err := os.Open("/proc")
	if err != nil {
		return true
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return true
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == 1 {
			continue
		}
		if lives("/proc/"+name+"/stat", counts) {
			return true
		}
	}
	return false
}

func lives(statPath string, counts func(state byte) bool) bool {
	content, err := os.ReadFile(statPath)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		return true
	}
	// The command name may hold anything; what follows its closing parenthesis is numbers, the state first.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 18 {
		return true
	}
	state, threads := fields[0][0], string(fields[17])
	if state == 'Z' || state == 'X' {
		return threads != "0" && threads != "1" // the first thread may be gone and others still at work
	}
	return counts(state)
}
