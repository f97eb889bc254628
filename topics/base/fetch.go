package base

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
)

// fetching is how many parts are fetched at a time.
const fetching = 4

// Fetch copies the base's parts into a folder, from which it is read then, unless they are in one already: reading some
// thousand bytes here and there takes long where each request crosses a network.
func (b *Base) Fetch(ctx context.Context, dir string) error {
	from := b.store
	if _, local := from.(folder); local {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	to, parts := folder(dir), make(chan part)
	var running sync.WaitGroup
	for range fetching {
		running.Go(func() {
			for p := range parts {
				if err := again(func() error { return fetch(ctx, from, to, p) }); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, p := range b.parts {
		select {
		case parts <- p:
		case <-ctx.Done():
		}
	}
	close(parts)
	running.Wait()
	b.store = to
	return context.Cause(ctx)
}

// fetch copies a part, which must have the hash that its name says.
func fetch(ctx context.Context, from Store, to folder, p part) error {
	data, err := from.Get(ctx, p.Name, 0, -1)
	if err != nil {
		return fmt.Errorf("its part %s: %w", p.Name, err)
	}
	all := sha256.Sum256(data)
	if int64(len(data)) != p.Bytes || !strings.HasSuffix(p.Name, fmt.Sprintf("-%x", all[:16])) {
		return fmt.Errorf("its part %s: %w", p.Name, errDamaged)
	}
	return to.Put(ctx, p.Name, data)
}
