package trial

import "math/rand/v2"

// Cluster is a Kafka cluster that can be disturbed.
type Cluster interface {
	Addresses() []string
	// Disturb starts a random disturbance and describes it. It may last until the next
	// one, or until Calm.
	Disturb(rng *rand.Rand) (what string, err error)
	// Calm ends all disturbances.
	Calm() error
	Close()
}
