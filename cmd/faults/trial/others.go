package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
)

// The users of clusters that demand a login: root may do all.
const (
	rootUser   = "root"
	workerUser = "worker"
	password   = "Tr0ub4dor-and-3"
)

// another starts a cluster of the same kind besides, of one node of Apache Kafka, with settings of its brokers. If they demand a login,
// clients are root.
func (s *Setup) another(ctx context.Context, login bool, settings map[string]string) *Setup {
	other := *s
	other.Dir = need(os.MkdirTemp(s.Dir, "another-"))
	if login {
		other.login = []kgo.Opt{kgo.SASL(plain.Auth{User: rootUser, Pass: password}.AsMechanism())}
		other.access = other.accessOf("plain", rootUser)
	}
	switch c := s.Cluster.(type) {
	case *fake:
		options := []kfake.Opt{kfake.BrokerConfigs(settings), kfake.ClusterID("another")}
		if login {
			options = append(options, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", rootUser, password))
		}
		other.Cluster = newFake(options...)
	case *nodes:
		var list []string
		clients := freeAddress()
		if login {
			list = loginSettings(clients)
		}
		for name, value := range settings {
			list = append(list, name+"="+value)
		}
		k := newNodes(c.tool, filepath.Join(other.Dir, "kafka"), 1, list...)
		if login {
			k.at = []string{clients}
		}
		other.Cluster = k
	}
	other.connect(ctx)
	return &other
}

// accessOf returns the flags by which a user logs in, with a password file of its own.
func (s *Setup) accessOf(mechanism, user string) []string {
	file := s.passwordFile(user)
	must(os.WriteFile(file, []byte(password), 0o600))
	return []string{"--sasl-mechanism", mechanism, "--sasl-user", user, "--sasl-password-file", file}
}

func (s *Setup) passwordFile(user string) string { return filepath.Join(s.Dir, user+".password") }

// loginSettings are those of a node that demands a login of clients, and none of itself: its own port, and then names and values.
func loginSettings(clients string) []string {
	itself, control := freeAddress(), freeAddress()
	return []string{
		strings.TrimPrefix(itself, "127.0.0.1:"),
		fmt.Sprintf("listeners=SASL_PLAINTEXT://%s,PLAINTEXT://%s,CONTROLLER://%s", clients, itself, control),
		fmt.Sprintf("advertised.listeners=SASL_PLAINTEXT://%s,PLAINTEXT://%s", clients, itself),
		"controller.quorum.voters=1@" + control,
		"listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
		fmt.Sprintf("listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "+
			"required user_%s=%q;", rootUser, password),
		"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:" + rootUser + ";User:ANONYMOUS",
	}
}

// secondCluster has a graph of the same prefix on another cluster write its bases into the same folder. Each finds its own again on an
// empty disk.
func secondCluster(ctx context.Context, v *served) {
	other := v.setup.another(ctx, false, nil)
	defer other.close()
	g := other.divided(ctx, v.prefix, topics.Layout{Partitions: partitions, Replication: -1})
	g.http = freeAddress()
	second := g.served(ctx)
	defer second.end()
	bases := filepath.Join(v.dir, "bases")
	both := []*served{v, second}
	for _, of := range both {
		of.setup.Bases = bases
		of.setup.Flags = append([]string{"--base", bases, "--base-every", "100ms,keep=1", "--purge"}, of.setup.Flags...)
		of.serve(ctx, 100)
	}
	for range 10 {
		for _, of := range both {
			of.more(ctx, 20)
			must(kafka.Sleep(ctx, 150*time.Millisecond))
		}
	}
	for _, of := range both {
		of.halt()
		must(os.RemoveAll(filepath.Join(of.dir, "a")))
		of.send(ctx, 50)
		of.worker = of.start("a", "", "--linger", "20ms")
		of.everyPrediction(ctx) // the ledger that is left begins at the base
		must(of.worker.stop())
		of.published(ctx, of.sent)
		must(of.audit(ctx))
	}
}

// shortTransactions serves where brokers allow transactions of seconds.
func shortTransactions(ctx context.Context, v *served) {
	other := v.setup.another(ctx, false, map[string]string{"transaction.max.timeout.ms": "10000"})
	defer other.close()
	short := other.newServed(ctx, "short")
	defer short.end()
	short.serve(ctx, 100)
	short.more(ctx, 100)
	short.finished(ctx)
}

// rightsTaken changes the worker's password, which is in its file some seconds later, while its connections are cut. Then a right is taken
// away for some seconds, and for good.
func rightsTaken(ctx context.Context, v *served) {
	other := v.setup.another(ctx, true, nil)
	defer other.close()
	s := other.newServed(ctx, "rights")
	defer s.end()
	s.http = freeAddress()
	s.setPassword(ctx, password)
	grant := kadm.NewACLs().Allow("User:" + workerUser).AllowHosts("*").Topics(s.prefix).Groups(s.prefix).TransactionalIDs(s.prefix)
	need(s.admin.CreateACLs(ctx, grant.Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternPrefixed)))
	other.Flags = append(other.accessOf("scram-sha-256", workerUser), other.Flags...)
	s.serve(ctx, 100)

	const changed = "c0rrect-h0rse"
	s.setPassword(ctx, changed)
	s.reconnect()
	s.send(ctx, 50)
	must(kafka.Sleep(ctx, 2*time.Second)) // of the ten that it tries for, some go by while a broker starts
	if closed(s.worker.ended) {
		fail("two seconds after its password was changed, the worker has ended: %s", s.worker.lastLine())
	}
	must(os.WriteFile(other.passwordFile(workerUser), []byte(changed), 0o600))
	s.predicted(ctx)

	deny := kadm.NewACLs().Deny("User:" + workerUser).DenyHosts("*").Topics(s.names.Predictions).Operations(kadm.OpWrite)
	deny.ResourcePatternType(kadm.ACLPatternLiteral)
	need(s.admin.CreateACLs(ctx, deny))
	s.send(ctx, 50)
	must(kafka.Sleep(ctx, 3*time.Second))
	need(s.admin.DeleteACLs(ctx, deny))
	s.predicted(ctx)
	need(s.admin.CreateACLs(ctx, deny))
	s.send(ctx, 50)
	s.worker.endsWith(ctx, workerUser, "no right to Write", s.names.Predictions)
	must(s.progress.close())
	need(s.admin.DeleteACLs(ctx, deny))
	s.begin(ctx)
	s.finished(ctx)
}

// setPassword gives the worker's user a password.
func (v *served) setPassword(ctx context.Context, to string) {
	must(need(v.admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{
		{User: workerUser, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: to},
	})).Error())
}

// reconnect has all clients connect anew.
func (v *served) reconnect() {
	switch c := v.setup.Cluster.(type) {
	case *fake:
		for rng := rand.New(rand.NewPCG(1, 6)); c.proxy.cut(rng) > 0; {
		}
	case *nodes:
		c.stop(0)
		c.start(0)
	}
}

// olderVolume has ledger and predictions come back as they were before, on Apache Kafka the nodes too, and group offsets. No worker goes
// on from a checkpoint beyond them, of which nodes would never be predicted. Without it, all that is sent again is predicted.
func olderVolume(ctx context.Context, v *served) {
	few := func() {
		v.begin(ctx)
		for range 5 {
			v.more(ctx, 20)
		}
		v.halt()
	}
	few()
	sent, before := v.sent, make(map[kafka.TopicPartition]int)
	back := []string{v.names.Ledger, v.names.Predictions}
	if _, ok := v.setup.Cluster.(*nodes); ok {
		back = append(back, v.names.Nodes)
	}
	count := func(add int, to map[kafka.TopicPartition]int) {
		for _, topic := range back {
			for _, r := range v.records(ctx, topic) {
				to[kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}] += add
			}
		}
	}
	count(-1, before)
	offsets := need(v.admin.FetchOffsets(ctx, v.names.Ledger)).Offsets()
	few()
	v.endTransactions(ctx)
	count(1, before) // what is lost
	v.lose(ctx, before)
	must(v.admin.CommitAllOffsets(ctx, v.names.Ledger, offsets))
	want := []string{"have no prediction", "move checkpoints beyond window"}
	v.refuses(ctx, want...)
	state := filepath.Join(v.dir, "a")
	err := v.gvbll(ctx, "rebase", "--accept-gap", "--model", v.setup.Model, "--state-dir", state)
	for _, text := range want {
		if err == nil || !strings.Contains(err.Error(), text) {
			fail("accept-gap ends with %w, which does not say %q", err, text)
		}
	}
	must(os.RemoveAll(state))
	if len(back) == 3 {
		v.sent = sent
		v.send(ctx, 100)
	}
	v.begin(ctx)
	v.more(ctx, 50)
	v.finished(ctx)
}

// namesFlood sends 1,500 nodes with 60 names of fields that nobody knows in each.
func namesFlood(ctx context.Context, v *served) {
	v.serve(ctx, 20)
	for i := range 1500 {
		body := bodyOf(fmt.Sprint("flood-", i), &v.setup.Items[i%len(v.setup.Items)].Node)
		for n := range 60 {
			body = fmt.Appendf(body[:len(body)-1], ",\"field-%d-%d\":1}", i, n)
		}
		v.out.put(v.names.Nodes, fmt.Appendf(nil, "flood-%d", i), body, -1)
	}
	v.out.send(ctx)
	v.progress.await(ctx, v.worker, "prediction of the flood", drainTimeout,
		func(sum totals) bool { return sum.predictions >= v.sent+1500 })
	_, page := get(ctx, v.http, "/metrics")
	const mostNames = 64
	if n := strings.Count(page, "\ngvbll_unknown_fields_total{"); n == 0 || n > mostNames+1 {
		fail("%d names of unknown fields have a series, want up to %d", n, mostNames+1)
	}
	if n := strings.Count(string(need(os.ReadFile(v.worker.log.Name()))), "level=WARN"); n > mostNames+10 {
		fail("the log has %d warnings", n)
	}
	v.halt()
	ids := numbered(v.sent)
	for i := range 1500 {
		ids = append(ids, event.ID{Str: fmt.Sprint("flood-", i)})
	}
	v.unharmed(ctx, ids, nil)
	must(v.audit(ctx))
}
