package keeper

import (
	"testing"
	"time"
)

const interval = 300 * time.Second

func TestTheFirstCheckpointFallsIntoTheSecondHalfOfItsInterval(t *testing.T) {
	now := time.Now()
	for share, want := range map[float64]time.Duration{0: interval / 2, 0.5: interval * 3 / 4, 0.999: interval} {
		var p pace
		p.follow(now, interval, true, share)
		if got := p.due.Sub(now); got > want || got < want-time.Second {
			t.Errorf("share %v: %s", share, got)
		}
		before := p
		p.follow(now.Add(time.Minute), interval, true, 0.3)
		if p != before {
			t.Error("an order that says the same puts it off")
		}
	}
}

func TestNothingIsDueWithoutAnIntervalOrAnAgent(t *testing.T) {
	now := time.Now()
	var p pace
	p.follow(now, 0, true, 0.5)
	if p.isDue(now.Add(time.Hour)) {
		t.Error("an interval of 0 is none")
	}
	p.follow(now, interval, true, 0.5)
	p.follow(now, interval, false, 0.5)
	if p.isDue(now.Add(time.Hour)) {
		t.Error("there is nobody at work")
	}
	p.follow(now, interval, true, 0)
	if !p.isDue(now.Add(interval)) {
		t.Error("somebody is at work again")
	}
	p.follow(now, time.Second, true, 0)
	if !p.isDue(now.Add(time.Second)) {
		t.Error("a shorter interval holds at once")
	}
}

func TestAfterASuccessTheNextIsDueAnIntervalAfterItsBeginning(t *testing.T) {
	start := time.Now()
	for _, result := range []outcome{checkpointStored, checkpointUnchanged} {
		p := pace{interval: interval, backOff: time.Minute}
		p.after(start, start.Add(10*time.Second), result)
		if got := p.due.Sub(start); got != interval || p.backOff != 0 {
			t.Errorf("%s, back-off %s", got, p.backOff)
		}
	}
	p := pace{interval: interval}
	p.after(start, start.Add(2*interval), checkpointStored)
	if got := p.due.Sub(start); got != 3*interval {
		t.Errorf("one that took twice its interval is followed by the next at once: %s", got)
	}
	p = pace{}
	p.after(start, start, checkpointStored)
	if !p.due.IsZero() {
		t.Error("what only the guard asked for does not repeat itself")
	}
}

func TestFailuresAreTriedAgainWithADoublingBackOff(t *testing.T) {
	now := time.Now()
	for limit, want := range map[time.Duration][]time.Duration{
		interval:        {30 * time.Second, 60 * time.Second, 120 * time.Second, 240 * time.Second, interval, interval},
		2 * time.Second: {2 * time.Second, 2 * time.Second},
		0:               {30 * time.Second, 60 * time.Second, 120 * time.Second, 240 * time.Second, longestBackOff},
	} {
		p := pace{interval: limit}
		for i, pause := range want {
			p.after(now, now, checkpointFailed)
			if got := p.due.Sub(now); got != pause {
				t.Errorf("interval %s, failure %d: %s", limit, i+1, got)
			}
		}
	}
}
