package service

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Limits of connections. Each takes a file descriptor, of which checkpoints and brokers
// need some too, and a goroutine.
const (
	maxConnections     = 128
	maxHostConnections = 64 // from one address
	slowRequest        = 5 * time.Second
)

// guardedListener accepts connections within these limits. Where one too many comes, another
// makes room for it or it is closed, see room: an address that has no connection always gets
// one, so that nobody can keep out the probes of an orchestrator or Prometheus.
//
// It is not a netutil.LimitListener, whose connections have no CloseWrite: net/http then
// resets a connection whose request it refuses half-way, and the client never reads why.
type guardedListener struct {
	net.Listener

	mu    sync.Mutex
	open  map[*guardedConn]bool
	hosts map[string]int // connections by address
}

func guardListener(l net.Listener) *guardedListener {
	return &guardedListener{Listener: l, open: make(map[*guardedConn]bool), hosts: make(map[string]int)}
}

// Accept implements [net.Listener].
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &guardedConn{Conn: conn, listener: l, host: hostOf(conn.RemoteAddr().String())}
		leaves, ok := l.add(c, time.Now())
		if leaves != nil {
			leaves.Close()
		}
		if ok {
			return c, nil
		}
		conn.Close()
	}
}

// add counts a new connection if it may stay. The one that leaves for it, nil for none, is to be
// closed.
func (l *guardedListener) add(c *guardedConn, now time.Time) (leaves *guardedConn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= maxConnections || l.hosts[c.host] >= maxHostConnections {
		if leaves = l.room(c.host, now); leaves == nil {
			return nil, false
		}
		l.remove(leaves)
	}
	c.since = now
	l.open[c] = true
	l.hosts[c.host]++
	return leaves, true
}

// room returns the connection that is closed for another one of host, nil for none: the oldest
// that has no request or a slow one, if it is of the same address or of one that has more of
// them. Where an address has no connection yet, any one may be.
func (l *guardedListener) room(host string, now time.Time) (found *guardedConn) {
	own := l.hosts[host]
	better := func(c *guardedConn) bool {
		switch idle := c.idleAt(now); {
		case found == nil:
			return true
		case idle != found.idleAt(now):
			return idle
		case l.hosts[c.host] != l.hosts[found.host]:
			return l.hosts[c.host] > l.hosts[found.host]
		default:
			return c.since.Before(found.since)
		}
	}
	for c := range l.open {
		switch others := l.hosts[c.host]; {
		case c.host == host && !c.idleAt(now):
		case c.host != host && (own >= maxHostConnections || others <= own || own > 0 && !c.idleAt(now)):
		case better(c):
			found = c
		}
	}
	return found
}

// remove counts a connection no more.
func (l *guardedListener) remove(c *guardedConn) {
	if !l.open[c] {
		return
	}
	delete(l.open, c)
	if l.hosts[c.host]--; l.hosts[c.host] == 0 {
		delete(l.hosts, c.host)
	}
}

// note takes note of a connection's state. It is the server's ConnState.
func (l *guardedListener) note(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = t.NetConn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := conn.(*guardedConn)
	c.idle, c.since = state == http.StateIdle, time.Now()
}

// guardedConn is a connection that is counted until it is closed.
type guardedConn struct {
	net.Conn
	listener *guardedListener
	host     string
	idle     bool      // between two requests
	since    time.Time // it is idle, or not
}

// idleAt reports whether nobody waits for an answer, or has waited long.
func (c *guardedConn) idleAt(now time.Time) bool { return c.idle || now.Sub(c.since) > slowRequest }

// Close implements [net.Conn].
func (c *guardedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite tells the client that nothing more comes, if the connection can be half closed.
func (c *guardedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// hostOf returns an address without its port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// probes are the paths that an orchestrator asks. They say nothing secret, so they are
// answered before the password is checked: a flood of guesses must not make a healthy
// worker look dead.
var probes = map[string]bool{"/healthz": true, "/readyz": true}

// guardProbes answers probes by open, and all else by guarded.
func guardProbes(open, guarded http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if probes[r.URL.Path] {
			open.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// guardNames refuses requests for other host names than those of this machine's
// loopback. A port on loopback without a password relies on nobody else reaching it, but
// a web page can: its host's name resolves to 127.0.0.1 after the page is loaded (DNS
// rebinding), and the browser then lets it read the answers.
func guardNames(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopbackName(r.Host) {
			http.Error(w, "this port answers for localhost only: ask for 127.0.0.1, or set a password by --http-config", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopbackName reports whether a Host header names this machine's loopback. Browsers
// never ask a name server for names below localhost (RFC 6761, 6.3), and always send a
// Host header.
func isLoopbackName(hostport string) bool {
	host := strings.Trim(hostOf(hostport), "[]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Limits of logins. Checking a password takes a large part of a second of processor time,
// by design of bcrypt.
const (
	maxGuesses   = 5 // failed or pending logins of an address in guessPeriod
	guessPeriod  = 10 * time.Second
	maxGuessers  = 4096 // addresses that are told apart
	maxPasswords = 64   // passwords known to be right
)

// guesses bounds the failed logins of each address. Whoever has logged in before is not
// counted, so a flood from an address does not keep out those who share it.
type guesses struct {
	mu    sync.Mutex
	since time.Time                  // when count was last cleared
	count map[string]int             // failed or pending logins by address
	right map[[sha256.Size]byte]bool // hashes of Authorization headers that were accepted
}

func newGuesses() *guesses {
	return &guesses{count: make(map[string]int), right: make(map[[sha256.Size]byte]bool)}
}

// guard lets h check logins, and answers 429 instead if an address has had its guesses. h
// must call accepted for the requests that it lets pass.
func (g *guesses) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		if header == "" {
			h.ServeHTTP(w, r) // without a password there is nothing to check
			return
		}
		l := &login{hash: sha256.Sum256([]byte(header)), host: hostOf(r.RemoteAddr)}
		if !g.begin(l) {
			w.Header().Set("Retry-After", "10")
			http.Error(w, "too many wrong passwords: try again in 10 s", http.StatusTooManyRequests)
			return
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), loginKey{}, l)))
		if !l.accepted {
			g.refused(l)
		}
	})
}

// accepted tells g of every request that reaches h, and passes it on.
func (g *guesses) accepted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l, ok := r.Context().Value(loginKey{}).(*login); ok {
			g.succeeded(l)
		}
		h.ServeHTTP(w, r)
	})
}

// login is the login of one request.
type login struct {
	hash     [sha256.Size]byte // of its Authorization header
	host     string            // that it is counted for
	counted  bool
	accepted bool
}

// loginKey is the key of a request's *login in its context.
type loginKey struct{}

// begin reports whether a login may be checked, and counts it unless it is known to be
// right.
func (g *guesses) begin(l *login) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.right[l.hash] {
		return true
	}
	if now := time.Now(); now.Sub(g.since) >= guessPeriod {
		g.since = now
		clear(g.count)
	}
	if _, ok := g.count[l.host]; !ok && len(g.count) >= maxGuessers {
		l.host = "" // all further addresses together
	}
	if g.count[l.host] >= maxGuesses {
		return false
	}
	g.count[l.host]++
	l.counted = true
	return true
}

// succeeded remembers a login as right and takes back its count.
func (g *guesses) succeeded(l *login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.accepted = true
	if len(g.right) < maxPasswords {
		g.right[l.hash] = true
	}
	if l.counted && g.count[l.host] > 0 {
		g.count[l.host]--
	}
}

// refused forgets a login that is not right any more.
func (g *guesses) refused(l *login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.right, l.hash)
}
