// Package kafkatest says which brokers tests run on, and starts them: kfake in virtual time, or
// Apache Kafka if GVBLL_KAFKA and GVBLL_KAFKA_TOOL say so. Secured clusters require a client certificate
// and a password, and allow only what ACLs have granted.
package kafkatest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Admin has all permissions and logs in with PLAIN. All users have the same
// password.
const (
	Admin    = "root"
	Password = "Tr0ub4dor-and-3"
)

// Users have the permissions that Allow grants, and log in with any mechanism.
var Users = []string{"owner", "worker", "sender", "reader", "resender", "operator"}

var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// Cluster is a running cluster of one broker.
type Cluster struct {
	// Addr accepts TLS with a client certificate and SASL.
	Addr string
	// Authority signed the broker's certificate and signs those of its clients.
	Authority *Authority
	// Cert and Key are the files of a client certificate.
	Cert, Key string
	// Silent means that the broker closes the connection on a wrong password
	// without an answer.
	Silent bool
}

// Secured starts a cluster until the test ends: of Apache Kafka if there is a [Tool] to
// start it, of kfake if not.
func Secured(t *testing.T) *Cluster {
	t.Helper()
	if tool := Tool(); tool != "" {
		return apache(t, tool)
	}
	return fake(t)
}

func fake(t *testing.T) *Cluster {
	t.Helper()
	c := newCluster(t)
	certificate := must[tls.Certificate](t)(tls.LoadX509KeyPair(c.Authority.Issue(t, "127.0.0.1")))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(t, c.Authority.File))
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}),
		kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", Admin, Password),
	}
	for _, user := range Users {
		for _, m := range mechanisms {
			options = append(options, kfake.User(m, user, Password))
		}
	}
	c.Addr, c.Silent = start(t, options...).ListenAddrs()[0], true
	return c
}

func apache(t *testing.T, tool string) *Cluster {
	t.Helper()
	c := newCluster(t)
	store := filepath.Join(t.TempDir(), "store.pem")
	cert, key := c.Authority.Issue(t, "127.0.0.1")
	write(t, store, read(t, key), read(t, cert))
	logins := fmt.Sprintf(`user_%s="%s"`, Admin, Password)
	var formats []string
	for _, user := range Users {
		logins += fmt.Sprintf(` user_%s="%s"`, user, Password)
		for _, m := range mechanisms[1:] {
			formats = append(formats, fmt.Sprintf("--add-scram %s=[name=%s,password=%s]", m, user, Password))
		}
	}
	c.Addr = launch(t, tool, formats, "SASL_SSL",
		"ssl.keystore.type=PEM", "ssl.keystore.location="+store,
		"ssl.truststore.type=PEM", "ssl.truststore.location="+c.Authority.File,
		"listener.name.sasl_ssl.ssl.client.auth=required", // ssl.client.auth alone does not apply to SASL listeners
		"sasl.enabled.mechanisms="+strings.Join(mechanisms, ","),
		"listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "+logins+";",
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:"+Admin+";User:ANONYMOUS",
	)
	return c
}

// launch starts a node of Apache Kafka with a listener for clients of the given protocol until the
// test ends, and returns the listener's address.
func launch(t *testing.T, tool string, formats []string, protocol string, settings ...string) (addr string) {
	t.Helper()
	dir := t.TempDir()
	open, control := freePort(t), freePort(t)
	addr = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	command := exec.Command(tool, append([]string{
		"start", dir, fmt.Sprint(open),
		fmt.Sprintf("listeners=%s://%s,PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", protocol, addr, open, control),
		fmt.Sprintf("advertised.listeners=%s://%s,PLAINTEXT://127.0.0.1:%d", protocol, addr, open),
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", control),
		fmt.Sprintf("listener.security.protocol.map=%[1]s:%[1]s,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", protocol),
	}, settings...)...)
	command.Env = append(os.Environ(), "KAFKA_FORMAT="+strings.Join(formats, " "))
	command.Stderr = os.Stderr
	t.Cleanup(func() {
		if out, err := exec.Command(tool, "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("%s stop: %v\n%s", tool, err, out)
		}
	})
	if err := command.Run(); err != nil {
		t.Fatalf("%s start: %v", tool, err)
	}
	return addr
}

func newCluster(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{Authority: NewAuthority(t)}
	c.Cert, c.Key = c.Authority.Issue(t, "client")
	return c
}

func freePort(t *testing.T) int {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Allow grants a user operations on the resource of the given name, or on those with a
// prefix if the name is the prefix and *.
func (c *Cluster) Allow(t *testing.T, user string, resource kafkago.ResourceType, name string, operations ...kafkago.ACLOperationType) {
	t.Helper()
	pattern := kafkago.PatternTypeLiteral
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		name, pattern = prefix, kafkago.PatternTypePrefixed
	}
	req := &kafkago.CreateACLsRequest{}
	for _, o := range operations {
		req.ACLs = append(req.ACLs, kafkago.ACLEntry{
			ResourceType: resource, ResourceName: name, ResourcePatternType: pattern,
			Principal: "User:" + user, Host: "*", Operation: o, PermissionType: kafkago.ACLPermissionTypeAllow,
		})
	}
	admin := c.admin(t)
	for _, err := range must[*kafkago.CreateACLsResponse](t)(admin.CreateACLs(t.Context(), req)).Errors {
		if err != nil {
			t.Fatal(err)
		}
	}
	for granted := 0; granted < len(operations); { // the controller of Apache Kafka answers before the broker has heard
		res, err := admin.DescribeACLs(t.Context(), &kafkago.DescribeACLsRequest{Filter: kafkago.ACLFilter{
			ResourceTypeFilter: resource, ResourceNameFilter: name, ResourcePatternTypeFilter: pattern,
			PrincipalFilter: "User:" + user, Operation: kafkago.ACLOperationTypeAny, PermissionType: kafkago.ACLPermissionTypeAllow,
		}})
		if err != nil || res.Error != nil {
			t.Fatal(errors.Join(err, res.Error))
		}
		granted = 0
		for _, r := range res.Resources {
			granted += len(r.ACLs)
		}
	}
}

// First returns the offset with which the first partition of a topic begins.
func (c *Cluster) First(t *testing.T, topic string) int64 {
	t.Helper()
	res := must[*kafkago.ListOffsetsResponse](t)(c.admin(t).ListOffsets(t.Context(), &kafkago.ListOffsetsRequest{
		Topics: map[string][]kafkago.OffsetRequest{topic: {kafkago.FirstOffsetOf(0)}},
	}))
	return res.Topics[topic][0].FirstOffset
}

func (c *Cluster) admin(t *testing.T) *kafkago.Client {
	t.Helper()
	certificate := must[tls.Certificate](t)(tls.LoadX509KeyPair(c.Cert, c.Key))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read(t, c.Authority.File))
	transport := &kafkago.Transport{
		TLS:  &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}},
		SASL: plain.Mechanism{Username: Admin, Password: Password},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(c.Addr), Transport: transport}
}
