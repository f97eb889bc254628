package base

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Owner is the ledger that a store is of: it alone writes and deletes there. Others may read. Two ledgers of one name, of
// two clusters or one after the other, have other ids.
type Owner struct {
	Cluster string `json:"cluster"` // its id
	Topic   string `json:"topic"`   // the ledger's id, "" of brokers that give none
	Ledger  string `json:"ledger"`  // for people
}

func (o Owner) String() string {
	return fmt.Sprintf("ledger %.100q of cluster %.100q, topic %.100q", o.Ledger, o.Cluster, o.Topic)
}

// ownerObject is the name of the object that says who owns a store. Stores of 1.0.0 have none.
const (
	ownerObject = "owner"
	maxOwner    = 4096
)

// OwnerOf returns who owns a store, nil if nothing says so.
func OwnerOf(ctx context.Context, s Store) (o *Owner, err error) {
	err = again(func() error {
		b, err := s.Get(ctx, ownerObject, maxOwner)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && json.Unmarshal(b, &o) != nil {
			err = fmt.Errorf("%s in %v: %w", ownerObject, s, errDamaged)
		}
		return err
	})
	return o, err
}

// Own makes o the owner of a store.
func (o Owner) Own(ctx context.Context, s Store) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return s.Put(ctx, ownerObject, append(b, '\n'))
}

// Home returns the store in which o writes its bases, and its name beside the given one, "" for that: the given one if o owns it, or
// nobody does and no base is there but those that mine names; or else one for o alone.
func (o Owner) Home(ctx context.Context, s Store, mine []Name) (home Store, name string, err error) {
	owner, err := OwnerOf(ctx, s)
	if err != nil {
		return nil, "", err
	}
	if owner == nil {
		objects, err := s.List(ctx)
		if err != nil {
			return nil, "", err
		}
		strange := func(object string) bool { return new(Name).UnmarshalText([]byte(object)) == nil }
		there := func(n Name) bool { return slices.Contains(objects, n.String()) }
		if !slices.ContainsFunc(objects, strange) || slices.ContainsFunc(mine, there) {
			return s, "", o.Own(ctx, s)
		}
	} else if *owner == o {
		return s, "", nil
	}
	name = o.Ledger + "-" + o.Cluster + "-" + o.Topic
	home = s.Beside(name)
	return home, name, o.Own(ctx, home)
}

// Whole is Find of a base whose parts must be there, too. What they contain is not read.
func Whole(ctx context.Context, s Store, name Name) (*Base, error) {
	b, err := Find(ctx, s, name)
	if err != nil {
		return nil, err
	}
	objects, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range b.parts {
		if _, there := slices.BinarySearch(objects, p.Name); !there {
			return nil, fmt.Errorf("its part %s: %w", p.Name, errMissing)
		}
	}
	return b, nil
}
