package intake

import (
	"cmp"

	"github.com/gvbll/gvbll/topics/registry"
	"github.com/gvbll/gvbll/topics/wire"
)

// framed is by which schema a record was read: by none while its number was not known.
type framed struct {
	id uint32
	by *registry.Reader
}

// unframe reads the payload of the block's i-th record by a schema, and notes which.
func (b *block[E]) unframe(i int, by *registry.Reader, id uint32, payload []byte) ([]byte, error) {
	if len(b.framed) == 0 {
		b.framed = resize(b.framed, len(b.events))
		clear(b.framed)
	}
	b.framed[i] = framed{id, by}
	return by.JSON(payload)
}

// Adopt keeps the schemas by which claimed records were read, which are new with their window, and asks for those that were
// not known when they were read.
func (in *Inputs) Adopt() {
	in.unasked = cmp.Or(in.unasked, in.Nodes.adopt(), in.Labels.adopt())
}

// Err returns an error if claimed records are not to be stepped, because the context ended before they could be read.
func (in *Inputs) Err() error { return in.unasked }

func (in *input[E]) adopt() error {
	for _, c := range in.store.claimed {
		for i := c.from; i < c.to && len(c.block.framed) > 0; i++ {
			f := &c.block.framed[i]
			if f.id == 0 || in.fetcher.source.schemas.Kept(f.id) != nil {
				continue
			}
			by := f.by
			if by == nil {
				var err error
				if by, err = in.fetcher.source.schemas.Find(f.id); err != nil {
					return err
				}
			}
			if by != nil {
				in.fetcher.source.schemas.Adopt(by)
			}
		}
	}
	return nil
}

// settle reads a record again if it was read by another schema than the one that is kept, or if none is.
func (in *input[E]) settle(b *block[E], i int) {
	if len(b.framed) == 0 || b.framed[i].id == 0 {
		return
	}
	kept := in.fetcher.source.schemas.Kept(b.framed[i].id)
	if kept == b.framed[i].by {
		return
	}
	src := &in.fetcher.source
	d := wire.Decoder{Limits: src.limits, Map: src.mapped, First: src.first}
	d.Frames = func(id uint32, payload []byte) ([]byte, error) { return b.unframe(i, kept, id, payload) }
	b.refused[i].reason, b.refused[i].detail = src.decode(&d, &b.origins[i], &b.events[i])
}
