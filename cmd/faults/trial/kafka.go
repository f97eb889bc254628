package trial

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// nodes is one node of Apache Kafka or three, run by a script with the commands start DIR,
// start3 DIR, and start, stop and kill of a node's directory. disturb kills or halts one
// node, so that leaders and coordinators move, and its next call brings the node back.
type nodes struct {
	tool, dir string
	each      []string // their directories
	at        []string // their addresses
	down      string   // directory of the node that is killed, "" for none
	halted    int      // process id of the node that is halted, 0 for none
}

// newNodes starts one node or three, with their data in a new directory, and settings of the brokers.
func newNodes(tool, dir string, n int, settings ...string) *nodes {
	k := &nodes{tool: tool, dir: dir, each: []string{dir}}
	start := "start"
	if n > 1 {
		start, k.each = "start3", nil
		for i := range 3 {
			k.each = append(k.each, filepath.Join(dir, strconv.Itoa(i+1)))
		}
	}
	k.at = strings.Split(strings.TrimSpace(k.run(append([]string{start, dir}, settings...)...)), ",")
	return k
}

// run runs a command of the script and returns its output.
func (k *nodes) run(args ...string) string {
	cmd := exec.Command(k.tool, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		fail("%s %s: %w: %s", k.tool, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func (k *nodes) addresses() []string { return k.at }

func (k *nodes) disturb(rng *rand.Rand) string {
	if k.down != "" || k.halted != 0 {
		k.calm()
		return "the node is back"
	}
	node := k.each[rng.IntN(len(k.each))]
	if rng.IntN(2) == 0 {
		k.down = node
		k.run("kill", node)
		return "node " + filepath.Base(node) + " killed"
	}
	b := need(os.ReadFile(filepath.Join(node, "pid")))
	k.halted = need(strconv.Atoi(strings.TrimSpace(string(b))))
	must(syscall.Kill(k.halted, syscall.SIGSTOP))
	return "node " + filepath.Base(node) + " halted"
}

// stop stops a node as an operator does, and waits until it has ended.
func (k *nodes) stop(node int) { k.run("stop", k.each[node]) }

// start starts a node that was stopped, and waits until it serves.
func (k *nodes) start(node int) { k.run("start", k.each[node]) }

func (k *nodes) calm() {
	if pid := k.halted; pid != 0 {
		k.halted = 0
		must(syscall.Kill(pid, syscall.SIGCONT))
	}
	if node := k.down; node != "" {
		k.down = ""
		k.run("start", node)
	}
}

func (k *nodes) close() {
	_ = caught(k.calm)
	_ = caught(func() { k.run("stop", k.dir) })
	for _, node := range k.each { // what has not ended in time would go on writing what is removed now
		_ = caught(func() { k.run("kill", node) })
	}
}
