// Package gate holds what init and keeper say to each other through files: where the files are, what stands in them,
// and how a small file is written whole and read without trusting whoever made it.
package gate

import (
	"os"
	"path/filepath"
)

// Paths says where things are in the pod. Every one can be moved by an environment variable, for tests.
type Paths struct {
	Gate      string // the keeper writes, the agent container only reads
	Hints     string // both write; the keeper believes nothing of it
	Private   string // the keeper's own
	Workspace string
	Token     string // the projected service account token, a file
	PodInfo   string // the folder of downward-API files
	Sources   string // a folder for each ConfigMap and Secret that entries come from, mounted into the keeper alone
}

// FromEnvironment returns the paths of PROTOCOL.md section 1, moved where the environment says so.
func FromEnvironment() Paths {
	return Paths{
		Gate:      pathOf("SANDHOLD_GATE", "/run/sandhold/gate/mounted/after/every/other/volume"),
		Hints:     pathOf("SANDHOLD_HINTS", "/run/sandhold/hints"),
		Private:   pathOf("SANDHOLD_PRIVATE", "/run/sandhold/keeper"),
		Workspace: pathOf("SANDHOLD_WORKSPACE", "/run/sandhold/workspace"),
		Token:     pathOf("SANDHOLD_TOKEN_FILE", "/run/sandhold/token/token"),
		PodInfo:   pathOf("SANDHOLD_PODINFO", "/run/sandhold/podinfo"),
		Sources:   pathOf("SANDHOLD_SOURCES", "/run/sandhold/sources"),
	}
}

func pathOf(variable, fallback string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return fallback
}

// Word is the file that opens the gate.
func (p Paths) Word() string { return filepath.Join(p.Gate, "word.json") }

// Orders is the file that tells a running init to end or to freeze its agent.
func (p Paths) Orders() string { return filepath.Join(p.Gate, "orders.json") }

// Hint is the file in which init says how it goes.
func (p Paths) Hint() string { return filepath.Join(p.Hints, "init.json") }

// Marker is the keeper's own note of what the workspace is.
func (p Paths) Marker() string { return filepath.Join(p.Private, "marker.json") }

// Stored is the keeper's own note of the last archive that was stored.
func (p Paths) Stored() string { return filepath.Join(p.Private, "stored.json") }

// Source is the folder of one source of entries.
func (p Paths) Source(name string) string { return filepath.Join(p.Sources, name) }

// Grants is where the keeper keeps what it may do while the operator is away. Nobody else reads it.
func (p Paths) Grants() string { return filepath.Join(p.Private, "grants.json") }

// Guard is the keeper's own note of how large the workspace may be, and of the level that it reached.
func (p Paths) Guard() string { return filepath.Join(p.Private, "guard.json") }

// Leaving is there once the pod's end has begun.
func (p Paths) Leaving() string { return filepath.Join(p.Private, "leaving") }

// MoverAddress is the file that holds host:port of the mover.
func (p Paths) MoverAddress() string { return filepath.Join(p.PodInfo, "mover-address") }

// MoverCA is the file that holds the certificate authority of the installation.
func (p Paths) MoverCA() string { return filepath.Join(p.PodInfo, "mover-ca") }
