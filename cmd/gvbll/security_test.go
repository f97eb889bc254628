package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"silent": silent},
	})
}

// grant gives each user the permissions that docs/security.md lists.
func grant(t *testing.T, c *kafkatest.Cluster, prefix string) {
	t.Helper()
	const (
		topic = kafkago.ResourceTypeTopic
		read  = kafkago.ACLOperationTypeRead
		write = kafkago.ACLOperationTypeWrite
	)
	for _, name := range []string{".nodes", ".labels", ".commands", ".predictions", ".dead-letters", ".ledger"} {
		c.Allow(t, "owner", topic, prefix+name, kafkago.ACLOperationTypeCreate, kafkago.ACLOperationTypeDescribe)
	}
	for _, name := range []string{".nodes", ".labels"} {
		c.Allow(t, "worker", topic, prefix+name, read)
		c.Allow(t, "sender", topic, prefix+name, read, write)
	}
	c.Allow(t, "worker", topic, prefix+".commands", read)
	c.Allow(t, "worker", topic, prefix+".predictions", write)
	c.Allow(t, "worker", topic, prefix+".dead-letters", write)
	c.Allow(t, "worker", topic, prefix+".ledger", read, write)
	c.Allow(t, "worker", kafkago.ResourceTypeTransactionalID, prefix+".ledger", write)
	c.Allow(t, "worker", kafkago.ResourceTypeGroup, prefix+".ledger", read)
	c.Allow(t, "sender", topic, prefix+".predictions", read)
	c.Allow(t, "reader", topic, prefix+".*", read)
}

// silent is a command of the scripts: it fails if the last command printed the password.
func silent(ts *testscript.TestScript, _ bool, _ []string) {
	for _, f := range []string{"stdout", "stderr"} {
		if strings.Contains(ts.ReadFile(f), kafkatest.Password) {
			ts.Fatalf("the password is in %s", f)
		}
	}
}
