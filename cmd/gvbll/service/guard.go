package service

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of connections. Each takes a file descriptor, of which checkpoints and brokers
// need some too, and a goroutine.
const (
	maxHostConnections = 64 // from one address
	maxConnections     = 128
	// mostConnections has room for one of each further address, so that nobody can keep out the
	// probes of an orchestrator or Prometheus.
	mostConnections = 1024
)

// guardedListener accepts connections within these limits. For a new one beyond them the one goes that
// has been idle for longest: of those that have shown no password, if there are any.
//
// It is not a netutil.LimitListener, whose connections have no CloseWrite: net/http then
// resets a connection whose request it refuses half-way, and the client never reads why.
type guardedListener struct {
	net.Listener

	mu    sync.Mutex // guards the connections, too
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
		c := &guardedConn{Conn: conn, listener: l, host: hostOf(conn.RemoteAddr().String()), since: time.Now()}
		goes, ok := l.add(c)
		if goes != nil {
			_ = goes.Conn.Close()
		}
		if ok {
			return c, nil
		}
		_ = conn.Close()
	}
}

// add counts a new connection if it is within the limits, or if another one goes, which it returns.
func (l *guardedListener) add(c *guardedConn) (goes *guardedConn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.hosts[c.host]
	if same := own >= maxHostConnections || own > 0 && len(l.open) >= maxConnections; same || len(l.open) >= mostConnections {
		for x := range l.open {
			if x.requests == 0 && (!same || x.host == c.host) && (goes == nil || x.before(goes)) {
				goes = x
			}
		}
		if goes == nil {
			return nil, false
		}
		l.drop(goes)
	}
	l.open[c] = true
	l.hosts[c.host]++
	return goes, true
}

// drop counts a connection no more. The lock is held.
func (l *guardedListener) drop(c *guardedConn) {
	if !l.open[c] {
		return
	}
	delete(l.open, c)
	if l.hosts[c.host]--; l.hosts[c.host] == 0 {
		delete(l.hosts, c.host)
	}
}

// guardedConn is a connection that is counted until it is closed.
type guardedConn struct {
	net.Conn
	listener *guardedListener
	host     string
	requests int       // that are being answered
	since    time.Time // when it was accepted, or idle last
	known    bool      // it has shown a password
}

// before reports whether c goes before x.
func (c *guardedConn) before(x *guardedConn) bool {
	if c.known != x.known {
		return x.known
	}
	return c.since.Before(x.since)
}

// Close implements [net.Conn].
func (c *guardedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.drop(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// connKey is where a request's context has its guardedConn.
type connKey struct{}

// withConn adds the connection to the context of its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, is := c.(*tls.Conn); is {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// noteRequests notes which connections have requests that are being answered, and, if h is behind a password, which
// have shown it.
func noteRequests(h http.Handler, known bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, is := r.Context().Value(connKey{}).(*guardedConn); is {
			count := func(n int) {
				c.listener.mu.Lock()
				defer c.listener.mu.Unlock()
				c.requests, c.since, c.known = c.requests+n, time.Now(), c.known || known
			}
			count(1)
			defer count(-1)
		}
		h.ServeHTTP(w, r)
	})
}

// CloseWrite tells the client that nothing more comes, if the connection can be half closed.
func (c *guardedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// hostOf returns an address without its port; of one of IPv6 the network of 64 bits, all of which one client may have.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().Is6() {
		network, _ := ip.WithZone("").Prefix(64)
		return network.String()
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
			http.Error(w, "this port answers for localhost only: ask for 127.0.0.1, or set a password by --http-config",
				http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLoopbackName reports whether a Host header names this machine's loopback. It is no zone and no name below
// localhost, which resolvers other than browsers may ask a name server for.
func isLoopbackName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
		if inner, is := strings.CutPrefix(host, "["); is && strings.HasSuffix(inner, "]") {
			host = strings.TrimSuffix(inner, "]")
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == "" && ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// Limits of passwords that nobody has shown to be right: each takes some 50 ms of a processor.
const (
	guessBurst   = 10 // of one address; then one each second
	maxGuessers  = 4096
	maxPasswords = 128
)

// guesses limits by address how many passwords are checked that were not right before.
type guesses struct {
	mu    sync.Mutex
	hosts map[string]*rate.Limiter
	swept time.Time                  // when those were forgotten last that have not tried for a while
	right map[[sha256.Size]byte]bool // hashes of what has passed
}

func newGuesses() *guesses {
	return &guesses{hosts: make(map[string]*rate.Limiter), right: make(map[[sha256.Size]byte]bool)}
}

// limit answers requests beyond the limit before check does, which checks the password and passes what is right on to [guesses.note].
func (g *guesses) limit(check http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, shown := r.BasicAuth(); shown && !g.may(hostOf(r.RemoteAddr), credentialOf(r)) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many passwords from this address: try again in a second", http.StatusTooManyRequests)
			return
		}
		check.ServeHTTP(w, r)
	})
}

// note notes that what a request has shown is right.
func (g *guesses) note(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, shown := r.BasicAuth(); shown {
			g.mu.Lock()
			if len(g.right) >= maxPasswords {
				clear(g.right)
			}
			g.right[credentialOf(r)] = true
			g.mu.Unlock()
		}
		h.ServeHTTP(w, r)
	})
}

func credentialOf(r *http.Request) [sha256.Size]byte {
	return sha256.Sum256([]byte(r.Header.Get("Authorization")))
}

// may reports whether what an address has shown is to be checked. Addresses beyond the limit count as one.
func (g *guesses) may(host string, shown [sha256.Size]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.right[shown] {
		return true
	}
	if g.hosts[host] == nil && len(g.hosts) >= maxGuessers {
		if time.Since(g.swept) >= time.Second {
			maps.DeleteFunc(g.hosts, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= guessBurst })
			g.swept = time.Now()
		}
		if len(g.hosts) >= maxGuessers {
			host = ""
		}
	}
	if g.hosts[host] == nil {
		g.hosts[host] = rate.NewLimiter(1, guessBurst)
	}
	return g.hosts[host].Allow()
}
