package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

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
// its answers nonetheless, and they no further ones, over TLS too.
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
			if res, err := from(address).Do(request(t, "GET", h.URL()+"/healthz")); err == nil {
				res.Body.Close()
				t.Errorf("%s gets a further connection", address)
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

// TestConnectionsAreCounted: where there are many, an address that has some gets no further one, and
// no address is kept whose connections are closed.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	l := guardListener(nil)
	count := func(host string, n int) (more int) {
		for range n {
			if l.add(host) {
				more++
			}
		}
		return more
	}
	if n := count("a", 100) + count("b", 63); n != maxConnections-1 {
		t.Errorf("two addresses have %d connections, want 64 and 63", n)
	}
	if n := count("c", 5); n != 1 {
		t.Errorf("a third one gets %d, want 1", n)
	}
	for i := range 2 * mostConnections {
		count(fmt.Sprint(i), 2)
	}
	if l.open != mostConnections {
		t.Errorf("%d are open, want %d", l.open, mostConnections)
	}
	for host, n := range l.hosts {
		for range n {
			l.remove(host)
		}
	}
	if l.open != 0 || len(l.hosts) != 0 {
		t.Errorf("%d connections of %d addresses are counted that are closed", l.open, len(l.hosts))
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

// TestPasswords: the right one is asked for everywhere but of probes, and a flood of wrong ones does
// not keep out who has it.
func TestPasswords(t *testing.T) {
	t.Parallel()
	h := serverOf(t, passwordFile(t, ""))
	client := clientFrom(t, "127.0.0.1")
	login := func(password string) int {
		req := request(t, "GET", h.URL()+"/metrics")
		req.SetBasicAuth("prometheus", password)
		status, _ := ask(t, client, req)
		return status
	}
	for i := range 100 {
		if status := login(fmt.Sprint("guess ", i)); status != http.StatusUnauthorized {
			t.Fatalf("a wrong password: status %d, want 401", status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, _ := ask(t, client, request(t, "GET", h.URL()+path)); status == http.StatusUnauthorized {
			t.Errorf("%s asks for a password", path)
		}
	}
	if status := login("test"); status != http.StatusOK {
		t.Errorf("the right password: status %d, want 200", status)
	}
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
