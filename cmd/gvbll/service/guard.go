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
	maxHostConnections = 64 // from one address, so that no client keeps out the others
)

// guardedListener accepts connections within these limits. Those beyond maxConnections
// wait in the kernel; those of an address that has maxHostConnections already are closed.
//
// It is not a netutil.LimitListener, whose connections have no CloseWrite: net/http then
// resets a connection whose request it refuses half-way, and the client never reads why.
type guardedListener struct {
	net.Listener
	places chan struct{} // an element for every connection
	closed chan struct{}
	close  func()

	mu   sync.Mutex
	open map[string]int // connections by address
}

func guardListener(l net.Listener) *guardedListener {
	closed := make(chan struct{})
	return &guardedListener{
		Listener: l, places: make(chan struct{}, maxConnections), closed: closed, close: sync.OnceFunc(func() { close(closed) }),
		open: make(map[string]int),
	}
}

// Accept implements [net.Listener].
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.places
			return nil, err
		}
		host := hostOf(c.RemoteAddr().String())
		if !l.add(host) {
			c.Close()
			<-l.places
			continue
		}
		return &guardedConn{Conn: c, closed: sync.OnceFunc(func() { l.remove(host); <-l.places })}, nil
	}
}

// Close implements [net.Listener].
func (l *guardedListener) Close() error {
	l.close()
	return l.Listener.Close()
}

// add counts a connection from host, and reports whether it may stay.
func (l *guardedListener) add(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] >= maxHostConnections {
		return false
	}
	l.open[host]++
	return true
}

func (l *guardedListener) remove(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host]--; l.open[host] == 0 {
		delete(l.open, host)
	}
}

// guardedConn is a connection that is counted until it is closed.
type guardedConn struct {
	net.Conn
	closed func()
}

// Close implements [net.Conn].
func (c *guardedConn) Close() error {
	defer c.closed()
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
