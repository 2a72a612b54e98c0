package keeper

import (
	"testing"
	"time"
)

func TestLevelsRiseAtTheirThresholdsAndFallLater(t *testing.T) {
	const mib = 1 << 20
	guard := Guard{Level: LevelNormal, SizeBytes: 100 * mib, LimitBytes: 200 * mib}
	for _, step := range []struct {
		used int64 // MiB
		want string
	}{
		{0, LevelNormal},
		{79, LevelNormal},
		{80, LevelHigh},
		{75, LevelHigh}, // it has not fallen far enough
		{70, LevelHigh},
		{69, LevelNormal},
		{75, LevelNormal}, // nor risen
		{100, LevelFull},
		{99, LevelFull},
		{90, LevelFull},
		{89, LevelHigh},
		{90, LevelHigh},
		{180, LevelCritical},
		{161, LevelCritical},
		{159, LevelFull},
		{200, LevelCritical},
		{10, LevelNormal},
		{1 << 40, LevelCritical},
	} {
		if guard.Level = guard.levelAfter(step.used * mib); guard.Level != step.want {
			t.Fatalf("%d MiB: %s, not %s", step.used, guard.Level, step.want)
		}
	}
}

func TestALevelIsKeptForAWhileButForThatOfTheFrozen(t *testing.T) {
	now := time.Now()
	g := &guarding{reached: LevelNormal}
	for _, step := range []struct {
		after time.Duration
		level string
		want  bool
	}{
		{0, LevelHigh, false},
		{29 * time.Second, LevelHigh, false},
		{time.Second, LevelHigh, true},
		{0, LevelNormal, true},
		{2 * time.Second, LevelFull, false},
		{time.Second, LevelCritical, true},
		{0, LevelFull, false},
	} {
		now = now.Add(step.after)
		g.see(step.level, now)
		if may := g.mayFall(now); may != step.want {
			t.Fatalf("%+v: %t", step, may)
		}
	}
}

func TestASizeThatIsNotGuardedHasNoLevel(t *testing.T) {
	for _, guard := range []Guard{{}, {LimitBytes: 1 << 40}, {SizeBytes: 1 << 40}} {
		guard.Level = LevelNormal
		if level := guard.levelAfter(1 << 30); level != LevelNormal {
			t.Errorf("%+v: %s", guard, level)
		}
	}
	onlyLimit := Guard{Level: LevelNormal, LimitBytes: 1000}
	if level := onlyLimit.levelAfter(900); level != LevelCritical {
		t.Error(level)
	}
	huge := Guard{Level: LevelNormal, SizeBytes: 1<<63 - 1, LimitBytes: 1<<63 - 1}
	if level := huge.levelAfter(1 << 40); level != LevelNormal {
		t.Error(level)
	}
}

func TestMeasuringTakesATwentiethOfTheTime(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		time.Millisecond: 2 * time.Second, time.Second: 20 * time.Second, time.Hour: time.Minute,
	} {
		if got := restAfter(took); got != want {
			t.Errorf("%s: %s", took, got)
		}
	}
}
