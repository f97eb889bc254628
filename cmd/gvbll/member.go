package main

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// member is a worker of a graph, as others see it. What it says of itself may be missing.
type member struct {
	Host    string `json:"host"` // by its own name, or the address that the broker sees
	Version string `json:"version,omitempty"`
	HTTP    string `json:"http,omitempty"`   // address of its page
	Model   string `json:"model,omitempty"`  // that it was started with to serve
	Shadow  string `json:"shadow,omitempty"` // and in the shadow
	Tasks   []int  `json:"tasks,omitempty"`  // that it owns, of a sharded graph's

	owner     bool             // of the graph, or of its lead
	standings []kafka.Standing // in each task
}

// where names the worker by its page, or else its host.
func (m *member) where() string { return cmp.Or(m.HTTP, m.Host) }

// standsBy reports whether the worker has stepped windows of a task that it does not own.
func (m *member) standsBy(task int) bool {
	return task < len(m.standings) && !m.standings[task].Owner && m.standings[task].Progress > 0
}

// membersOf returns the workers of a graph, the owner first.
func membersOf(ctx context.Context, client *kafka.Client, names topics.Names) ([]member, error) {
	found, err := client.Members(ctx, names.Ledger, names.Ledger)
	if err != nil {
		return nil, err
	}
	members := make([]member, len(found))
	for i, f := range found {
		m := &members[i]
		_ = json.Unmarshal([]byte(f.About), m) // any program may join the group
		m.Host, m.owner, m.standings = cmp.Or(m.Host, f.Host), slices.Contains(f.Owns, 0), f.Standings
		if len(f.Standings) > 1 {
			m.Tasks = f.Owns
		}
	}
	slices.SortFunc(members, func(a, b member) int {
		switch {
		case a.owner:
			return -1
		case b.owner:
			return 1
		}
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.HTTP, b.HTTP))
	})
	return members, nil
}

// shadowIn returns the model in the shadow of the one that serves after the ledger's last
// record, "" for none. The record has it if it has stepped a window; else the owner says
// which models it was started with.
func shadowIn(ctx context.Context, client *kafka.Client, names topics.Names, last *ledger.Record) (string, error) {
	switch {
	case last.Promoted != "": // the two have changed places
		return last.Model, nil
	case last.Shadow != nil:
		return last.Shadow.Model, nil
	}
	members, err := membersOf(ctx, client, names)
	if err != nil || len(members) == 0 || !members[0].owner {
		return "", err
	}
	owner := &members[0]
	if owner.Shadow == last.Serves() {
		return owner.Model, nil
	}
	return owner.Shadow, nil
}

// trialOf returns a trial as the page and 'gvbll status' show it, nil for none. shadow is the
// id of the model that was in the shadow in the same window, "" for none.
func trialOf(t *ledger.Trial, shadow string) *page.Trial {
	if t == nil {
		return nil
	}
	rule, _ := event.ParseRule(t.Rule) // the ledger's, which was read before
	return &page.Trial{Model: t.Model, Loaded: shadow == t.Model, Labels: t.Labels, Lead: t.Lead, After: rule.After}
}
