// Command sandhold-keeper is the one static binary that Sandhold runs inside a sandbox pod.
//
// As `keeper` it is the sidecar that prepares, guards and archives the workspace; as `init` it is PID 1 of the agent
// container and holds the gate. What both of them speak is written down in PROTOCOL.md.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sandhold.dev/keeper/internal/agent"
	"sandhold.dev/keeper/internal/gate"
	"sandhold.dev/keeper/internal/keeper"
)

// version is set by the build: -ldflags "-X main.version=...".
var version = "0.0.0"

const usage = `sandhold-keeper keeper        guard the workspace of this pod until SIGTERM
sandhold-keeper install PATH  copy this binary to PATH
sandhold-keeper leave         tell the keeper of this pod that the pod's end has begun
sandhold-keeper init          wait for the gate as PID 1, then run the agent (also when called by the name "init")
sandhold-keeper init ready    exit 0 when the gate is open for the init that runs now
sandhold-keeper version       print the version
`

func main() {
	os.Exit(run(os.Args))
}

func run(argv []string) int {
	args := argv[1:]
	if filepath.Base(argv[0]) == "init" && (len(args) == 0 || args[0] != "init") {
		args = append([]string{"init"}, args...)
	}
	paths := gate.FromEnvironment()
	switch {
	case is(args, "keeper"):
		return keeper.Run(paths, version)
	case is(args, "init"):
		return agent.Run(paths)
	case is(args, "init", "ready"):
		return agent.Ready(paths)
	case len(args) == 2 && args[0] == "install":
		if err := gate.Install(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "sandhold-keeper:", err)
			return 1
		}
		return 0
	case is(args, "leave"):
		if err := gate.Leave(paths); err != nil {
			fmt.Fprintln(os.Stderr, "sandhold-keeper:", err)
			return 1
		}
		return 0
	case is(args, "version"):
		fmt.Println(version)
		return 0
	}
	fmt.Fprint(os.Stderr, usage)
	return 2
}

func is(args []string, want ...string) bool {
	if len(args) != len(want) {
		return false
	}
	for i := range want {
		if args[i] != want[i] {
			return false
		}
	}
	return true
}
