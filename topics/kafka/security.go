package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

// TLSFiles say whom to trust and who this client is. Files are in PEM format.
type TLSFiles struct {
	// CA holds the authorities that may have signed the brokers' certificates.
	// Empty means those of the operating system.
	CA string
	// Cert and Key are this client's certificate, with what lies between it and
	// its authority, and its key, not encrypted. Both or neither.
	Cert, Key string
	// ServerName is looked for in the brokers' certificates. Empty means the
	// host that is dialled.
	ServerName string
}

// maxPEM bounds a file in bytes: the authorities of an operating system take a
// fifth of it.
const maxPEM = 1 << 20

// Config reads the files. The client's certificate is read again for every
// connection, so that a renewed one is taken up; while the files do not make a
// pair, as in the middle of a renewal, the last one that did is used.
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
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.now(), nil }
	return cfg, nil
}

func (f TLSFiles) pair() (*tls.Certificate, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("a certificate and its key are given together")
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
		return nil, fmt.Errorf("%s and %s make no pair: %w", f.Cert, f.Key, err)
	}
	return &c, nil
}

func readPEM(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxPEM {
		return nil, fmt.Errorf("%s has more than %d bytes", file, maxPEM)
	}
	return b, nil
}

// pair is a certificate with its key, as the files have it.
type pair struct {
	files TLSFiles
	mu    sync.Mutex
	last  *tls.Certificate // that could be read
}

func (p *pair) now() *tls.Certificate {
	c, err := p.files.pair()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		slog.Warn("kafka: the client certificate cannot be read again, going on with the last one", "err", err)
		return p.last
	}
	p.last = c
	return c
}

// Mechanisms are the names that SASL knows.
var Mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// SASL returns how a user shows who it is: PLAIN (RFC 4616), which sends the
// password as it is and belongs inside TLS, or SCRAM (RFC 5802, 7677), which
// proves to know it. Neither the result, however printed, nor an error shows
// the password.
func SASL(mechanism, user, password string) (sasl.Mechanism, error) {
	switch {
	case !slices.Contains(Mechanisms, mechanism):
		return nil, fmt.Errorf("SASL mechanism %q: use %s", mechanism, strings.Join(Mechanisms, ", "))
	case user == "" || password == "":
		return nil, errors.New("SASL needs a user and a password")
	case strings.ContainsRune(user+password, 0):
		return nil, errors.New("the SASL user or password holds a NUL character, which cannot be sent")
	}
	if mechanism == "plain" {
		return login{plain.Mechanism{Username: user, Password: password}}, nil
	}
	algorithm := scram.SHA256
	if mechanism == "scram-sha-512" {
		algorithm = scram.SHA512
	}
	m, err := scram.Mechanism(algorithm, user, password)
	if err != nil {
		// The error itself names a character of what it complains of.
		return nil, errors.New("the SASL user or password holds characters that SCRAM does not allow (SASLprep, RFC 4013)")
	}
	return login{m}, nil
}

// login keeps the password out of whatever prints the mechanism.
type login struct{ inner sasl.Mechanism }

func (l login) Name() string { return l.inner.Name() }

func (l login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	return l.inner.Start(ctx)
}

func (l login) String() string   { return l.Name() }
func (l login) GoString() string { return l.Name() }

// Dialer returns what enters the cluster in the same way as the client, for the
// parts of kafka-go that dial for themselves: its ConsumerGroup.
func (c *Client) Dialer() *kafkago.Dialer {
	return &kafkago.Dialer{
		ClientID: c.cfg.ClientID, Timeout: c.transport.DialTimeout, DualStack: true,
		TLS: c.cfg.TLS, SASLMechanism: c.cfg.SASL,
	}
}

// distrust says which side of a TLS handshake does not trust the other, and
// what to check; nil for errors that are something else. Neither passes by
// itself.
func distrust(err error) error {
	var unverified *tls.CertificateVerificationError
	if errors.As(err, &unverified) {
		return fmt.Errorf("the broker's certificate is not to be trusted: check the file of certificate authorities and the server's name (%w)", unverified)
	}
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" {
		return fmt.Errorf("the broker refuses the TLS connection: check the client's certificate and key, and who signed it (%w)", remote)
	}
	return nil
}
