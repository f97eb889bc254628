package trial

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Kafka is one node of Apache Kafka or three, run by a script with the commands start DIR,
// start3 DIR, and start, stop and kill of a node's directory. Disturb kills or halts one
// node, so that leaders and coordinators move, and its next call brings the node back.
type Kafka struct {
	tool, dir string
	nodes     []string // their directories
	addresses []string
	down      string // directory of the node that is killed, "" for none
	halted    int    // process id of the node that is halted, 0 for none
}

// NewKafka starts one node or three, with their data in a new directory.
func NewKafka(tool, dir string, nodes int) (*Kafka, error) {
	k := &Kafka{tool: tool, dir: dir, nodes: []string{dir}}
	start := "start"
	if nodes > 1 {
		start, k.nodes = "start3", nil
		for n := range 3 {
			k.nodes = append(k.nodes, filepath.Join(dir, strconv.Itoa(n+1)))
		}
	}
	out, err := k.run(start, dir)
	if err != nil {
		return nil, err
	}
	k.addresses = strings.Split(strings.TrimSpace(out), ",")
	return k, nil
}

// run runs a command of the script and returns its output.
func (k *Kafka) run(args ...string) (string, error) {
	cmd := exec.Command(k.tool, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", k.tool, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// Addresses implements [Cluster].
func (k *Kafka) Addresses() []string { return k.addresses }

// Disturb implements [Cluster].
func (k *Kafka) Disturb(rng *rand.Rand) (string, error) {
	if k.down != "" || k.halted != 0 {
		return "the node is back", k.Calm()
	}
	node := k.nodes[rng.IntN(len(k.nodes))]
	if rng.IntN(2) == 0 {
		k.down = node
		_, err := k.run("kill", node)
		return "node " + filepath.Base(node) + " killed", err
	}
	b, err := os.ReadFile(filepath.Join(node, "pid"))
	if err != nil {
		return "", err
	}
	if k.halted, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
		return "", err
	}
	return "node " + filepath.Base(node) + " halted", syscall.Kill(k.halted, syscall.SIGSTOP)
}

// stop stops a node as an operator does, and waits until it has ended.
func (k *Kafka) stop(node int) error {
	_, err := k.run("stop", k.nodes[node])
	return err
}

// start starts a node that was stopped, and waits until it serves.
func (k *Kafka) start(node int) error {
	_, err := k.run("start", k.nodes[node])
	return err
}

// Calm implements [Cluster]. All nodes run afterwards.
func (k *Kafka) Calm() (err error) {
	if k.halted != 0 {
		err = syscall.Kill(k.halted, syscall.SIGCONT)
		k.halted = 0
	}
	if k.down != "" {
		_, e := k.run("start", k.down)
		k.down = ""
		err = errors.Join(err, e)
	}
	return err
}

// Close implements [Cluster].
func (k *Kafka) Close() {
	_ = k.Calm()
	_, _ = k.run("stop", k.dir)
}
