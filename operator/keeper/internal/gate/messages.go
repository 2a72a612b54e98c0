package gate

import (
	"encoding/json"
	"time"
)

// Bounds of the files, so that nobody can make a reader swallow more.
const (
	wordLimit   = 256 << 10
	ordersLimit = 4 << 10
	hintLimit   = 4 << 10
	textLimit   = 1 << 10
)

// States of the agent as init tells them.
const (
	Unknown = "Unknown"
	Waiting = "Waiting"
	Running = "Running"
	Ended   = "Ended"
)

// Word is what opens the gate: the agent's command, its whole environment, and the challenge of the init it is for.
type Word struct {
	Challenge  string            `json:"challenge"`
	Argv       []string          `json:"argv"`
	Env        map[string]string `json:"env"`
	WorkingDir string            `json:"workingDir"`
}

// Orders is what the keeper wants of a running init. It names every challenge that it is for: the one that the hint
// tells, and the one that the gate was opened for, so that an agent that forges the hint does not escape its end.
type Orders struct {
	Challenges []string `json:"challenges"`
	End        *End     `json:"end,omitempty"`
	Freeze     bool     `json:"freeze"` // a level: it holds until an order says otherwise; an end overrides it
}

// End orders the agent's end.
type End struct {
	GraceSeconds int `json:"graceSeconds"`
}

// Hint is what init says of itself. The agent has init's uid and may have forged it.
type Hint struct {
	Challenge string `json:"challenge"`
	State     string `json:"state"`
	ExitCode  int    `json:"exitCode"`
	Message   string `json:"message,omitempty"`
	Frozen    bool   `json:"frozen,omitempty"` // everybody was seen to be stopped
}

// ReadWord returns the word that stands at path.
func ReadWord(path string) (Word, error) {
	var word Word
	err := readJSON(path, wordLimit, &word)
	return word, err
}

// ReadOrders returns the orders that stand at path.
func ReadOrders(path string) (Orders, error) {
	var orders Orders
	err := readJSON(path, ordersLimit, &orders)
	return orders, err
}

// ReadHint returns the hint that stands at path, when it is one that an honest init could have written.
func ReadHint(path string) (Hint, error) {
	var hint Hint
	if err := readJSON(path, hintLimit, &hint); err != nil {
		return Hint{}, err
	}
	known := hint.State == Waiting || hint.State == Running || hint.State == Ended
	if !known || !isChallenge(hint.Challenge) || hint.ExitCode < 0 || hint.ExitCode > 255 {
		return Hint{}, ErrNotPlain
	}
	hint.Message = Shorten(hint.Message)
	return hint, nil
}

func readJSON(path string, limit int64, into any) error {
	content, err := ReadPlain(path, limit)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

func isChallenge(text string) bool {
	if len(text) != 32 {
		return false
	}
	for _, digit := range []byte(text) {
		if (digit < '0' || digit > '9') && (digit < 'a' || digit > 'f') {
			return false
		}
	}
	return true
}

// Shorten bounds a text for a person.
func Shorten(text string) string {
	if len(text) <= textLimit {
		return text
	}
	return text[:textLimit] + "…"
}

// PollEvery says how long to wait before looking at a file again: often while a pod starts, then seldom.
func PollEvery(since time.Time) time.Duration {
	if time.Since(since) < 2*time.Second {
		return 10 * time.Millisecond
	}
	return 50 * time.Millisecond
}
