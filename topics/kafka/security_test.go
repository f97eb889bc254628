package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// secureConfig returns the configuration with which the user connects to the cluster.
func secureConfig(t *testing.T, c *kafkatest.Cluster, mechanism, user string) Config {
	t.Helper()
	cfg := Config{Brokers: []string{c.Addr}, Logger: slog.New(slog.DiscardHandler)}
	var err error
	if cfg.TLS, err = (TLSFiles{CA: c.Authority.File, Cert: c.Cert, Key: c.Key}).Config(); err != nil {
		t.Fatal(err)
	}
	if cfg.SASL, err = SASL(mechanism, user, always(kafkatest.Password)); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestSecure connects to a cluster that requires TLS, a client certificate and SASL, with
// every mechanism.
func TestSecure(t *testing.T) {
	t.Parallel()
	c := kafkatest.Secured(t)
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			connect(t, secureConfig(t, c, mechanism, kafkatest.Users[0]))
		})
	}
	t.Run("transactions", func(t *testing.T) {
		testGroupOffsets(t, connect(t, secureConfig(t, c, "plain", kafkatest.Admin)))
	})
	t.Run("group member", func(t *testing.T) { testGroupMember(t, c) })
	t.Run("refused", func(t *testing.T) { testRefusedClients(t, c) })
	t.Run("rights", func(t *testing.T) { testRights(t, c) })
}

// testRights: a client learns before it writes that it may not. A right that is taken away is waited for, and then the error names who
// lacks which right on which topic.
func testRights(t *testing.T, cluster *kafkatest.Cluster) {
	user := kafkatest.Users[2]
	cfg := secureConfig(t, cluster, "plain", user)
	cfg.Principal, cfg.DialFor = user, 2*time.Second
	c, admin := connect(t, cfg), connect(t, secureConfig(t, cluster, "plain", kafkatest.Admin))
	name := topic(t, admin, 1)
	allow := func() { cluster.Allow(t, user, kafkago.ResourceTypeTopic, name, kafkago.ACLOperationTypeWrite) }
	want := []string{user + " has no right to Write on topic " + name}
	cluster.Allow(t, user, kafkago.ResourceTypeTopic, name, kafkago.ACLOperationTypeRead)
	checkErrorLine(t, c.MayWrite(t.Context(), name), want...)
	allow()
	if err := c.MayWrite(t.Context(), name); err != nil {
		t.Error(err)
	}
	p, err := c.NewProducer(t.Context(), ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	send := func() error { return p.Send(t.Context(), []Record{{Topic: name, Value: []byte("x")}}) }
	if err := send(); err != nil {
		t.Fatal(err)
	}
	take := func() {
		res, err := admin.client.DeleteACLs(t.Context(), &kafkago.DeleteACLsRequest{Filters: []kafkago.DeleteACLsFilter{{
			ResourceTypeFilter: kafkago.ResourceTypeTopic, ResourceNameFilter: name, ResourcePatternTypeFilter: kafkago.PatternTypeLiteral,
			PrincipalFilter: "User:" + user, HostFilter: "*", Operation: kafkago.ACLOperationTypeWrite, PermissionType: kafkago.ACLPermissionTypeAllow,
		}}})
		if err != nil || len(res.Results) != 1 || len(res.Results[0].MatchingACLs) != 1 {
			t.Fatal(res, err)
		}
	}
	take()
	back := time.AfterFunc(500*time.Millisecond, allow)
	defer back.Stop()
	if err := send(); err != nil {
		t.Errorf("while the right is away for a moment: %v", err)
	}
	take()
	checkErrorLine(t, send(), want...)
	_, err = c.NewProducer(t.Context(), ProducerConfig{TransactionalID: name})
	checkErrorLine(t, err, user+" has no right to Write on transactional id "+name)
	cluster.Allow(t, user, kafkago.ResourceTypeTransactionalID, name, kafkago.ACLOperationTypeWrite)
	transactional, err := c.NewProducer(t.Context(), ProducerConfig{TransactionalID: name, RetryFor: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	checkErrorLine(t, transactional.Commit(t.Context(), []Record{{Topic: name, Value: []byte("x")}}, "", nil), want...)
	allow()
	if transactional, err = c.NewProducer(t.Context(), ProducerConfig{TransactionalID: name, RetryFor: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	checkErrorLine(t, transactional.Commit(t.Context(), []Record{{Topic: name, Value: []byte("x")}}, "g",
		map[TopicPartition]int64{{name, 0}: 1}), user+" has no right to Read on group g")
}

// TestExpiredCertificate: that a certificate has expired is not the fault of the file of authorities.
func TestExpiredCertificate(t *testing.T) {
	of := func(reason x509.InvalidReason) error {
		return untrusted(&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: reason}})
	}
	checkErrorLine(t, of(x509.Expired), "it has expired, or a clock is wrong")
	checkErrorLine(t, of(x509.NotAuthorizedToSign), "check the file of certificate authorities")
}

// testGroupMember: kafka-go's ConsumerGroup gets TLS and SASL from Dialer, because it makes
// its own connections.
func testGroupMember(t *testing.T, cluster *kafkatest.Cluster) {
	for _, mechanism := range []string{"plain", "scram-sha-512"} {
		c := connect(t, secureConfig(t, cluster, mechanism, kafkatest.Users[0]))
		admin := connect(t, secureConfig(t, cluster, "plain", kafkatest.Admin))
		name := topic(t, admin, 1)
		cluster.Allow(t, kafkatest.Users[0], kafkago.ResourceTypeTopic, name, kafkago.ACLOperationTypeRead)
		cluster.Allow(t, kafkatest.Users[0], kafkago.ResourceTypeGroup, name, kafkago.ACLOperationTypeRead)
		g, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
			ID: name, Brokers: c.cfg.Brokers, Dialer: c.cfg.dialer(), Topics: []string{name}, JoinGroupBackoff: 50 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		generation, err := g.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := generation.Assignments[name]; len(got) != 1 || got[0].ID != 0 {
			t.Errorf("assigned partitions %v, want partition 0 alone", got)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// testRefusedClients: a client that the cluster refuses gets one line that says why. If
// trying again cannot help, it gets that at once instead of after DialFor.
func testRefusedClients(t *testing.T, c *kafkatest.Cluster) {
	stranger := kafkatest.NewAuthority(t)
	foreignCert, foreignKey := stranger.Issue(t, "client")
	ours := TLSFiles{CA: c.Authority.File, Cert: c.Cert, Key: c.Key}
	type credentials struct{ mechanism, user, password string }
	type refusal struct {
		name  string
		files TLSFiles
		login credentials
		want  []string // parts of the error
	}
	right := credentials{"plain", kafkatest.Users[0], kafkatest.Password}
	refusals := []refusal{
		{"wrong authority", TLSFiles{CA: stranger.File, Cert: c.Cert, Key: c.Key}, right, []string{"cannot be verified: check the file of certificate authorities", "unknown authority"}},
		{"wrong name", TLSFiles{CA: c.Authority.File, Cert: c.Cert, Key: c.Key, ServerName: "kafka.example"}, right, []string{"cannot be verified", "kafka.example"}},
		{"no certificate", TLSFiles{CA: c.Authority.File}, right, []string{"refuses the TLS connection: check the client's certificate"}},
		{"foreign certificate", TLSFiles{CA: c.Authority.File, Cert: foreignCert, Key: foreignKey}, right, []string{"refuses the TLS connection: check the client's certificate"}},
	}
	dialFor, wrongLogin := time.Minute, []string{"refuse this client: check user, password and SASL mechanism"}
	if c.Silent { // without a reason from the broker, Dial keeps trying
		dialFor, wrongLogin = time.Second, []string{"no Kafka broker answers", "and the user and password"}
	}
	for _, login := range []credentials{{"plain", kafkatest.Users[0], "guess"}, {"scram-sha-256", kafkatest.Users[0], "guess"}, {"scram-sha-512", "mallory", kafkatest.Password}} {
		refusals = append(refusals, refusal{login.mechanism + " " + login.user + " " + login.password, ours, login, wrongLogin})
	}
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			files, err := r.files.Config()
			if err != nil {
				t.Fatal(err)
			}
			login, err := SASL(r.login.mechanism, r.login.user, always(r.login.password))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Dial(t.Context(), Config{Brokers: []string{c.Addr}, TLS: files, SASL: login, DialFor: dialFor, Logger: slog.New(slog.DiscardHandler)})
			checkErrorLine(t, err, append(r.want, c.Addr)...)
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		t.Parallel()
		_, err := Dial(t.Context(), Config{Brokers: []string{c.Addr}, DialFor: time.Second, Logger: slog.New(slog.DiscardHandler)})
		checkErrorLine(t, err, c.Addr, "whether it wants TLS or wants SASL")
	})
}

// TestTLSNotSpoken: connecting with TLS to a broker without it is an error that suggests
// to check that.
func TestTLSNotSpoken(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		_, err := Dial(t.Context(), Config{
			Brokers: k.Addrs, Dialer: k.Dial, TLS: &tls.Config{MinVersion: tls.VersionTLS12}, DialFor: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		checkErrorLine(t, err, k.Addrs[0], "whether it speaks TLS there")
	})
}

// checkErrorLine checks that err is one line, contains all that is wanted, and does not
// contain the password.
func checkErrorLine(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that contains %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q, want one that contains %q", err, w)
		}
	}
	if strings.ContainsAny(err.Error(), "\r\n") || strings.Contains(err.Error(), kafkatest.Password) {
		t.Errorf("error %q has a line break or the password", err)
	}
}

// TestRenewedCertificate: a renewed client certificate is used without a restart. While
// certificate and key do not match or cannot be read, the last valid pair is used, so that
// a renewal does not break connections.
func TestRenewedCertificate(t *testing.T) {
	authority := kafkatest.NewAuthority(t)
	cert, key := authority.Issue(t, "first")
	cfg, err := TLSFiles{Cert: cert, Key: key}.Config()
	if err != nil {
		t.Fatal(err)
	}
	inUse := func() string {
		t.Helper()
		c, err := cfg.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Subject.CommonName
	}
	if got := inUse(); got != "first" {
		t.Errorf("before the renewal: certificate %q, want %q", got, "first")
	}
	newCert, newKey := authority.Issue(t, "second")
	move(t, newCert, cert)
	if got := inUse(); got != "first" {
		t.Errorf("with the new certificate and the old key: certificate %q, want %q", got, "first")
	}
	move(t, newKey, key)
	if got := inUse(); got != "second" {
		t.Errorf("after the renewal: certificate %q, want %q", got, "second")
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if got := inUse(); got != "second" {
		t.Errorf("after the key is removed: certificate %q, want %q", got, "second")
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestInvalidTLSFiles: files that cannot be used are errors that name the file and what is
// wrong with it.
func TestInvalidTLSFiles(t *testing.T) {
	cert, key := kafkatest.NewAuthority(t).Issue(t, "a")
	_, other := kafkatest.NewAuthority(t).Issue(t, "b")
	empty := t.TempDir() + "/empty.pem"
	huge := t.TempDir() + "/huge.pem"
	for file, size := range map[string]int{empty: 0, huge: maxPEM + 1} {
		if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		files TLSFiles
		want  string
	}{
		{TLSFiles{CA: "nowhere.pem"}, "certificate authorities: open nowhere.pem"},
		{TLSFiles{CA: empty}, "holds no certificate in PEM format"},
		{TLSFiles{CA: huge}, "more than 1048576 bytes"},
		{TLSFiles{Cert: cert}, "give a certificate and its key together"},
		{TLSFiles{Key: key}, "give a certificate and its key together"},
		{TLSFiles{Cert: cert, Key: other}, "do not match"},
		{TLSFiles{Cert: cert, Key: cert}, "do not match"},
		{TLSFiles{Cert: cert, Key: "nowhere.pem"}, "client certificate: open nowhere.pem"},
	} {
		_, err := tc.files.Config()
		if err == nil {
			t.Errorf("%+v: no error, want %q", tc.files, tc.want)
			continue
		}
		checkErrorLine(t, err, tc.want)
	}
}

// TestInvalidSASL: unusable logins are errors, which do not quote the password.
func TestInvalidSASL(t *testing.T) {
	for _, tc := range []struct{ mechanism, user, password, want string }{
		{"gssapi", "u", "p", `"gssapi": use plain, scram-sha-256, scram-sha-512`},
		{"plain", "", "p", "needs a user and a password"},
		{"plain", "u", "", "needs a user and a password"},
		{"plain", "u\x00v", "p", "NUL"},
		{"scram-sha-256", "u", "hunter\u0007", "SASLprep"},
	} {
		_, err := SASL(tc.mechanism, tc.user, always(tc.password))
		checkErrorLine(t, err, tc.want)
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("error %q quotes the password", err)
		}
	}
}

// TestPasswordIsNotPrinted: no way of printing, logging or encoding a configuration shows
// the password.
func TestPasswordIsNotPrinted(t *testing.T) {
	const secret = "hunter2"
	for _, mechanism := range mechanisms {
		m, err := SASL(mechanism, "alice", always(secret))
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Brokers: []string{"a:1"}, SASL: m}
		var out bytes.Buffer
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&out, format+format+format, m, cfg, &cfg)
		}
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("x", "mechanism", m, "config", cfg)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		if hex := fmt.Sprintf("%x", secret); strings.Contains(out.String(), secret) || strings.Contains(out.String(), hex) {
			t.Errorf("%s: the output contains the password: %s", mechanism, out.String())
		}
	}
}

func always(password string) func() (string, error) {
	return func() (string, error) { return password, nil }
}

// TestPasswordThatChanges: each connection has the password of its time. While brokers refuse it, a client that they have accepted tries
// on, for a while; one that comes with a wrong one is refused at once.
func TestPasswordThatChanges(t *testing.T) {
	password := "first"
	m, err := SASL("plain", "alice", func() (string, error) { return password, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, password = range []string{"first", "second"} {
		if _, first, err := m.Start(t.Context()); err != nil || !strings.Contains(string(first), password) {
			t.Errorf("a login has %q (%v), want the password %s", first, err, password)
		}
	}
	k, now := coordinators{}, time.Now()
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {29 * time.Second, true}, {30 * time.Second, false}, {59 * time.Second, false}, {2 * time.Minute, true}} {
		if got := k.mayChange(now.Add(c.after)); got != c.want {
			t.Errorf("after %v it may change: %v, want %v", c.after, got, c.want)
		}
	}
}
