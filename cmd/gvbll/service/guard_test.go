package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// clientFrom returns a client whose connections come from the given address, and stay
// open after a response.
func clientFrom(t *testing.T, address string) *http.Client {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := &http.Client{Transport: &http.Transport{DialContext: from.DialContext}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// TestConnectionsThatAreHeld: two addresses hold as many connections as they can get, and ask
// for something at times. A third one gets its answers nonetheless, and each of the two gets
// further ones in place of its oldest idle one, over TLS too.
func TestConnectionsThatAreHeld(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"", webConfig(t, kafkatest.NewAuthority(t), "")} {
		h := serverOf(t, config)
		var held []*http.Client
		hold := func(address string) *http.Client {
			t.Helper()
			c := clientFrom(t, address)
			c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			if status, _ := ask(t, c, request(t, "GET", h.URL()+"/healthz")); status != http.StatusOK {
				t.Fatalf("connection %d, from %s: status %d", len(held), address, status)
			}
			return c
		}
		for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
			for range maxHostConnections {
				held = append(held, hold(address))
			}
		}
		for range 3 {
			for _, c := range held { // each anew, in place of others of its address
				if status, _ := ask(t, c, request(t, "GET", h.URL()+"/healthz")); status != http.StatusOK {
					t.Fatalf("a connection that was held: status %d", status)
				}
			}
			hold("127.0.0.3").CloseIdleConnections()
		}
		h.listener.mu.Lock()
		if n := len(h.listener.open); n > maxConnections || n < maxConnections-3 {
			t.Errorf("%d connections are open, want about %d", n, maxConnections)
		}
		h.listener.mu.Unlock()
	}
}

// TestWhichConnectionLeaves: where there are too many, the oldest of an address that has more of
// them leaves, an idle one if there is one. A request that is being answered is given up only
// after a while, or for an address that has none.
func TestWhichConnectionLeaves(t *testing.T) {
	t.Parallel()
	var l *guardedListener
	now := time.Now()
	come := func(host string, idle bool) (*guardedConn, *guardedConn, bool) {
		now = now.Add(time.Millisecond)
		c := &guardedConn{listener: l, host: host}
		leaves, ok := l.add(c, now)
		c.idle = idle
		return c, leaves, ok
	}
	full := func(idle bool) (first *guardedConn) {
		l = guardListener(nil)
		for i := range maxConnections {
			if c, _, _ := come(string(rune('a'+i/maxHostConnections)), idle); i == 0 {
				first = c
			}
		}
		return first
	}
	first := full(true)
	if _, leaves, ok := come("b", false); !ok || leaves.host != "b" {
		t.Errorf("for a further one of b leaves %+v", leaves)
	}
	if _, leaves, ok := come("c", false); !ok || leaves != first {
		t.Errorf("for the first one of c leaves %+v, want the oldest of all", leaves)
	}
	if _, leaves, ok := come("c", false); !ok || leaves.host == "c" {
		t.Errorf("for the second one of c leaves %+v", leaves)
	}
	first = full(false)
	if _, leaves, ok := come("b", false); ok {
		t.Errorf("for a further one of b leaves %+v, whose request is being answered", leaves)
	}
	if _, leaves, ok := come("c", false); !ok || leaves != first {
		t.Errorf("for the first one of c leaves %+v, want the oldest of all", leaves)
	}
	if _, leaves, ok := come("c", false); ok {
		t.Errorf("for the second one of c leaves %+v, whose request is being answered", leaves)
	}
	now = now.Add(2 * slowRequest)
	if _, leaves, ok := come("c", false); !ok || leaves.host == "c" {
		t.Errorf("for the second one of c leaves %+v, want one whose request is slow", leaves)
	}
	for c := range l.open {
		l.remove(c)
		l.remove(c)
	}
	if len(l.hosts) != 0 {
		t.Errorf("%d addresses without a connection are kept", len(l.hosts))
	}
}

// TestRebinding: on loopback without a password, a page whose host name was made to
// resolve to loopback gets nothing but probes.
func TestRebinding(t *testing.T) {
	t.Parallel()
	h := serverOf(t, "")
	client := clientFrom(t, "127.0.0.1")
	_, port, err := net.SplitHostPort(h.listener.Addr().String())
	must(t, err)
	for _, tc := range []struct {
		host   string
		status int
	}{
		{"127.0.0.1:" + port, 200},
		{"localhost:" + port, 200},
		{"LOCALHOST", 200},
		{"localhost.", 200},
		{"gvbll.localhost:1234", 200},
		{"[::1]:" + port, 200},
		{"[::ffff:127.0.0.1]", 200},
		{"rebound.example:" + port, 421},
		{"localhost.rebound.example", 421},
		{"10.0.0.1", 421},
		{"0.0.0.0", 421},
		{"[::]:" + port, 421},
	} {
		for _, path := range []string{"/", "/metrics", "/v1/windows", "/page.js"} {
			req := request(t, "GET", h.URL()+path)
			req.Host = tc.host
			if status, _ := ask(t, client, req); status != tc.status {
				t.Errorf("%s of host %q: status %d, want %d", path, tc.host, status, tc.status)
			}
		}
		probe := request(t, "GET", h.URL()+"/healthz")
		probe.Host = tc.host
		if status, _ := ask(t, client, probe); status != http.StatusOK {
			t.Errorf("/healthz of host %q: status %d, want 200", tc.host, status)
		}
	}
}

// passwordFile writes a file for --http-config with the user prometheus, password test,
// in a hash that is checked in a millisecond.
func passwordFile(t *testing.T, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.yml")
	must(t, os.WriteFile(file, []byte("basic_auth_users:\n  prometheus: $2a$04$04IyX.f51u/VkUoB528ICObYYBlnvwlBVEDo3/s/EohuMZcg1PthS\n"+more), 0o600))
	return file
}

// TestFloodOfWrongPasswords: after a few wrong passwords an address gets no more checked.
// Probes are answered throughout, and so is who has logged in before.
func TestFloodOfWrongPasswords(t *testing.T) {
	t.Parallel()
	h := serverOf(t, passwordFile(t, ""))
	client := clientFrom(t, "127.0.0.1")
	login := func(password string) int {
		req := request(t, "GET", h.URL()+"/metrics")
		req.SetBasicAuth("prometheus", password)
		status, _ := ask(t, client, req)
		return status
	}
	if status := login("test"); status != http.StatusOK {
		t.Fatalf("the right password: status %d, want 200", status)
	}
	checked := 0
	for i := range 100 {
		switch status := login(fmt.Sprint("guess ", i)); status {
		case http.StatusUnauthorized:
			checked++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("a wrong password: status %d, want 401 or 429", status)
		}
	}
	// The flood may outlast one period, but not many.
	if checked < maxGuesses || checked > 50 {
		t.Errorf("%d of 100 wrong passwords were checked, want %d in %v", checked, maxGuesses, guessPeriod)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := ask(t, client, request(t, "GET", h.URL()+path)); status == http.StatusUnauthorized || status == http.StatusTooManyRequests {
			t.Errorf("%s during the flood: status %d", path, status)
		}
	}
	if status := login("test"); status != http.StatusOK {
		t.Errorf("the password that was right before: status %d, want 200", status)
	}
}

// TestGuesses: logins that fail or are pending count against their address for a period.
// One that was right once is let through until it is wrong.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses()
		right, reached := "right", 0
		var check http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reached++
			if r.Header.Get("Authorization") != right {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			g.accepted(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		})
		try := func(from, header string) int {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = from
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			g.guard(check).ServeHTTP(w, r)
			return w.Code
		}
		want := func(what string, got, status int) {
			t.Helper()
			if got != status {
				t.Errorf("%s: status %d, want %d", what, got, status)
			}
		}
		want("the right password", try("a:1", "right"), 200)
		for i := range maxGuesses {
			want("a guess", try("a:2", fmt.Sprint(i)), 401)
		}
		want("one guess more", try("a:3", "another"), 429)
		want("another address", try("b:1", "another"), 401)
		want("the right password from the same address", try("a:4", "right"), 200)
		if len(g.right) != 1 || reached != maxGuesses+3 {
			t.Errorf("%d logins are remembered and %d were checked, want 1 and %d", len(g.right), reached, maxGuesses+3)
		}
		right = "changed"
		want("the old password", try("a:5", "right"), 401)
		want("the old password again", try("a:6", "right"), 429)
		time.Sleep(guessPeriod)
		want("a guess in the next period", try("a:7", "another"), 401)
		want("the new password", try("a:8", "changed"), 200)

		for i := range 2 * maxGuessers {
			try(fmt.Sprintf("[::%x]:1", i), "guess")
		}
		if len(g.count) > maxGuessers+1 {
			t.Errorf("%d addresses are told apart, want at most %d", len(g.count), maxGuessers)
		}
	})
}

// TestPasswordIsAskedBeforeTheBody: without the password, a body is not waited for.
func TestPasswordIsAskedBeforeTheBody(t *testing.T) {
	config := passwordFile(t, "")
	kafkatest.Bubble(t, func(t *testing.T, n *kafkatest.Network) {
		h := serverOn(t, n.Listen, config)
		body, sender := io.Pipe()
		defer sender.Close()
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "POST", h.URL()+"/v1/predict", body)
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		client := &http.Client{Transport: &http.Transport{DialContext: n.DialContext}}
		defer client.CloseIdleConnections()
		if status, _ := ask(t, client, req); status != http.StatusUnauthorized {
			t.Errorf("status %d, want 401", status)
		}
	})
}
