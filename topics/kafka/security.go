package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// TLSFiles names the PEM files of a TLS configuration.
type TLSFiles struct {
	// CA holds the certificate authorities that brokers' certificates are checked
	// against. Empty means those of the operating system.
	CA string
	// Cert is this client's certificate with its intermediate certificates, and
	// Key its unencrypted private key. Give both or neither.
	Cert, Key string
	// ServerName is the name that brokers' certificates must have. Empty means
	// the host that is dialled.
	ServerName string
	// Logger is told when a certificate cannot be read again. It defaults to slog's default.
	Logger *slog.Logger
}

// maxPEM bounds the size of a file in bytes; the authorities of an operating
// system take about a fifth of it.
const maxPEM = 1 << 20

// Config reads the files. The client's certificate is read again for every new
// connection, so a renewed certificate is used without a restart. While the two
// files do not match, as in the middle of a renewal, the last pair that did is
// used.
func (f TLSFiles) Config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := readPEM(f.CA)
		if err != nil {
			return nil, fmt.Errorf("certificate authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authorities: %s holds no certificate in PEM format", f.CA)
		}
	}
	if f.Cert == "" && f.Key == "" {
		return cfg, nil
	}
	p := &pair{files: f}
	var err error
	if p.last, err = f.pair(); err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.reload(), nil }
	return cfg, nil
}

func (f TLSFiles) pair() (*tls.Certificate, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("give a certificate and its key together")
	}
	cert, err := readPEM(f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readPEM(f.Key)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s do not match: %w", f.Cert, f.Key, err)
	}
	return &c, nil
}

func readPEM(file string) ([]byte, error) { return readBounded(file, maxPEM) }

// readBounded reads a file of at most limit bytes.
func readBounded(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", file, limit)
	}
	return b, nil
}

// pair is the client's certificate with its key, reloaded from its files.
type pair struct {
	files TLSFiles
	mu    sync.Mutex
	last  *tls.Certificate // the last one that could be read
}

// reload returns the certificate as the files have it now, or the last valid one.
func (p *pair) reload() *tls.Certificate {
	c, err := p.files.pair()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		cmp.Or(p.files.Logger, slog.Default()).Warn("kafka: cannot reload the client certificate, using the last one", "err", err)
		return p.last
	}
	p.last = c
	return c
}

// mechanisms lists the SASL mechanisms that SASL accepts.
var mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// SASL returns the mechanism that authenticates a user: PLAIN (RFC 4616) sends
// the password itself and should be used inside TLS; SCRAM (RFC 5802, 7677)
// proves knowledge of it. The password is asked for at once and then for each connection, as it
// may be another one by then. Neither the result, however printed, nor an error
// contains it.
func SASL(mechanism, user string, password func() (string, error)) (sasl.Mechanism, error) {
	l := login{renewed{mechanism, user, password}}
	_, err := l.inner.(renewed).now()
	return l, err
}

// renewed is a mechanism with a password that may change.
type renewed struct {
	mechanism, user string
	password        func() (string, error)
}

// Name returns the mechanism's name to brokers.
func (r renewed) Name() string { return strings.ToUpper(r.mechanism) }

// Start begins a login with the password as it is now.
func (r renewed) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := r.now()
	if err != nil {
		return nil, nil, &tokenError{err, "password"}
	}
	return m.Start(ctx)
}

// now returns the mechanism with the password as it is now.
func (r renewed) now() (sasl.Mechanism, error) {
	password, err := r.password()
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(mechanisms, r.mechanism):
		return nil, fmt.Errorf("SASL mechanism %q: use %s", r.mechanism, strings.Join(mechanisms, ", "))
	case r.user == "" || password == "":
		return nil, errors.New("SASL needs a user and a password")
	case strings.ContainsRune(r.user+password, 0):
		return nil, errors.New("the SASL user or password holds a NUL character, which cannot be sent")
	}
	if r.mechanism == "plain" {
		return plain.Mechanism{Username: r.user, Password: password}, nil
	}
	algorithm := scram.SHA256
	if r.mechanism == "scram-sha-512" {
		algorithm = scram.SHA512
	}
	m, err := scram.Mechanism(algorithm, r.user, password)
	if err != nil {
		// The error itself would quote a character of the password.
		return nil, errors.New("the SASL user or password holds characters that SCRAM does not allow (SASLprep, RFC 4013)")
	}
	return m, nil
}

// login hides the password or the token from every way of printing the mechanism.
type login struct{ inner sasl.Mechanism }

func (l login) Name() string { return l.inner.Name() }

func (l login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return l.inner.Start(ctx)
}

func (l login) String() string   { return l.Name() }
func (l login) GoString() string { return l.Name() }

// MarshalJSON implements [json.Marshaler].
func (l login) MarshalJSON() ([]byte, error) { return json.Marshal(l.Name()) }

// dialer returns a dialer with the client's configuration, for kafka-go's
// ConsumerGroup, which makes its own connections.
func (cfg *Config) dialer() *kafkago.Dialer {
	return &kafkago.Dialer{
		ClientID: cfg.ClientID, Timeout: min(cfg.Timeout, dialFor), DualStack: true,
		DialFunc: cfg.Dialer, TLS: cfg.TLS, SASLMechanism: cfg.SASL,
	}
}

// untrusted returns an error with a remedy if one side of a TLS handshake does
// not trust the other, and nil for all other errors. Retrying does not help.
func untrusted(err error) error {
	var unverified *tls.CertificateVerificationError
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("the broker's certificate is not of this time: it has expired, or a clock is wrong (%w)", err)
	}
	if errors.As(err, &unverified) {
		return fmt.Errorf("the broker's certificate cannot be verified: check the file of certificate authorities and "+
			"the server's name (%w)", unverified)
	}
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" {
		return fmt.Errorf("the broker refuses the TLS connection: check the client's certificate and key, and who signed it (%w)", remote)
	}
	return nil
}
