package trial

import (
	"fmt"
	"math/rand/v2"
)

// Cluster is a Kafka cluster that can be disturbed.
type Cluster interface {
	Addresses() []string
	Close()
	// disturb starts a random disturbance and describes it. It may last until the next
	// one, or until calm.
	disturb(rng *rand.Rand) (what string)
	// calm ends all disturbances.
	calm()
}

// NewCluster starts the brokers of a kind: kfake, or kafka for three nodes of Apache Kafka and
// kafka1 for one, which a script runs with their data in a new directory.
func NewCluster(kind, tool, dir string) (c Cluster, err error) {
	defer catch(&err)
	switch kind {
	case "kfake":
		return newFake(), nil
	case "kafka":
		return newNodes(tool, dir, 3), nil
	case "kafka1":
		return newNodes(tool, dir, 1), nil
	}
	return nil, fmt.Errorf("there is no cluster %q", kind)
}
