package main

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"slices"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
)

// member is a worker of a graph, as others see it. What it says of itself may be missing:
// older programs say nothing.
type member struct {
	Host    string `json:"host"` // by its own name, or the address that the broker sees
	Version string `json:"version,omitempty"`
	HTTP    string `json:"http,omitempty"`   // address of its page
	Model   string `json:"model,omitempty"`  // that it was started with to serve
	Shadow  string `json:"shadow,omitempty"` // and in the shadow
	owner   bool
}

// about returns what this worker says of itself to the others.
func (s *service) about() string {
	m := member{Version: versionString(), Model: s.models[0].ID, Shadow: shadowOf(s.models)}
	m.Host, _ = os.Hostname() // without one, the broker knows the address
	if s.web != nil {
		m.HTTP = s.web.url()
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings only
	}
	return string(b)
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
		m.Host, m.owner = cmp.Or(m.Host, f.Host), len(f.Owns) > 0
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
