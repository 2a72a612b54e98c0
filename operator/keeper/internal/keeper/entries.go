package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"sandhold.dev/keeper/internal/tree"
)

const (
	maxEntryParts = 64
	maxEntryBytes = 1 << 20
	// sourceEvery is how often a source that is not there is looked for.
	sourceEvery = time.Second
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
	var list []tree.Entry
	if err := json.Unmarshal(text, &list); err != nil {
		e.reset(order.Digest, order.Count)
		return false, err
	}
	e.parts, e.whole, e.isRead = nil, tree.Entries(list), true
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

// ephemeralPaths are what no archive takes.
func ephemeralPaths(entries []tree.Entry) []string {
	var paths []string
	for _, entry := range entries {
		if entry.Ephemeral {
			paths = append(paths, entry.Path)
		}
	}
	return paths
}

// wanted are the entries that are to be written into the workspace as it is now: all of them into a new one; into one
// that was restored the ephemeral ones, and with order.WriteEntries those in whose place nothing stands. What the agent
// has left in the place of the others is its work, and stays.
func (k *keeper) wanted(order prepareOrder, entries []tree.Entry) ([]tree.Entry, error) {
	if order.Source == nil {
		return entries, nil
	}
	paths := make([]string, len(entries))
	for i, entry := range entries {
		paths[i] = entry.Path
	}
	standing, err := tree.Standing(k.paths.Workspace, paths)
	if err != nil {
		return nil, err
	}
	var wanted []tree.Entry
	for i, entry := range entries {
		if entry.Ephemeral || order.WriteEntries && !standing[i] {
			wanted = append(wanted, entry)
		}
	}
	return wanted, nil
}

// gather reads the sources of copies, and waits until all of them are there: the kubelet shows a ConfigMap that is made
// later within a minute or so. How long that may take is the operator's business.
func (k *keeper) gather(entries []tree.Entry) ([]tree.Entry, error) {
	var waitingFor *int
	for {
		gathered, missing, err := k.readSources(entries)
		if err != nil || missing == nil {
			if waitingFor != nil {
				k.change(func(r *Report) { r.Workspace.WaitingFor = nil })
			}
			return gathered, err
		}
		if waitingFor == nil || *waitingFor != *missing {
			log.Printf("the source of workspace.entries[%d] is not there yet", *missing)
			waitingFor = missing
			k.change(func(r *Report) { r.Workspace.WaitingFor = missing })
		}
		time.Sleep(sourceEvery)
	}
}

// readSources returns the entries with what their sources hold, or the place of the first whose source is missing.
func (k *keeper) readSources(entries []tree.Entry) (_ []tree.Entry, missing *int, _ error) {
	sources := tree.NewSources(k.paths.Sources)
	gathered := make([]tree.Entry, len(entries))
	for i, entry := range entries {
		if entry.Kind == tree.EntryCopy {
			files, err := sources.Read(entry.Source, entry.Key)
			if errors.Is(err, tree.ErrNoSource) {
				return nil, &entry.Place, nil
			}
			if err != nil {
				return nil, nil, entry.Wrap(err)
			}
			entry.Files = files
		}
		gathered[i] = entry
	}
	return gathered, nil, nil
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
