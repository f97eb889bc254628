package look

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Member is a worker of a graph, as others see it. What it says of itself may be missing.
type Member struct {
	Host    string `json:"host"` // by its own name, or the address that the broker sees
	Version string `json:"version,omitempty"`
	HTTP    string `json:"http,omitempty"`   // address of its page
	Model   string `json:"model,omitempty"`  // that it was started with to serve
	Shadow  string `json:"shadow,omitempty"` // and in the shadow

	Owner         bool    `json:"-"`
	owns, follows []int32 // cells
	foreign       string  // what it is if it is no worker
}

// Where names the worker by its page, or else its host.
func (m *Member) Where() string { return cmp.Or(m.HTTP, m.Host) }

// MembersOf returns the workers of a graph, or those that have its cell, the owner first.
func MembersOf(ctx context.Context, client *kafka.Client, names topics.Names) ([]Member, error) {
	members, err := allMembers(ctx, client, names)
	if names.Cells > 0 {
		members = ofCell(members, names.Cell)
	}
	return members, err
}

// allMembers returns all workers of the group.
func allMembers(ctx context.Context, client *kafka.Client, names topics.Names) ([]Member, error) {
	found, err := client.Members(ctx, names.Ledger, names.Ledger)
	if err != nil {
		return nil, err
	}
	var members []Member
	for _, f := range found {
		var m Member
		_ = json.Unmarshal([]byte(f.About), &m) // any program may join the group
		m.Host, m.Owner, m.owns, m.follows = cmp.Or(m.Host, f.Host), f.Owner, f.Owns, f.Follows
		if f.About == "" {
			m.foreign = fmt.Sprintf("client %.100q at %s", f.Client, f.Host)
		}
		members = append(members, m)
	}
	sortMembers(members)
	return members, nil
}

// ofCell returns those of the workers of a graph that have a cell, the owner first.
func ofCell(all []Member, cell int32) (members []Member) {
	for _, m := range all {
		m.Owner = slices.Contains(m.owns, cell)
		if m.Owner || slices.Contains(m.follows, cell) {
			members = append(members, m)
		}
	}
	sortMembers(members)
	return members
}

func sortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		switch {
		case a.Owner:
			return -1
		case b.Owner:
			return 1
		}
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.HTTP, b.HTTP))
	})
}

// ShadowIn returns the model in the shadow of the one that serves after the ledger's last
// record, "" for none. The record has it if it has stepped a window; else the owner says
// which models it was started with.
func ShadowIn(ctx context.Context, client *kafka.Client, names topics.Names, last *ledger.Record) (string, error) {
	switch {
	case last.Promoted != "": // the two have changed places
		return last.Model, nil
	case last.Shadow != nil:
		return last.Shadow.Model, nil
	}
	members, err := MembersOf(ctx, client, names)
	if err != nil || len(members) == 0 || !members[0].Owner {
		return "", err
	}
	owner := &members[0]
	if owner.Shadow == last.Serves() {
		return owner.Model, nil
	}
	return owner.Shadow, nil
}

// TrialOf returns a trial as the page and 'gvbll status' show it, nil for none. shadow is the
// id of the model that was in the shadow in the same window, "" for none.
func TrialOf(t *ledger.Trial, shadow string) *page.Trial {
	if t == nil {
		return nil
	}
	rule, _ := event.ParseRule(t.Rule) // the ledger's, which was read before
	return &page.Trial{Model: t.Model, Loaded: shadow == t.Model, Labels: t.Labels, Lead: t.Lead, After: rule.After}
}
