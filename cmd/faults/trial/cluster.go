package trial

import "math/rand/v2"

// Cluster is a Kafka cluster that can be disturbed.
type Cluster interface {
	Addresses() []string
	// Disturb disturbs the cluster, and says how. The disturbance may go on.
	Disturb(rng *rand.Rand) (what string, err error)
	// Calm ends disturbances that go on.
	Calm() error
	Close()
}
