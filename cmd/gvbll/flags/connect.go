package flags

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
)

// Kafka are the flags of every command that talks to Kafka.
type Kafka struct {
	Brokers []string `help:"Addresses of Kafka brokers, host:port." default:"127.0.0.1:9092" placeholder:"127.0.0.1:9092" group:"kafka"`
	Prefix  string   `help:"Prefix of the topics' names; one prefix is one graph." default:"gvbll" group:"kafka"`

	Security Security `embed:"" group:"security"`
}

// Cell is the flag of a command that may be about one cell of a graph.
type Cell struct {
	Cell *int32 `help:"The cell, of a graph of several ('gvbll topics --cells'): a number from 0." placeholder:"N" group:"kafka"`
}

// Of returns the names of the cell that the flag gives, of those of the graph.
func (f Cell) Of(n topics.Names) (topics.Names, error) {
	switch {
	case f.Cell == nil:
		return n, nil
	case n.Cells == 0:
		return n, Usagef("--cell %d: the graph has one cell: leave it out", *f.Cell)
	case *f.Cell < 0 || int(*f.Cell) >= n.Cells:
		return n, Usagef("--cell %d: the graph has %d cells: give 0 to %d", *f.Cell, n.Cells, n.Cells-1)
	}
	return n.Of(*f.Cell), nil
}

// Inputs are the flags of a command that reads or writes the nodes and labels too.
type Inputs struct {
	Kafka
	InputsPrefix string `help:"@inputs_prefix" placeholder:"PREFIX" group:"kafka"`
	NodesTopic   string `help:"@nodes_topic" placeholder:"TOPIC" group:"kafka"`
	LabelsTopic  string `help:"Topic of labels, if its name is not the prefix and .labels." placeholder:"TOPIC" group:"kafka"`
}

var inputsHelp = Texts{
	"inputs_prefix": "Prefix of the topics of nodes and labels, if it is another: several models on one stream.",
	"nodes_topic":   "Topic of nodes, if its name is not the prefix and .nodes: any topic that is there.",
}

// Connect returns a client, once a broker has answered, and the topics' names.
func (f Inputs) Connect(ctx context.Context, p Process) (*kafka.Client, topics.Names, error) {
	inputs, err := topics.Under(cmp.Or(f.InputsPrefix, f.Prefix))
	if err != nil {
		return nil, inputs, usageError{err}
	}
	inputs.Nodes, inputs.Labels = cmp.Or(f.NodesTopic, inputs.Nodes), cmp.Or(f.LabelsTopic, inputs.Labels)
	own, err := topics.Under(f.Prefix)
	if err == nil {
		err = own.Take(inputs.Nodes, inputs.Labels)
	}
	if err != nil {
		return nil, inputs, usageError{err}
	}
	c, _, err := f.Kafka.Connect(ctx, p)
	return c, own, err
}

// Security are the flags of a cluster with TLS or passwords. No flag's value is a
// secret, because other users can see command lines.
type Security struct {
	TLS           bool   `help:"Connect to the brokers over TLS." name:"tls"`
	TLSCA         string `help:"@tls_ca" name:"tls-ca" placeholder:"FILE"`
	TLSCert       string `help:"PEM file of this client's certificate, read again for each connection." name:"tls-cert" placeholder:"FILE"`
	TLSKey        string `help:"PEM file of the key of that certificate." name:"tls-key" placeholder:"FILE"`
	TLSServerName string `help:"Name in the brokers' certificates, if it is not their address." name:"tls-server-name" placeholder:"NAME"`

	SASLMechanism    string `help:"@sasl_mechanism" name:"sasl-mechanism" enum:",plain,scram-sha-256,scram-sha-512,oauthbearer" default:"" placeholder:"NAME"`
	SASLUser         string `help:"User to log in as; of oauthbearer, the client's id." name:"sasl-user" placeholder:"USER"`
	SASLPasswordFile string `help:"@sasl_password_file" name:"sasl-password-file" placeholder:"FILE"`
	SASLTokenFile    string `help:"@sasl_token_file" name:"sasl-token-file" placeholder:"FILE"`
	SASLTokenURL     string `help:"@sasl_token_url" name:"sasl-token-url" hidden:"" placeholder:"URL"`
	SASLTokenScope   string `help:"Scopes of these tokens, separated by spaces." name:"sasl-token-scope" hidden:"" placeholder:"SCOPES"`
}

var securityHelp = Texts{
	"tls_ca":         "PEM file of the certificate authorities to trust; the system's when left out.",
	"sasl_mechanism": "SASL mechanism to log in with: plain, scram-sha-256, scram-sha-512 or oauthbearer.",
	"sasl_password_file": "File of the password, or the client's secret. Or set GVBLL_SASL_PASSWORD to the " +
		"password itself.",
	"sasl_token_file": "File that holds the token of oauthbearer, read again for each connection.",
	"sasl_token_url":  "Where to get tokens of oauthbearer instead, with the client's id and secret.",
}

// passwordVariable is the environment variable of the password. There is no flag for
// it, so that the password cannot appear on a command line.
const passwordVariable = "GVBLL_SASL_PASSWORD"

// Connect returns a client, once a broker has answered, and the topics' names.
func (f Kafka) Connect(ctx context.Context, p Process) (*kafka.Client, topics.Names, error) {
	names, err := topics.Under(f.Prefix)
	if err != nil {
		return nil, names, usageError{err}
	}
	cfg, err := f.Security.Config(f.Brokers, p)
	if err != nil {
		return nil, names, err
	}
	c, err := kafka.Dial(ctx, cfg)
	return c, names, err
}

// Config reads the files that the flags name.
func (f Security) Config(brokers []string, p Process) (kafka.Config, error) {
	cfg := kafka.Config{
		Brokers: brokers, Dialer: p.Dial, Logger: p.Log,
		ClientID: strings.TrimSuffix("gvbll-"+p.Command, "-"), Timeout: 10 * time.Second,
	}
	if err := f.check(); err != nil {
		return cfg, err
	}
	for _, at := range brokers {
		_, port, err := net.SplitHostPort(at)
		if _, wrong := strconv.ParseUint(port, 10, 16); strings.ContainsAny(at, "/; ") || port == "0" || err == nil && wrong != nil {
			return cfg, Usagef("--brokers %s: give addresses as host:port, such as kafka-1:9092", at)
		}
	}
	var err error
	if f.TLS {
		files := kafka.TLSFiles{CA: f.TLSCA, Cert: f.TLSCert, Key: f.TLSKey, ServerName: f.TLSServerName, Logger: p.Log}
		if cfg.TLS, err = files.Config(); err != nil {
			return cfg, fmt.Errorf("--tls: %w", err)
		}
		if f.TLSKey != "" {
			p.warnIfOpen("--tls-key", f.TLSKey)
		}
	}
	if cfg.Principal = f.SASLUser; cfg.Principal == "" {
		cfg.Principal = f.TLSCert
	}
	if f.SASLMechanism == "" {
		return cfg, nil
	}
	away := remote(brokers)
	switch {
	case f.SASLTokenFile != "":
		if cfg.SASL = kafka.TokenFile(f.SASLTokenFile); !f.TLS && away != "" {
			p.Log.Warn(fmt.Sprintf("--sasl-token-file: the token goes to %s in the clear: add --tls", away))
		}
		p.warnIfOpen("--sasl-token-file", f.SASLTokenFile)
		return cfg, nil
	case f.SASLMechanism == "plain" && !f.TLS && away != "":
		p.Log.Warn(fmt.Sprintf("--sasl-mechanism plain: the password goes to %s in the clear: add --tls, or use scram-sha-512", away))
	}
	password, err := f.password(p)
	if err != nil {
		return cfg, err
	}
	if f.SASLTokenURL != "" {
		cfg.SASL, err = f.endpoint(password, cfg)
	} else if cfg.SASL, err = kafka.SASL(f.SASLMechanism, f.SASLUser, f.renewed(password)); err != nil {
		err = fmt.Errorf("--sasl-mechanism %s: %w", f.SASLMechanism, err)
	}
	return cfg, err
}

// renewed returns the password of the file as it is now, or the given one without a file.
func (f Security) renewed(password string) func() (string, error) {
	return func() (string, error) {
		if f.SASLPasswordFile == "" {
			return password, nil
		}
		return readSecret(f.SASLPasswordFile)
	}
}

// endpoint returns the mechanism with tokens for a client's id and secret. The secret is sent to
// another machine over TLS alone.
func (f Security) endpoint(secret string, cfg kafka.Config) (sasl.Mechanism, error) {
	u, err := url.Parse(f.SASLTokenURL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || remote([]string{u.Host}) != "") {
		return nil, Usagef("--sasl-token-url: give the address of a server that takes the secret over TLS, https://HOST/PATH")
	}
	e := kafka.TokenEndpoint{URL: f.SASLTokenURL, ID: f.SASLUser, Secret: f.renewed(secret), Scope: f.SASLTokenScope, Dialer: cfg.Dialer}
	if cfg.TLS != nil {
		e.Roots = cfg.TLS.RootCAs
	}
	return e.SASL(), nil
}

// check returns an error for flags that need others.
func (f Security) check() error {
	bearer := f.SASLMechanism == "oauthbearer"
	for _, needs := range []struct {
		flag, value string
		met         bool
		remedy      string
	}{
		{"--tls-ca", f.TLSCA, f.TLS, "does nothing without --tls: add it"},
		{"--tls-cert", f.TLSCert, f.TLS, "does nothing without --tls: add it"},
		{"--tls-key", f.TLSKey, f.TLS, "does nothing without --tls: add it"},
		{"--tls-server-name", f.TLSServerName, f.TLS, "does nothing without --tls: add it"},
		{"--tls-cert", f.TLSCert, f.TLSKey != "", "has no key: add --tls-key FILE"},
		{"--tls-key", f.TLSKey, f.TLSCert != "", "has no certificate: add --tls-cert FILE"},
		{"--sasl-mechanism", f.SASLMechanism, bearer || f.SASLUser != "", "has no user: add --sasl-user USER"},
		{
			"--sasl-mechanism", f.SASLMechanism, !bearer || f.SASLTokenFile+f.SASLTokenURL != "",
			"has no token: add --sasl-token-file FILE, or --sasl-token-url URL",
		},
		{"--sasl-token-file", f.SASLTokenFile, bearer, "does nothing without --sasl-mechanism oauthbearer: add it"},
		{
			"--sasl-token-file", f.SASLTokenFile, f.SASLUser+f.SASLPasswordFile+f.SASLTokenURL == "",
			"needs no user, password or URL: leave them out",
		},
		{"--sasl-token-url", f.SASLTokenURL, bearer, "does nothing without --sasl-mechanism oauthbearer: add it"},
		{
			"--sasl-token-url", f.SASLTokenURL, f.SASLUser != "",
			"has no client: add --sasl-user ID, and its secret with --sasl-password-file FILE",
		},
		{"--sasl-token-scope", f.SASLTokenScope, f.SASLTokenURL != "", "does nothing without --sasl-token-url: add it"},
		{"--sasl-user", f.SASLUser, f.SASLMechanism != "", "does nothing without --sasl-mechanism: add it"},
		{"--sasl-password-file", f.SASLPasswordFile, f.SASLMechanism != "", "does nothing without --sasl-mechanism: add it"},
	} {
		if needs.value != "" && !needs.met {
			return Usagef("%s %s: %s", needs.flag, needs.value, needs.remedy)
		}
	}
	return nil
}

// password returns the password, from the file or the environment. Errors never
// contain it.
func (f Security) password(p Process) (string, error) {
	password := p.Variable(passwordVariable)
	switch {
	case f.SASLPasswordFile == "" && password == "":
		return "", Usagef("--sasl-user %s: has no password: add --sasl-password-file FILE, or set %s", f.SASLUser, passwordVariable)
	case f.SASLPasswordFile == "":
		return password, nil
	case password != "":
		return "", Usagef("--sasl-password-file %s: %s is set too: keep one of them", f.SASLPasswordFile, passwordVariable)
	}
	password, err := readSecret(f.SASLPasswordFile)
	if err != nil {
		return "", fmt.Errorf("--sasl-password-file %s: %w", f.SASLPasswordFile, err)
	}
	p.warnIfOpen("--sasl-password-file", f.SASLPasswordFile)
	return password, nil
}

// maxSecret bounds a file that should hold a password, in bytes.
const maxSecret = 4096

// readSecret returns the text of a file without the line's end that editors add.
func readSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%w: give a file that can be read", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("%w: give a file that can be read", err)
	}
	secret := strings.TrimRight(string(b), "\r\n")
	switch {
	case len(b) > maxSecret:
		return "", fmt.Errorf("more than %d bytes: give a file that holds the password alone", maxSecret)
	case secret == "":
		return "", fmt.Errorf("it is empty: write the password into it")
	}
	return secret, nil
}

// warnIfOpen warns if all users of the machine can read a secret.
func (p Process) warnIfOpen(flag, file string) {
	if i, err := os.Stat(file); err == nil && i.Mode().Perm()&0o004 != 0 {
		p.Log.Warn(fmt.Sprintf("%s %s: every user of this machine may read it: chmod o-r %s", flag, file, file))
	}
}

// remote returns the first of the addresses that is not on this machine's
// loopback, or "".
func remote(addresses []string) string {
	for _, a := range addresses {
		host, _, err := net.SplitHostPort(a)
		if err != nil {
			host = a
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return a
		}
	}
	return ""
}
