package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestSecureScripts runs the scripts of testdata/secure on a cluster that demands TLS, a
// client certificate and SASL, and allows each user only what docs/security.md lists. The
// prefix is "secured".
func TestSecureScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs gvbll as processes, which the race detector does not see")
	}
	t.Parallel()
	c := kafkatest.Secured(t)
	grant(t, c, "secured")
	password := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(password, []byte(kafkatest.Password+"\n"), 0o600))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/secure",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars,
				"CA="+c.Authority.File, "WRONG_CA="+kafkatest.NewAuthority(t).File, "CERT="+c.Cert, "KEY="+c.Key,
				"PASSWORD="+kafkatest.Password, "PASSWORD_FILE="+password,
				"GVBLL_LOG_LEVEL=debug", "GVBLL_BROKERS="+c.Addr, "GVBLL_PREFIX=secured",
				"GVBLL_TLS=true", "GVBLL_TLS_CA="+c.Authority.File, "GVBLL_TLS_CERT="+c.Cert, "GVBLL_TLS_KEY="+c.Key,
				"GVBLL_SASL_MECHANISM=plain", "GVBLL_SASL_PASSWORD_FILE="+password,
			)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"silent": silent,
			"until":  until,
			"allow": func(ts *testscript.TestScript, _ bool, args []string) { // USER Delete TOPIC
				c.Allow(t, args[0], kafkago.ResourceTypeTopic, args[2], kafkago.ACLOperationTypeDelete)
			},
			"purged": func(ts *testscript.TestScript, _ bool, args []string) { // TOPIC PROGRAM ARGUMENTS, which has windows come
				for end := time.Now().Add(time.Minute); c.First(t, args[0]) == 0; {
					if err := ts.Exec(args[1], args[2:]...); err != nil || time.Now().After(end) {
						ts.Fatalf("%s begins at offset 0: %v", args[0], err)
					}
				}
			},
		},
	})
}

// grant gives each user the permissions that docs/security.md lists, but for those that are optional.
func grant(t *testing.T, c *kafkatest.Cluster, prefix string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "| user | resource | operations |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	names := regexp.MustCompile("(transactional id|group|topics?)?,? ?`gvbll([a-z.-]+)`")
	words := map[string]kafkago.ACLOperationType{
		"Read": kafkago.ACLOperationTypeRead, "Write": kafkago.ACLOperationTypeWrite, "Create": kafkago.ACLOperationTypeCreate,
		"Describe": kafkago.ACLOperationTypeDescribe,
	}
	user, granted := "", make(map[string]int)
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if name := strings.Fields(cells[1]); len(name) > 0 && !strings.HasPrefix(name[0], "-") {
			user = name[0]
		}
		var operations []kafkago.ACLOperationType
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(cells[3], -1) {
			if operation, is := words[word]; is && !strings.Contains(cells[3], "optional") {
				operations = append(operations, operation)
			}
		}
		kind := kafkago.ResourceTypeTopic
		for _, m := range names.FindAllStringSubmatch(cells[2], -1) {
			switch m[1] {
			case "transactional id":
				kind = kafkago.ResourceTypeTransactionalID
			case "group":
				kind = kafkago.ResourceTypeGroup
			}
			if len(operations) > 0 {
				c.Allow(t, user, kind, prefix+m[2], operations...)
				granted[user]++
			}
		}
	}
	for _, user := range kafkatest.Users {
		if granted[user] == 0 {
			t.Errorf("docs/security.md grants %s nothing", user)
		}
	}
}

// TestTokensThatExpire: 200 nodes a second are served while brokers end every connection after two
// seconds, and the worker's token expires. From then on it is refused, until the file has another. No
// arrival is lost, none is predicted twice, an audit agrees, and no token is in any output.
func TestTokensThatExpire(t *testing.T) {
	kafkatest.Tokens(t, 2*time.Second, func(t *testing.T, k *kafkatest.Kafka) { testTokensThatExpire(t, shellOn(t, k)) })
}

func testTokensThatExpire(t *testing.T, sh *shell) {
	const nodes = 3000
	data := generated(t, "--nodes", fmt.Sprint(nodes), "--steps", "10")
	model := trained(t, data, "--epochs", "2", "--hidden", "8", "--embedding", "4")
	dir := t.TempDir()
	var tokens []string
	write := func(name string, d time.Duration) (file string) {
		file = filepath.Join(dir, name)
		tokens = append(tokens, kafkatest.Token(d))
		must(t, os.WriteFile(file+".new", []byte(tokens[len(tokens)-1]+"\n"), 0o600))
		must(t, os.Rename(file+".new", file))
		return file
	}
	sh.login = kafka.TokenFile(write("ours", time.Hour))
	sh.setenv("GVBLL_SASL_MECHANISM", "oauthbearer")
	sh.setenv("GVBLL_SASL_TOKEN_FILE", filepath.Join(dir, "ours"))
	sh.setenv("GVBLL_BROKERS", sh.addr)
	sh.setenv("GVBLL_LOG_LEVEL", "debug")
	out := sh.gvbll("topics", "--create")

	g := sh.graph("gvbll", 0)
	stop := g.work("--model", model, "--session-timeout", "6s", "--sasl-token-file", write("worker", 6*time.Second))
	sent := make(chan string, 1)
	go func() {
		_, stdout, stderr := sh.command("send", "--data", data, "--rate", "200", "--labels", "never")
		sent <- stdout + stderr
	}()
	kafkatest.Await(t, "the brokers refuse the worker's token", func() bool {
		return strings.Contains(g.log(), "the brokers refuse it")
	})
	write("worker", time.Hour)
	out += kafkatest.Receive(t, sent, "all nodes are sent")
	g.awaitTaken()
	stop()

	want, served := make(map[string]int), make(map[string]int)
	var d wire.Decoder
	must(t, g.client.ReadAll(t.Context(), g.names.Nodes, func(r *kafka.Record) {
		var node event.Node
		if why, detail := d.Node(&event.Origin{Value: r.Value}, &node); why != "" {
			t.Fatal(why, detail)
		}
		if !node.Context {
			want[string(r.Key)] = 1
		}
	}))
	must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) { served[string(r.Key)]++ }))
	if len(want) < 500 || !maps.Equal(served, want) {
		t.Errorf("%d nodes are predicted, want %d, each once", len(served), len(want))
	}
	out += g.log() + sh.gvbll("audit", "--model", model)
	if !strings.Contains(out, fmt.Sprintf("sent %d nodes", nodes)) {
		t.Errorf("not all is sent:\n%s", out)
	}
	for _, token := range tokens {
		if strings.Contains(out, strings.Split(token, ".")[1]) {
			t.Error("a token is in the output")
		}
	}
}

// until is a command of the scripts: it runs a program until it succeeds, for a minute at most.
func until(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(time.Minute); ts.Exec(args[0], args[1:]...) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("%v does not succeed within a minute", args)
		}
	}
}

// silent is a command of the scripts: it fails if the last command printed the password.
func silent(ts *testscript.TestScript, _ bool, _ []string) {
	for _, f := range []string{"stdout", "stderr"} {
		if strings.Contains(ts.ReadFile(f), kafkatest.Password) {
			ts.Fatalf("the password is in %s", f)
		}
	}
}
