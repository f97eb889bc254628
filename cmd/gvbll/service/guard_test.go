package service

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// TestConnectionsThatAreHeld: two addresses hold as many connections as they can get. A third one gets
// its answers nonetheless, and so does a further connection of theirs, for which one goes that is idle; over TLS too.
func TestConnectionsThatAreHeld(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"", webConfig(t, kafkatest.NewAuthority(t), "")} {
		h := serverOf(t, config)
		from := func(address string) *http.Client {
			c := clientFrom(t, address)
			c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			return c
		}
		for _, address := range []string{"127.0.0.1", "127.0.0.2"} {
			for i := range maxHostConnections {
				if status, _ := ask(t, from(address), request(t, "GET", h.URL()+"/healthz")); status != http.StatusOK {
					t.Fatalf("connection %d from %s: status %d", i, address, status)
				}
			}
			if status, _ := ask(t, from(address), request(t, "GET", h.URL()+"/healthz")); status != http.StatusOK {
				t.Errorf("a further connection from %s: status %d", address, status)
			}
			if n := h.listener.held(address); n != maxHostConnections {
				t.Errorf("%s holds %d connections, want %d", address, n, maxHostConnections)
			}
		}
		c := from("127.0.0.3")
		for range 3 {
			if status, _ := ask(t, c, request(t, "GET", h.URL()+"/healthz")); status != http.StatusOK {
				t.Fatalf("the first connection from another address: status %d", status)
			}
		}
	}
}

// held returns how many connections of an address are counted.
func (l *guardedListener) held(host string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[host]
}

// TestIdleConnectionsGo: however many idle connections there are, of one address or of a thousand, a new one is
// taken, and the one goes that has been idle for longest, those with a password last. One with a request stays.
func TestIdleConnectionsGo(t *testing.T) {
	t.Parallel()
	l := guardListener(nil)
	now := time.Unix(0, 0)
	add := func(host string) (c, goes *guardedConn, ok bool) {
		now = now.Add(time.Second)
		c = &guardedConn{listener: l, host: host, since: now}
		goes, ok = l.add(c)
		return c, goes, ok
	}
	var first []*guardedConn
	for range maxHostConnections {
		c, _, _ := add("a")
		first = append(first, c)
	}
	first[0].requests, first[1].known = 1, true
	if _, goes, ok := add("a"); !ok || goes != first[2] {
		t.Error("of its own connections, that which has been idle for longest does not go")
	}
	for i := range 2 * mostConnections {
		if _, _, ok := add(fmt.Sprint(i)); !ok {
			t.Fatalf("the first connection of address %d is refused", i)
		}
	}
	if len(l.open) != mostConnections || !l.open[first[0]] || !l.open[first[1]] || l.open[first[3]] {
		t.Errorf("%d are open, want %d, among them the one with a request and the one with a password", len(l.open), mostConnections)
	}
	for c := range l.open {
		c.requests = 1
	}
	if _, _, ok := add("b"); ok {
		t.Error("a connection with a request has gone for one without")
	}
	for c := range l.open {
		l.drop(c)
		l.drop(c)
	}
	if len(l.open) != 0 || len(l.hosts) != 0 {
		t.Errorf("%d connections of %d addresses are counted that are closed", len(l.open), len(l.hosts))
	}
}

// TestHostOf: addresses of one network of IPv6 are one.
func TestHostOf(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "[2001:db8::1]:80": "2001:db8::/64", "[2001:db8::ffff:1]:80": "2001:db8::/64",
		"[2001:db8:0:1::1]:80": "2001:db8:0:1::/64", "[fe80::1%eth0]:80": "fe80::/64", "[::ffff:10.0.0.1]:80": "::ffff:10.0.0.1",
	} {
		if got := hostOf(address); got != want {
			t.Errorf("%s is of %s, want %s", address, got, want)
		}
	}
}

// TestHeldPort: 64 connections of the prober's own address that have sent nothing, or half of a request, do not keep it out.
func TestHeldPort(t *testing.T) {
	t.Parallel()
	h := serverOf(t, passwordFile(t, ""))
	address := h.listener.Addr().String()
	for i := range 2 * maxHostConnections {
		c, err := net.Dial("tcp", address)
		must(t, err)
		defer c.Close()
		if i%2 == 0 {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost:")
		}
	}
	for range 3 {
		c := clientFrom(t, "127.0.0.1")
		if status, _ := ask(t, c, request(t, "GET", h.URL()+"/healthz")); status != http.StatusOK {
			t.Errorf("/healthz: status %d, want 200", status)
		}
		c.CloseIdleConnections()
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
		{"gvbll.localhost:1234", 421},
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

// TestOddHosts: on loopback without a password, a request that names no host, or one with a zone, gets nothing but probes.
func TestOddHosts(t *testing.T) {
	t.Parallel()
	h := serverOf(t, "")
	for _, host := range []string{"HTTP/1.0\r\n", "HTTP/1.1\r\nHost:\r\n", "HTTP/1.1\r\nHost: [::1%25evil]\r\n", "HTTP/1.1\r\nHost: [::1%evil]:80\r\n", "HTTP/1.1\r\nHost: [[::1]]\r\n"} {
		for path, want := range map[string]string{"/": " 421 ", "/metrics": " 421 ", "/healthz": " 200 "} {
			c, err := net.Dial("tcp", h.listener.Addr().String())
			must(t, err)
			_, err = fmt.Fprintf(c, "GET %s %sConnection: close\r\n\r\n", path, host)
			must(t, err)
			answer, err := io.ReadAll(c)
			must(t, err)
			if line, _, _ := strings.Cut(string(answer), "\r\n"); !strings.Contains(line, want) && !strings.Contains(line, " 400 ") {
				t.Errorf("%s of %q: %q, want%s", path, host, line, want)
			}
			_ = c.Close()
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

// TestPasswords: the right one is asked for everywhere but of probes. Of a flood of wrong ones few are checked, and the flood keeps out
// neither who has shown the right one nor another address.
func TestPasswords(t *testing.T) {
	t.Parallel()
	h := serverOf(t, passwordFile(t, ""))
	login := func(client *http.Client, password string) int {
		req := request(t, "GET", h.URL()+"/metrics")
		req.SetBasicAuth("prometheus", password)
		status, _ := ask(t, client, req)
		return status
	}
	client := clientFrom(t, "127.0.0.1")
	if status := login(client, "test"); status != http.StatusOK {
		t.Errorf("the right password: status %d, want 200", status)
	}
	got := make(map[int]int)
	for i := range 1000 {
		got[login(client, fmt.Sprint("guess ", i))]++
	}
	if got[http.StatusUnauthorized] == 0 || got[http.StatusTooManyRequests] < 900 {
		t.Errorf("of 1000 wrong passwords: %v by status, want some 401 and almost all 429", got)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := ask(t, client, request(t, "GET", h.URL()+path)); status == http.StatusUnauthorized || status == http.StatusTooManyRequests {
			t.Errorf("%s asks for a password", path)
		}
	}
	if status := login(client, "test"); status != http.StatusOK {
		t.Errorf("the right password again: status %d, want 200", status)
	}
	if status := login(clientFrom(t, "127.0.0.2"), "guess"); status != http.StatusUnauthorized {
		t.Errorf("a wrong password from another address: status %d, want 401", status)
	}
}

// TestGuessers: what is remembered of addresses and passwords is bounded; an address may try again each second, and those beyond the bound
// share one limit.
func TestGuessers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses()
		tries := func(host string) (n int) {
			for range 2 * guessBurst {
				if g.may(host, [sha256.Size]byte{}) {
					n++
				}
			}
			return n
		}
		if n := tries("a"); n != guessBurst {
			t.Errorf("%d passwords of one address are checked at once, want %d", n, guessBurst)
		}
		time.Sleep(3 * time.Second)
		if n := tries("a"); n != 3 {
			t.Errorf("%d passwords are checked after three seconds, want 3", n)
		}
		checked := 0
		for i := range 3 * maxGuessers {
			checked += tries(fmt.Sprint("host ", i))
		}
		if want := maxGuessers * guessBurst; len(g.hosts) > maxGuessers+1 || checked != want {
			t.Errorf("%d addresses are remembered and %d passwords checked, want %d and %d", len(g.hosts), checked, maxGuessers+1, want)
		}
		time.Sleep(time.Hour)
		if n := tries("b"); n != guessBurst || len(g.hosts) > 2 {
			t.Errorf("an hour later %d passwords of a new address are checked, and %d addresses remembered", n, len(g.hosts))
		}
		note := g.note(http.NotFoundHandler())
		for i := range 3 * maxPasswords {
			r := request(t, "GET", "http://localhost/")
			r.SetBasicAuth("user", fmt.Sprint(i))
			note.ServeHTTP(httptest.NewRecorder(), r)
		}
		if len(g.right) > maxPasswords {
			t.Errorf("%d passwords are remembered, want at most %d", len(g.right), maxPasswords)
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
