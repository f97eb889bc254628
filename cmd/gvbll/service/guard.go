package service

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
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

// guardedListener accepts connections within these limits, and closes others.
//
// It is not a netutil.LimitListener, whose connections have no CloseWrite: net/http then
// resets a connection whose request it refuses half-way, and the client never reads why.
type guardedListener struct {
	net.Listener

	mu    sync.Mutex
	open  int
	hosts map[string]int // connections by address
}

func guardListener(l net.Listener) *guardedListener {
	return &guardedListener{Listener: l, hosts: make(map[string]int)}
}

// Accept implements [net.Listener].
func (l *guardedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(conn.RemoteAddr().String())
		if l.add(host) {
			return &guardedConn{Conn: conn, remove: sync.OnceFunc(func() { l.remove(host) })}, nil
		}
		conn.Close()
	}
}

// add counts a new connection of an address if it is within the limits.
func (l *guardedListener) add(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.hosts[host]
	if own >= maxHostConnections || l.open >= mostConnections || own > 0 && l.open >= maxConnections {
		return false
	}
	l.open++
	l.hosts[host]++
	return true
}

// remove counts a connection no more.
func (l *guardedListener) remove(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}

// guardedConn is a connection that is counted until it is closed.
type guardedConn struct {
	net.Conn
	remove func()
}

// Close implements [net.Conn].
func (c *guardedConn) Close() error {
	c.remove()
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
