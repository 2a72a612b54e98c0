package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestACommandIsFoundTheWayExecvpFindsIt(t *testing.T) {
	folder := t.TempDir()
	for path, mode := range map[string]os.FileMode{
		"one/tool": 0o755, "two/tool": 0o755, "two/data": 0o644, "three/data": 0o755, "work/bin/tool": 0o755, "two/dir/x": 0o755,
	} {
		full := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	in := func(places ...string) map[string]string {
		for i, place := range places {
			if strings.Contains(place, "/") || place == "" {
				continue
			}
			places[i] = filepath.Join(folder, place)
		}
		return map[string]string{"PATH": strings.Join(places, ":")}
	}
	work := filepath.Join(folder, "work")
	for _, c := range []struct {
		name string
		env  map[string]string
		want string // relative to the folder; empty for a refusal
		code int
	}{
		{"tool", in("one", "two"), "one/tool", 0},
		{"tool", in("two", "one"), "two/tool", 0},
		{"data", in("two", "three"), "three/data", 0},
		{"data", in("two"), "", codeNotExecutable},
		{"dir", in("two"), "", codeNotFound},
		{"tool", in(), "", codeNotFound},
		{"tool", in("./bin"), "work/bin/tool", 0},
		{"bin/tool", in(), "work/bin/tool", 0},
		{folder + "/one/tool", in(), "one/tool", 0},
		{"", in("one"), "", codeNotFound},
	} {
		got, failure := lookUp(c.name, work, c.env)
		if c.want != "" && got != filepath.Join(folder, c.want) || (failure != nil) != (c.want == "") {
			t.Errorf("%q in %v: %q, %v", c.name, c.env, got, failure)
		}
		if failure != nil && failure.exitCode != c.code {
			t.Errorf("%q in %v: %v", c.name, c.env, failure)
		}
	}
	if _, failure := lookUp("sh", "/", map[string]string{}); failure != nil {
		t.Error("without a PATH there is a fallback:", failure)
	}
}

func TestTheEnvironmentIsExactlyWhatWasGiven(t *testing.T) {
	got, failure := environmentOf(map[string]string{"B": "2=2", "A": "", "C": "x\ny"})
	if want := []string{"A=", "B=2=2", "C=x\ny"}; failure != nil || !reflect.DeepEqual(got, want) {
		t.Fatal(got, failure)
	}
	for _, env := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "x\x00"}} {
		if got, failure := environmentOf(env); failure == nil {
			t.Errorf("%q became %q", env, got)
		}
	}
}
