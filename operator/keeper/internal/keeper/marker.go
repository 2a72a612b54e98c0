package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"sandhold.dev/keeper/internal/gate"
)

// noteLimit has room for the paths of as many entries as there may be.
const noteLimit = 1 << 20

// How a workspace came to be.
const (
	RecoveryRestored    = "Restored"
	RecoveryInitialized = "Initialized"
)

// Marker says what the workspace is. It is written once, when everything is there and durable.
type Marker struct {
	Slot     string  `json:"slot"`
	Epoch    int64   `json:"epoch"`
	Recovery string  `json:"recovery"`
	Source   *Source `json:"source"`
}

// note is what the keeper keeps of its workspace in its private volume. While it is not complete, the keeper was
// filling the tree and may do it again from the beginning.
type note struct {
	Marker
	Complete  bool     `json:"complete"`
	Files     int64    `json:"files"`
	Bytes     int64    `json:"bytes"`
	Ephemeral []string `json:"ephemeral,omitempty"` // paths of ephemeral entries
}

// leftOut are the paths that no archive takes: those of ephemeral entries.
func (k *keeper) leftOut() []string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.ephemeral
}

// readNote returns false when there is none.
func readNote(paths gate.Paths) (note, bool, error) {
	var found note
	exists, err := readPrivate(paths.Marker(), &found)
	return found, exists, err
}

// readStored returns the archive that was stored last, or nil.
func readStored(paths gate.Paths) (*Archiving, error) {
	var stored Archiving
	exists, err := readPrivate(paths.Stored(), &stored)
	if err != nil || !exists {
		return nil, err
	}
	return &stored, nil
}

func readPrivate(path string, into any) (bool, error) {
	content, err := gate.ReadPlain(path, noteLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}
