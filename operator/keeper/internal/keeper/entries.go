package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"sandhold.dev/keeper/internal/tree"
)

const (
	maxEntryParts = 64
	maxEntryBytes = 1 << 20
)

// entryList collects the parts of a list of entries until it is whole. The latest digest replaces the one before.
type entryList struct {
	mutex  sync.Mutex
	digest string
	parts  [][]byte
	whole  []tree.Entry
	isRead bool
}

// add takes one part, and returns true when the list is whole and is what its digest says.
func (e *entryList) add(order entriesOrder) (bool, error) {
	if order.Count < 1 || order.Count > maxEntryParts || order.Index < 0 || order.Index >= order.Count {
		return false, fmt.Errorf("part %d of %d", order.Index, order.Count)
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.digest == order.Digest && e.isRead {
		return true, nil
	}
	if e.digest != order.Digest || len(e.parts) != order.Count {
		e.reset(order.Digest, order.Count)
	}
	e.parts[order.Index] = append([]byte{}, order.Data...)
	text := []byte{}
	for _, part := range e.parts {
		if part == nil {
			return false, nil
		}
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	if len(text) > maxEntryBytes || hex.EncodeToString(sum[:]) != order.Digest {
		e.reset(order.Digest, order.Count)
		return false, errors.New("the parts do not add up to what their digest says")
	}
	if err := json.Unmarshal(text, &e.whole); err != nil {
		e.reset(order.Digest, order.Count)
		return false, err
	}
	e.parts, e.isRead = nil, true
	return true, nil
}

func (e *entryList) reset(digest string, count int) {
	e.digest, e.parts, e.whole, e.isRead = digest, make([][]byte, count), nil, false
}

// of returns the list with that digest, and whether it is there. No digest means no entries.
func (e *entryList) of(digest string) ([]tree.Entry, bool) {
	if digest == "" {
		return nil, true
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.whole, e.isRead && e.digest == digest
}

// forget lets the list go when it is no longer needed.
func (e *entryList) forget() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.reset("", 0)
}

func (k *keeper) takeEntries(order entriesOrder) error {
	if k.read().Workspace.State == WorkspaceReady {
		return nil // told again after a reconnect: nobody will ask for them
	}
	isWhole, err := k.entries.add(order)
	if err != nil || !isWhole {
		return err
	}
	k.mutex.Lock()
	waiting := k.waiting
	k.mutex.Unlock()
	if waiting != nil && waiting.EntriesDigest == order.Digest {
		return k.prepare(*waiting)
	}
	return nil
}
