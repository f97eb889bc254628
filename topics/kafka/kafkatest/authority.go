package kafkatest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File is a PEM file of its own certificate.
	File string

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an Authority with a new key and a self-signed certificate.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), key: newKey(t)}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key))
	a.cert = must[*x509.Certificate](t)(x509.ParseCertificate(der))
	write(t, a.File, block("CERTIFICATE", der))
	return a
}

// Issue makes a certificate for a host name or IP address, which servers and clients can
// use. It returns the PEM files of the certificate and its key.
func (a *Authority) Issue(t testing.TB, name string) (cert, key string) {
	t.Helper()
	k := newKey(t)
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key))
	pkcs8 := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(k))
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, block("CERTIFICATE", der))
	write(t, key, block("PRIVATE KEY", pkcs8))
	return cert, key
}

// must returns what passes a result on, and ends the test if there is an error.
func must[T any](t testing.TB) func(T, error) T {
	return func(x T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func write(t testing.TB, file string, parts ...[]byte) {
	t.Helper()
	if err := os.WriteFile(file, bytes.Join(parts, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, file string) []byte { return must[[]byte](t)(os.ReadFile(file)) }
