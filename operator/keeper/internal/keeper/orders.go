package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"sandhold.dev/keeper/internal/gate"
)

const longestGrace = 3600 // seconds

type entriesOrder struct {
	Digest string `json:"digest"`
	Index  int    `json:"index"`
	Count  int    `json:"count"`
	Data   []byte `json:"data"`
}

type prepareOrder struct {
	Slot          string  `json:"slot"`
	Epoch         int64   `json:"epoch"`
	Source        *Source `json:"source"`
	Grant         string  `json:"grant"`
	EntriesDigest string  `json:"entriesDigest"`
	WriteEntries  bool    `json:"writeEntries"`
	Probes        []Probe `json:"probes"`
}

type openOrder struct {
	Challenge string    `json:"challenge"`
	Word      gate.Word `json:"word"`
}

type endOrder struct {
	GraceSeconds int `json:"graceSeconds"`
}

type archiveOrder struct {
	Sequence int64  `json:"sequence"` // the lowest number that it may get
	Final    bool   `json:"final"`
	Grant    string `json:"grant"`
	MaxBytes int64  `json:"maxBytes"` // 0 for no bound but the mover's
}

// obey carries an order out, or begins to. Doing one again changes nothing.
func (k *keeper) obey(raw json.RawMessage) {
	var order struct {
		Verb string `json:"verb"`
	}
	err := json.Unmarshal(raw, &order)
	if err == nil {
		switch order.Verb {
		case "entries":
			err = decode(raw, k.takeEntries)
		case "prepare":
			err = decode(raw, k.prepare)
		case "open":
			err = decode(raw, k.open)
		case "end":
			err = decode(raw, k.end)
		case "archive":
			err = decode(raw, k.archive)
		case "keep":
			err = decode(raw, k.keep)
		case "guard":
			err = decode(raw, k.guard)
		default:
			err = fmt.Errorf("verb %q is not known", gate.Shorten(order.Verb))
		}
	}
	if err != nil {
		log.Printf("order %q: %v", gate.Shorten(order.Verb), err)
	}
}

func decode[O any](raw json.RawMessage, do func(O) error) error {
	var order O
	if err := json.Unmarshal(raw, &order); err != nil {
		return err
	}
	return do(order)
}

// open writes the word that init waits for.
func (k *keeper) open(order openOrder) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	state := k.read()
	switch {
	case k.endWithin != nil:
		return errors.New("ignored: an end was ordered before")
	case state.Workspace.State != WorkspaceReady:
		return fmt.Errorf("ignored: the workspace is %s", state.Workspace.State)
	case order.Challenge == "" || order.Challenge != state.Gate.Challenge:
		return errors.New("ignored: it is not for the init that waits")
	case order.Challenge == state.Gate.Opened:
		return nil
	}
	k.judgeBaseline()
	order.Word.Challenge = order.Challenge
	if err := gate.WriteJSON(k.paths.Word(), order.Word, false); err != nil {
		return err
	}
	k.change(func(r *Report) { r.Gate.Opened = order.Challenge })
	go syncBeside(k.paths.Word()) // after a power loss it is what says that an agent has worked here
	return nil
}

// syncBeside makes a file durable that somebody acts on already.
func syncBeside(path string) {
	if err := gate.SyncFile(path); err != nil {
		log.Printf("%v", err)
	}
}

// end orders every init from now on to end its agent.
func (k *keeper) end(order endOrder) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	grace := min(max(order.GraceSeconds, 0), longestGrace)
	if k.endWithin != nil {
		grace = min(grace, *k.endWithin) // init never puts an end off, a new init should not either
	}
	k.endWithin = &grace
	if err := k.passOrders(); err != nil {
		return err
	}
	go syncBeside(k.paths.Orders())
	return nil
}

// freeze orders every init, from now on until it is told otherwise, to stop everybody or to let them go on. The mutex is
// held.
func (k *keeper) freeze(wanted bool) {
	if k.isFreezing == wanted {
		return
	}
	k.isFreezing = wanted
	if err := k.passOrders(); err != nil {
		log.Printf("orders for init: %v", err)
	}
}

// repeatOrders tells an init that has just come what holds. The mutex is held.
func (k *keeper) repeatOrders() error {
	if k.endWithin == nil && !k.isFreezing {
		return nil
	}
	return k.passOrders()
}

// passOrders writes the orders for the init that waits and the one that the gate was opened for. The mutex is held.
func (k *keeper) passOrders() error {
	state := k.read()
	orders := gate.Orders{Challenges: []string{}}
	if k.endWithin != nil {
		orders.End = &gate.End{GraceSeconds: *k.endWithin}
	} else {
		orders.Freeze = k.isFreezing
	}
	for _, challenge := range []string{state.Gate.Challenge, state.Gate.Opened} {
		if challenge != "" {
			orders.Challenges = append(orders.Challenges, challenge)
		}
	}
	err := gate.WriteJSON(k.paths.Orders(), orders, false)
	k.isUnpassed = err != nil
	return err
}

// passAgain tries to pass orders on that could not be: a full disk has room again some day.
func (k *keeper) passAgain() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.isUnpassed && k.passOrders() == nil {
		log.Print("orders for init: passed on at last")
	}
}
