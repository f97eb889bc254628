package base

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
)

// fetching is how many parts are fetched at a time.
const fetching = 4

// Fetch makes the base's files readable. From a folder they are read where they are, and compared with the hashes meanwhile. Of another
// store the parts are copied into a folder, and compared before: reading some thousand bytes here and there takes long where
// each request crosses a network.
func (b *Base) Fetch(ctx context.Context, dir string) error {
	if local, is := b.store.(folder); is {
		b.dir = string(local)
		return nil
	}
	chunks := make([][]chunk, len(b.parts)) // by part and offset
	for _, c := range b.chunks {
		chunks[c.part] = append(chunks[c.part], c)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetching)
	for i, p := range b.parts {
		g.Go(func() error {
			slices.SortFunc(chunks[i], func(x, y chunk) int { return cmp.Compare(x.offset, y.offset) })
			list := slices.CompactFunc(chunks[i], func(x, y chunk) bool { return x == y })
			if chunks[i] = nil; len(list) == 0 {
				return nil // it is not needed
			}
			return again(func() error { return b.fetch(ctx, dir, p, list) })
		})
	}
	b.dir, b.verified = dir, true
	return g.Wait()
}

// fetch copies a part whose chunks have their hashes. The file is removed before long, and need not be synced.
func (b *Base) fetch(ctx context.Context, dir string, p part, list []chunk) error {
	data, err := b.store.Get(ctx, p.Name, p.Bytes)
	if err != nil {
		return fmt.Errorf("its part %s: %w", p.Name, err)
	}
	if len(data) < int(list[0].offset) || !intact(data[list[0].offset:], list) {
		return fmt.Errorf("its part %s: %w", p.Name, errDamaged)
	}
	root, err := os.OpenRoot(dir) // the name is one of the store's
	if err != nil {
		return err
	}
	defer root.Close()
	return root.WriteFile(p.Name, data, 0o600)
}
