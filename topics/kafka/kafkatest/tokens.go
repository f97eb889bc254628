package kafkatest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Tokens runs a test in parallel with others on one broker that wants unsecured tokens
// (OAUTHBEARER), and ends connections that have logged in for longer than session: on Apache Kafka
// if there is a [Tool] to start it, or in a [Bubble] on kfake. There, a token's own end ends none.
func Tokens(t *testing.T, session time.Duration, test func(t *testing.T, k *Kafka)) {
	t.Helper()
	reauth := fmt.Sprint(session.Milliseconds())
	if tool := Tool(); tool != "" {
		t.Parallel()
		test(t, &Kafka{Addrs: []string{launch(t, tool, nil, "SASL_PLAINTEXT",
			"connections.max.reauth.ms="+reauth, "sasl.enabled.mechanisms=OAUTHBEARER",
			`listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=`+
				`org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
		)}})
		return
	}
	Bubble(t, func(t *testing.T, n *Network) {
		k := n.KFake(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", Admin, Password),
			kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": reauth}),
			kfake.ListenFn(func(network, address string) (net.Listener, error) {
				l, err := n.Listen(network, address)
				return ending{l, session}, err
			}))
		bearers(k.Fake)
		test(t, k)
	})
}

// bearers lets a kfake that knows PLAIN accept unsecured tokens (OAUTHBEARER) that have not expired.
func bearers(c *kfake.Cluster) {
	c.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if h := r.(*kmsg.SASLHandshakeRequest); h.Mechanism == "OAUTHBEARER" {
			h.Mechanism = "PLAIN"
		}
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.SASLAuthenticateRequest)
		token, ok := strings.CutPrefix(string(req.SASLAuthBytes), "n,,\x01auth=Bearer ")
		token, end := strings.CutSuffix(token, "\x01\x01")
		if !ok || !end {
			return nil, errors.New("no message of OAUTHBEARER"), true
		}
		if !valid(token) {
			res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			res.SASLAuthBytes = []byte(`{"status":"invalid_token"}`)
			return res, nil, true
		}
		req.SASLAuthBytes = []byte("\x00" + Admin + "\x00" + Password)
		return nil, nil, false
	})
}

// ending is a listener whose connections end as those of Apache Kafka do (KIP-368): with the first
// request that comes after session, which gets no answer. kfake says that they end, and goes on
// answering.
type ending struct {
	net.Listener
	session time.Duration
}

func (l ending) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &session{c, time.Now().Add(l.session)}, err
}

// session is the brokers' side of a connection that ends.
type session struct {
	net.Conn
	end time.Time
}

func (s *session) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err == nil && !time.Now().Before(s.end) {
		return 0, io.EOF // which kfake answers with closing its side
	}
	return n, err
}

// Token returns an unsecured token of [Admin] (RFC 7515, appendix A.5) that expires after d.
func Token(d time.Duration) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	now := float64(time.Now().UnixMilli()) / 1000
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%.3f,"exp":%.3f}`, Admin, now, now+d.Seconds())) + "."
}

// valid reports whether a token has not expired.
func valid(token string) bool {
	var claims struct{ Exp float64 }
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(b, &claims) == nil && float64(time.Now().UnixMilli())/1000 < claims.Exp
}
