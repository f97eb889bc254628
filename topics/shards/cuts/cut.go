// Package cuts is the chain of cuts of a sharded graph, in the ledger's partition 0: which records
// are in each window, before any shard has stepped it. Beside them is what was learned of a
// window, for people.
package cuts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/topics/ledger"
)

// CutFormat is the format of the cuts in partition 0 of a sharded graph's ledger. No [ledger.Record] has
// it, so that neither is taken for the other: the two share one sequence of numbers.
const CutFormat = 2

// Cut says which records are in a window of a sharded graph, before any shard has stepped it.
// Each shard writes a [ledger.Record] when it is done with the window, into its own partition.
//
// Cuts form a chain: each has the hash of the one before. Several sequencers may have written a
// cut of one window, for nothing fences them. The first in the log that continues the chain
// counts, see [Cuts].
type Cut struct {
	Version int            `json:"v"`
	Epoch   int64          `json:"epoch,omitempty"`
	Window  int64          `json:"window"`
	Cause   string         `json:"cause"`
	Ranges  []ledger.Range `json:"ranges"`
	Model   string         `json:"model"`
	// Prev is the hash of the cut before, empty in the cut of window 0.
	Prev string `json:"prev"`
	// Since is the window that began the epoch.
	Since int64 `json:"since,omitempty"`
	ledger.Terms
	// Graph is random, in the cut that begins a ledger: what another ledger's tasks have sent
	// each other, after cuts that were otherwise the same, is not of this graph.
	Graph string `json:"graph,omitempty"`
	// Forgets says that the window's commands to forget nodes are obeyed: the next cut begins
	// an epoch in which these nodes never were. Without it the shards refuse the commands.
	Forgets bool `json:"forgets,omitempty"`
	// Exchange is, in the cut that begins an epoch behind another, the end of each partition
	// of the exchange: whatever is sent in the epoch is behind it.
	Exchange []int64 `json:"exchange,omitempty"`
	// Done is how far all shards were done when the window was cut, nil if none was known.
	Done *Complete `json:"done,omitempty"`

	// Hash is the SHA-256 of the cut as it is in the log, and Written the record's own
	// timestamp. Both are set once it is read.
	Hash    string    `json:"-"`
	Written time.Time `json:"-"`
}

// Complete is a window that every shard has committed, and the chain of the whole graph.
type Complete struct {
	Window int64  `json:"window"`
	Chain  string `json:"chain"` // see [event.Hash.Join]
}

// Append appends the cut's JSON to dst.
func (c *Cut) Append(dst []byte) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and whole numbers only
	}
	return append(dst, b...)
}

// Record returns the record of the window as far as the cut determines it.
func (c *Cut) Record() *ledger.Record {
	return &ledger.Record{
		Version: ledger.Version, Epoch: c.Epoch, Window: c.Window, Cause: c.Cause, Ranges: c.Ranges, Model: c.Model,
		Terms: c.Terms, Forgets: c.Forgets,
	}
}

// DecodeCut reads one cut and checks what a reader relies on.
func DecodeCut(b []byte) (*Cut, error) {
	if len(b) > ledger.MaxRecord {
		return nil, fmt.Errorf("cut of %d bytes, at most %d are read", len(b), ledger.MaxRecord)
	}
	var c Cut
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("cut: %.200w", err) // it quotes the record
	}
	if c.Version != CutFormat {
		return nil, fmt.Errorf("cut of format %d, this program reads format %d", c.Version, CutFormat)
	}
	if err := c.Record().Check(); err != nil {
		return nil, err
	}
	if c.Window == 0 && c.Prev != "" || c.Window > 0 && !isHash(c.Prev) {
		return nil, fmt.Errorf("cut of window %d: %.80q is not the hash of a cut before it", c.Window, c.Prev)
	}
	if c.Since < 0 || c.Since > c.Window || c.Epoch == 0 && c.Since > 0 || c.Epoch > 0 && (c.Begins != nil) != (c.Since == c.Window) {
		return nil, fmt.Errorf("cut of window %d: epoch %d did not begin with window %d", c.Window, c.Epoch, c.Since)
	}
	if slices.ContainsFunc(c.Exchange, func(offset int64) bool { return offset < 0 }) {
		return nil, fmt.Errorf("cut of window %d: the exchange ends at %v", c.Window, c.Exchange)
	}
	if d := c.Done; d != nil && (d.Window < 0 || d.Window >= c.Window || !isHash(d.Chain)) {
		return nil, fmt.Errorf("cut of window %d: it says that window %d is done with chain %.80q", c.Window, d.Window, d.Chain)
	}
	c.Hash = hashOf(b)
	return &c, nil
}

// hashOf returns a cut's hash from its bytes in the log.
func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// isHash reports whether s is a SHA-256 in lower-case hexadecimal digits.
func isHash(s string) bool {
	h, err := hex.DecodeString(s)
	return err == nil && len(h) == sha256.Size && hex.EncodeToString(h) == s
}
