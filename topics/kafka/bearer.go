package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// bearer is the mechanism OAUTHBEARER (RFC 7628): each connection logs in with the token of its
// time. Brokers end a connection whose token has expired; the request that met the end is sent
// again on a new one. No error shows a token.
type bearer struct {
	token func(context.Context) (string, error)
}

// TokenFile returns the mechanism OAUTHBEARER with the token that a file holds, a newline at its
// end ignored. The file is read for each connection.
func TokenFile(file string) sasl.Mechanism {
	return login{bearer{func(context.Context) (string, error) {
		b, err := readBounded(file, maxToken)
		if err != nil {
			return "", err
		}
		token := strings.TrimRight(string(b), "\r\n")
		if !tokenText.MatchString(token) {
			return "", fmt.Errorf("%s holds no token: write it there alone", file)
		}
		return token, nil
	}}}
}

// maxToken bounds a file that holds a token, in bytes.
const maxToken = 64 << 10

// tokenText is what a bearer token consists of (RFC 6750).
var tokenText = regexp.MustCompile(`^[-A-Za-z0-9._~+/]+=*$`)

// TokenEndpoint is an authorization server that gives tokens for a client's id and secret
// (RFC 6749, section 4.4).
type TokenEndpoint struct {
	URL, ID, Scope string
	Secret         func() (string, error) // as it is now, for each token
	// Roots verify the server's certificate; nil means those of the operating system.
	Roots *x509.CertPool
	// Dialer connects to the server. Nil means the system's network.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
}

// SASL returns the mechanism OAUTHBEARER with tokens of the endpoint. One is used until it expires.
func (e TokenEndpoint) SASL() sasl.Mechanism {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: e.Roots},
		DialContext: e.Dialer, DisableKeepAlives: true,
	}}
	source := oauth2.ReuseTokenSource(nil, tokenSource{e, client})
	return login{bearer{func(context.Context) (string, error) {
		token, err := source.Token()
		if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) { // which quotes the answer
			return "", fmt.Errorf("%s answers %s: check the client's id and secret", e.URL, refused.Response.Status)
		}
		if err != nil {
			return "", err
		}
		if !tokenText.MatchString(token.AccessToken) || token.Expiry.IsZero() {
			return "", fmt.Errorf("%s gives no bearer token with its lifetime (expires_in)", e.URL)
		}
		return token.AccessToken, nil
	}}}
}

// tokenSource asks an endpoint for a token, each time.
type tokenSource struct {
	TokenEndpoint
	client *http.Client
}

// Token implements [oauth2.TokenSource].
func (s tokenSource) Token() (*oauth2.Token, error) {
	secret, err := s.Secret()
	if err != nil {
		return nil, fmt.Errorf("the client's secret: %w", err)
	}
	cfg := clientcredentials.Config{TokenURL: s.URL, ClientID: s.ID, ClientSecret: secret, Scopes: strings.Fields(s.Scope)}
	return cfg.Token(context.WithValue(context.Background(), oauth2.HTTPClient, s.client))
}

func (bearer) Name() string { return "OAUTHBEARER" }

// Start returns the message that logs in.
func (b bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, nil, &tokenError{cause: err}
	}
	return b, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
}

// Next ends the exchange. Brokers answer a token that they accept with nothing, and one that they
// refuse with the reason, which may quote it.
func (bearer) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if len(challenge) > 0 {
		return false, nil, errRefusedToken
	}
	return true, nil, nil
}

// tokenError is that there is no token or password, or that brokers refuse it. It passes: the next one
// may be on its way. A password is refused for good after a while, and at once by Dial.
type tokenError struct {
	cause error
	of    string // "" for a token
}

func (e *tokenError) Error() string { return "SASL " + cmp.Or(e.of, "token") + ": " + e.cause.Error() }
func (e *tokenError) Unwrap() error { return e.cause }

var (
	errRefusedToken    = &tokenError{cause: errors.New("the brokers refuse it: it may have expired, or be meant for others")}
	errRefusedPassword = &tokenError{errors.New("the brokers refuse it: it may be changed just now"), "password"}
)
