package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"sandhold.dev/keeper/internal/gate"
)

// Exit codes of a command that never ran, as shells give them.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
	fallbackPath      = "/usr/local/bin:/usr/bin:/bin"
)

// refusal says why a command was not started.
type refusal struct {
	exitCode int
	message  string
}

// start runs the word's command as the leader of a new process group with exactly the word's environment. The group stays
// in our session, so that it is not an orphaned one: gVisor hangs up all of an orphaned group as soon as one of it exits
// while another is stopped, and a freeze would end agents.
func start(word gate.Word) (int, *refusal) {
	environment, failure := environmentOf(word.Env)
	if failure != nil {
		return 0, failure
	}
	folder := word.WorkingDir
	if folder == "" {
		folder = "/"
	}
	if info, err := os.Stat(folder); err != nil {
		return 0, &refusal{codeNotExecutable, fmt.Sprintf("workingDir %q: %v", folder, err)}
	} else if !info.IsDir() {
		return 0, &refusal{codeNotExecutable, fmt.Sprintf("workingDir %q is not a folder", folder)}
	}
	program, failure := lookUp(word.Argv[0], folder, word.Env)
	if failure != nil {
		return 0, failure
	}
	pid, err := syscall.ForkExec(program, word.Argv, &syscall.ProcAttr{
		Dir:   folder,
		Env:   environment,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		code := codeNotExecutable
		if errors.Is(err, syscall.ENOENT) {
			code = codeNotFound // a script or a binary whose interpreter is not in the image
		}
		return 0, &refusal{code, fmt.Sprintf("command %q: %v", program, err)}
	}
	return pid, nil
}

func environmentOf(env map[string]string) ([]string, *refusal) {
	environment := make([]string, 0, len(env))
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return nil, &refusal{codeNotExecutable, fmt.Sprintf("env %q cannot be passed to a process", name)}
		}
		environment = append(environment, name+"="+value)
	}
	sort.Strings(environment)
	return environment, nil
}

// lookUp finds argv[0] the way execvp does, but in the PATH of the agent's environment.
func lookUp(name, folder string, env map[string]string) (string, *refusal) {
	if name == "" {
		return "", &refusal{codeNotFound, "the command is empty"}
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(folder, name)
		}
		return name, nil
	}
	path, given := env["PATH"]
	if !given {
		path = fallbackPath
	}
	notExecutable := ""
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) {
			place = filepath.Join(folder, place)
		}
		candidate := filepath.Join(place, name)
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return candidate, nil
		}
		notExecutable = candidate
	}
	if notExecutable != "" {
		return "", &refusal{codeNotExecutable, fmt.Sprintf("command %q is not executable", notExecutable)}
	}
	return "", &refusal{codeNotFound, fmt.Sprintf("command %q was not found in PATH %q", name, path)}
}
