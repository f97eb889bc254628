package ledger

import "context"

// Records reads what is in each window of a ledger, forwards from its beginning.
type Records interface {
	// Next returns the record of the next window, nil if there is none yet.
	Next(ctx context.Context) (*Record, error)
}
