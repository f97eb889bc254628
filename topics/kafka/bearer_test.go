package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestTokenFile: each connection logs in with the token that the file holds then (RFC 7628,
// section 4.1). What is no token, or is too long for one, is an error without its text.
func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	m := TokenFile(file)
	for _, token := range []string{"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", "a.b-c_d~e+f/g.\r\n"} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		s, message, err := m.Start(t.Context())
		if want := "n,,\x01auth=Bearer " + strings.TrimSpace(token) + "\x01\x01"; err != nil || string(message) != want {
			t.Fatalf("the message is %q (error %v), want %q", message, err, want)
		}
		if done, answer, err := s.Next(t.Context(), nil); !done || answer != nil || err != nil {
			t.Errorf("a token that is accepted: %v, %q and error %v", done, answer, err)
		}
		_, _, err = s.Next(t.Context(), []byte(`{"status":"hunter2"}`))
		checkErrorLine(t, err, "the brokers refuse it")
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %q quotes the brokers", err)
		}
	}
	for _, text := range []string{"", "\n", "hunter 2", "hunter2\x01", "hunter2\nhunter2", strings.Repeat("hunter2", maxToken/7+1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := m.Start(t.Context())
		checkErrorLine(t, err, "SASL token: "+file)
		if strings.Contains(err.Error(), "hunter") {
			t.Errorf("error %q quotes the file", err)
		}
	}
}

// TestTokenEndpoint: a token is got with the client's id and its secret of that time, and used until it expires. An
// answer without one is an error that quotes neither the secret nor the answer.
func TestTokenEndpoint(t *testing.T) {
	const secret = "hunter2"
	now := secret // that the server wants
	asked, answer := 0, `{"access_token": "first", "token_type": "bearer", "expires_in": 3600}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if id, password, _ := r.BasicAuth(); id != "alice" || password != now || r.PostFormValue("grant_type") != "client_credentials" || r.PostFormValue("scope") != "a b" {
			http.Error(w, secret, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	endpoint := TokenEndpoint{URL: server.URL, ID: "alice", Secret: func() (string, error) { return now, nil }, Scope: "a b"}
	m := endpoint.SASL()
	for range 2 {
		if _, message, err := m.Start(t.Context()); err != nil || !bytes.Contains(message, []byte("Bearer first\x01")) {
			t.Errorf("the message is %q, and the error %v", message, err)
		}
	}
	if asked != 1 {
		t.Errorf("two connections have asked %d times, want once", asked)
	}
	m, asked, answer = endpoint.SASL(), 0, `{"access_token": "first", "token_type": "bearer", "expires_in": 1}`
	for _, now = range []string{"rotated", "again", secret} {
		if _, message, err := m.Start(t.Context()); err != nil || !bytes.Contains(message, []byte("Bearer first\x01")) {
			t.Errorf("with the secret %s the message is %q, and the error %v", now, message, err)
		}
	}
	for _, bad := range []string{`{"access_token": "hunter2"}`, `{"access_token": "hunter2\n", "expires_in": 3600}`, `hunter2`, `{"error": "hunter2"}`} {
		answer = bad
		refused(t, endpoint.SASL(), secret)
	}
	endpoint.ID = "mallory"
	refused(t, endpoint.SASL(), secret)
	if text := fmt.Sprintf("%v %+v %#v %s", m, m, m, m); strings.Contains(text, secret) {
		t.Errorf("printed, the mechanism is %s", text)
	}
	if b, err := json.Marshal(m); err != nil || string(b) != `"OAUTHBEARER"` {
		t.Errorf("as JSON it is %s, error %v", b, err)
	}
}

// refused checks that a mechanism has no token, and that its error does not quote the secret.
func refused(t *testing.T, m sasl.Mechanism, secret string) {
	t.Helper()
	_, _, err := m.Start(t.Context())
	checkErrorLine(t, err, "SASL token: ")
	if strings.Contains(err.Error(), secret) {
		t.Errorf("error %q quotes the secret", err)
	}
}

// TestRefusedToken: a client whose token is refused when it begins gets one line that says so.
func TestRefusedToken(t *testing.T) {
	kafkatest.Tokens(t, time.Hour, func(t *testing.T, k *kafkatest.Kafka) {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(kafkatest.Token(-time.Minute)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := Config{Brokers: k.Addrs, Dialer: k.Dial, SASL: TokenFile(file), DialFor: time.Second, Logger: slog.New(slog.DiscardHandler)}
		_, err := Dial(t.Context(), cfg)
		checkErrorLine(t, err, "logging in to Kafka at "+k.Addrs[0]+": SASL token: the brokers refuse it")
		cfg.SASL = TokenFile(file + ".gone")
		_, err = Dial(t.Context(), cfg)
		checkErrorLine(t, err, "logging in to Kafka at "+k.Addrs[0]+": SASL token: open "+file+".gone")
		if err := os.WriteFile(file, []byte(kafkatest.Token(time.Hour)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg.SASL = TokenFile(file)
		c, err := Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
}
