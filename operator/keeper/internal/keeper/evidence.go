package keeper

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sandhold.dev/keeper/internal/gate"
)

// Outcomes of a probe.
const (
	Connected = "Connected"
	Refused   = "Refused"
	TimedOut  = "TimedOut"
	Failed    = "Failed" // no verdict: the probe itself could not be made
)

const (
	maxProbes     = 32
	maxProbeName  = 64
	canary        = "canary"
	canaryEvery   = 25 * time.Millisecond
	canaryTimeout = 300 * time.Millisecond
	canaryLimit   = 30 * time.Second
	probeTimeout  = 2 * time.Second
	// freshFor is how old the first round may be when init speaks for the first time: images can take minutes to come,
	// and what was seen before them says little of now.
	freshFor = 5 * time.Second
	// roundEvery bounds what an agent can cause by forging hints.
	roundEvery = time.Second
)

// Probe is a target that should or should not be reachable. The keeper does not know which.
type Probe struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    uint16 `json:"port"`
}

func bounded(probes []Probe) []Probe {
	probes = slices.Clone(probes[:min(len(probes), maxProbes)])
	for i, probe := range probes {
		probes[i].Name = probe.Name[:min(len(probe.Name), maxProbeName)]
	}
	return probes
}

// seekEvidence has evidence gathered with these probes, anew if there is some. The mutex is held.
func (k *keeper) seekEvidence(probes []Probe) {
	select {
	case <-k.probes: // nobody has begun with those, and these are younger
	default:
	}
	k.probes <- bounded(probes)
}

// gatherEvidence observes for as long as the process lives: once the walls stand, and anew for every further init and
// for everybody who asks again.
func (k *keeper) gatherEvidence() {
	changes, probes := k.watch(), <-k.probes
	waitForWalls(probes)
	for round := 1; ; round++ {
		started := time.Now()
		evidence := Evidence{Round: round}
		if round > 1 {
			evidence.Challenge = k.read().Gate.Challenge // before anything is observed: evidence is younger than it
		}
		evidence.Runtime, evidence.Probes = runtimeNow(), observe(probes)
		k.change(func(r *Report) { r.Evidence = &evidence })
		others, isAsked := k.untilWanted(changes, evidence, started)
		time.Sleep(time.Until(started.Add(roundEvery)))
		if isAsked {
			probes = others
			waitForWalls(probes)
		}
	}
}

// untilWanted waits until another round is, gives this one to an init that speaks for the first time, and returns the
// probes of an order that asks again.
func (k *keeper) untilWanted(changes <-chan struct{}, evidence Evidence, started time.Time) ([]Probe, bool) {
	for {
		select {
		case probes := <-k.probes:
			return probes, true
		case <-changes:
		}
		challenge := k.read().Gate.Challenge
		if evidence.Challenge == "" && challenge != "" && time.Since(started) < freshFor {
			evidence.Challenge = challenge
			known := evidence
			k.change(func(r *Report) { r.Evidence = &known })
		}
		if challenge != evidence.Challenge {
			return nil, false
		}
	}
}

// waitForWalls dials the canary, which nothing but the walls of this pod can block while its mover lives, until it is
// blocked, twice running. Whether that was a wall, another probe of the round tells.
func waitForWalls(probes []Probe) {
	deadline := time.Now().Add(canaryLimit)
	for _, probe := range probes {
		if probe.Name != canary {
			continue
		}
		for blocked := 0; blocked < 2 && time.Now().Before(deadline); {
			started := time.Now()
			if dial(probe, canaryTimeout).Outcome == Connected {
				blocked = 0
			} else {
				blocked++
			}
			time.Sleep(time.Until(started.Add(canaryEvery)))
		}
	}
}

// observe dials every target at once.
func observe(probes []Probe) []Observation {
	observations := make([]Observation, len(probes))
	var dialling sync.WaitGroup
	for i, probe := range probes {
		dialling.Go(func() { observations[i] = dial(probe, probeTimeout) })
	}
	dialling.Wait()
	return observations
}

func dial(probe Probe, timeout time.Duration) Observation {
	started := time.Now()
	outcome := Failed
	if address, err := netip.ParseAddr(probe.Address); err == nil {
		outcome = outcomeOf(netip.AddrPortFrom(address, probe.Port), timeout)
	}
	return Observation{probe.Name, outcome, time.Since(started).Milliseconds()}
}

func outcomeOf(target netip.AddrPort, timeout time.Duration) string {
	dialling, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(dialling, "tcp", target.String())
	if err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // leave nothing behind: the canary is dialled often
		}
		_ = conn.Close()
		return Connected
	}
	for _, refusal := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EACCES, syscall.EPERM,
	} {
		if errors.Is(err, refusal) {
			return Refused
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		return TimedOut
	}
	return Failed
}

// runtimeNow reads what the kernel says of itself. What cannot be read is empty, which nobody takes for a verdict.
func runtimeNow() Runtime {
	version, _ := gate.ReadTrusted("/proc/version", 1<<10)
	release, _ := gate.ReadTrusted("/proc/sys/kernel/osrelease", 128)
	return Runtime{Version: strings.TrimSpace(string(version)), Release: strings.TrimSpace(string(release))}
}
