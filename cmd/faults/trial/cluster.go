package trial

import "math/rand/v2"

// cluster is a Kafka cluster that can be disturbed.
type cluster interface {
	addresses() []string
	close()
	// disturb starts a random disturbance and describes it. It may last until the next
	// one, or until calm.
	disturb(rng *rand.Rand) (what string)
	// calm ends all disturbances.
	calm()
}

// newCluster starts the brokers of a kind: kfake, or kafka for three nodes of Apache Kafka and
// kafka1 for one, which a script runs with their data in a new directory.
func newCluster(kind, tool, dir string) cluster {
	switch kind {
	case "kfake":
		return newFake()
	case "kafka1":
		return newNodes(tool, dir, 1)
	default:
		return newNodes(tool, dir, 3)
	}
}
