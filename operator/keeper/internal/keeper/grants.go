package keeper

import (
	"errors"
	"fmt"
	"time"

	"sandhold.dev/keeper/internal/gate"
)

const (
	longestGrant = 6 << 10
	// expiryMargin is what a mover needs of a grant's life to let an archive begin.
	expiryMargin = 5 * time.Second
)

// standingGrant is a permission to archive that needs no order. What stands in it is the mover's business.
type standingGrant struct {
	Grant    string `json:"grant"`
	Expires  int64  `json:"expires"` // Unix seconds, by the clock on the wall
	MaxBytes int64  `json:"maxBytes"`
}

// standingGrants is what the keeper holds, and its private note of it.
type standingGrants struct {
	Checkpoint standingGrant `json:"checkpoint"`
	Final      standingGrant `json:"final"`
}

type keepOrder struct {
	standingGrant
	Final bool `json:"final"`
}

// isValid tells whether a grant is held and worth showing, by this node's clock.
func (g standingGrant) isValid() bool {
	return g.Grant != "" && time.Now().Add(expiryMargin).Unix() < g.Expires
}

// keep holds a standing grant in the place of the one of its kind.
func (k *keeper) keep(order keepOrder) error {
	if len(order.Grant) > longestGrant || order.Expires < 0 || order.MaxBytes < 0 {
		return errors.New("ignored: a grant that is too long, or a negative number")
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	grants := k.grants
	if order.Final {
		grants.Final = order.standingGrant
	} else {
		grants.Checkpoint = order.standingGrant
	}
	if grants == k.grants && k.read().Kept != nil {
		return nil
	}
	k.grants = grants
	k.change(func(r *Report) { r.Kept = grants.kept() })
	if err := gate.WriteSecretJSON(k.paths.Grants(), grants); err != nil {
		return fmt.Errorf("held, but a restart would forget it: %w", err)
	}
	return nil
}

func (g standingGrants) kept() *Kept {
	return &Kept{Checkpoint: g.Checkpoint.until(), Final: g.Final.until()}
}

func (g standingGrant) until() int64 {
	if g.Grant == "" {
		return 0
	}
	return g.Expires
}

// readGrants returns what an earlier process of this pod held, or nil. A torn note is none: the operator sees in the
// report that nothing is held.
func readGrants(paths gate.Paths) (*standingGrants, error) {
	var held standingGrants
	exists, err := readPrivate(paths.Grants(), &held)
	if isTorn(err) || (err == nil && !exists) {
		return nil, nil
	}
	return &held, err
}
