package flags

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestSecurityWarnings: settings that work but are not safe give one warning, which names
// the flag and the remedy, and never the password: a password in the clear to another
// machine, and secrets that every user of this machine may read.
func TestSecurityWarnings(t *testing.T) {
	dir := t.TempDir()
	secret := func(name string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte("hunter2\r\n"), 0o600))
		must(t, os.Chmod(file, mode))
		return file
	}
	closed, open := secret("closed", 0o640), secret("open", 0o644)
	cert, key := kafkatest.NewAuthority(t).Issue(t, "client")
	must(t, os.Chmod(key, 0o604))
	login := func(mechanism, file string) Security {
		return Security{SASLMechanism: mechanism, SASLUser: "alice", SASLPasswordFile: file}
	}
	encrypted := login("plain", closed)
	encrypted.TLS = true
	for _, tc := range []struct {
		name    string
		flags   Security
		brokers string
		want    string
	}{
		{"plain on loopback", login("plain", closed), "127.0.0.1:9092,localhost:9092,[::1]:9092", ""},
		{"plain elsewhere", login("plain", closed), "127.0.0.1:9092,kafka.example:9092", "--sasl-mechanism plain: the password goes to kafka.example:9092 in the clear"},
		{"plain in TLS", encrypted, "kafka.example:9092", ""},
		{"scram", login("scram-sha-512", closed), "kafka.example:9092", ""},
		{"password file that all can read", login("scram-sha-512", open), "kafka.example:9092", "--sasl-password-file " + open + ": every user of this machine may read it: chmod o-r"},
		{"key file that all can read", Security{TLS: true, TLSCert: cert, TLSKey: key}, "kafka.example:9092", "--tls-key " + key + ": every user of this machine may read it: chmod o-r"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log bytes.Buffer
			if _, err := tc.flags.Config(strings.Split(tc.brokers, ","), Process{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}); err != nil {
				t.Fatal(err)
			}
			got := log.String()
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) || strings.Count(got, "\n") > 1 || strings.Contains(got, "hunter2") {
				t.Errorf("the log is %q, want one line with %q, or none for an empty one", got, tc.want)
			}
		})
	}
}

// TestReadSecret: a file's text is the password, without the end of line that editors
// add. An empty file and one that is too long for a password are refused.
func TestReadSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for content, want := range map[string]string{
		"pw":                                    "pw",
		"pw\n":                                  "pw",
		"pw\r\n":                                "pw",
		" p w \n":                               " p w ",
		"p\nw\n\n":                              "p\nw",
		strings.Repeat("x", maxSecret-1) + "\n": strings.Repeat("x", maxSecret-1),
	} {
		must(t, os.WriteFile(file, []byte(content), 0o600))
		if got, err := readSecret(file); got != want || err != nil {
			t.Errorf("a file with %q gives %q and error %v, want %q", content, got, err, want)
		}
	}
	for _, content := range []string{"", "\n", strings.Repeat("x", maxSecret+1)} {
		must(t, os.WriteFile(file, []byte(content), 0o600))
		if got, err := readSecret(file); err == nil {
			t.Errorf("a file of %d bytes gives %q, want an error", len(content), got)
		}
	}
}

// TestSecurityPairs: a flag that does nothing without another, or that another replaces, is refused by name with the remedy, and no
// secret of a file or a variable is in any error.
func TestSecurityPairs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte("hunter2"), 0o600))
	for _, c := range []struct {
		f        Security
		password string
		want     string
	}{
		{Security{TLSCA: "ca"}, "", "--tls-ca ca: does nothing without --tls"},
		{Security{TLSCert: "c", TLSKey: "k"}, "", "--tls-cert c: does nothing without --tls"},
		{Security{TLSServerName: "n"}, "", "--tls-server-name n: does nothing without --tls"},
		{Security{TLS: true, TLSCert: "c"}, "", "--tls-cert c: has no key: add --tls-key FILE"},
		{Security{TLS: true, TLSKey: "k"}, "", "--tls-key k: has no certificate"},
		{Security{TLS: true, TLSCA: file}, "", "--tls: "},
		{Security{SASLUser: "u"}, "", "--sasl-user u: does nothing without --sasl-mechanism"},
		{Security{SASLPasswordFile: file}, "", "does nothing without --sasl-mechanism"},
		{Security{SASLMechanism: "plain"}, "", "--sasl-mechanism plain: has no user"},
		{Security{SASLMechanism: "plain", SASLUser: "u"}, "", "--sasl-user u: has no password: add --sasl-password-file FILE, or set GVBLL_SASL_PASSWORD"},
		{Security{SASLMechanism: "plain", SASLUser: "u", SASLPasswordFile: file}, "hunter2", "GVBLL_SASL_PASSWORD is set too: keep one"},
		{Security{SASLMechanism: "plain", SASLUser: "u", SASLPasswordFile: file + "2"}, "", "give a file that can be read"},
		{Security{SASLMechanism: "oauthbearer"}, "", "has no token"},
		{Security{SASLMechanism: "oauthbearer", SASLTokenFile: file, SASLUser: "u"}, "", "needs no user"},
		{Security{SASLMechanism: "oauthbearer", SASLTokenURL: "https://h"}, "", "has no client"},
		{Security{SASLMechanism: "oauthbearer", SASLTokenURL: "http://h.example/t", SASLUser: "u"}, "hunter2", "takes the secret over TLS"},
		{Security{SASLMechanism: "oauthbearer", SASLTokenURL: "https://u:p@h/t", SASLUser: "u"}, "hunter2", "takes the secret over TLS"},
		{Security{SASLMechanism: "oauthbearer", SASLTokenURL: "https:///t", SASLUser: "u"}, "hunter2", "takes the secret over TLS"},
		{Security{SASLMechanism: "plain", SASLUser: "u", SASLTokenFile: file}, "", "does nothing without --sasl-mechanism oauthbearer"},
		{Security{SASLTokenScope: "s"}, "", "does nothing without --sasl-token-url"},
		{Security{}, "hunter2", ""},
		{Security{SASLMechanism: "scram-sha-512", SASLUser: "u"}, "hunter2", ""},
		{Security{SASLMechanism: "oauthbearer", SASLTokenURL: "http://127.0.0.1:8080/t", SASLUser: "u"}, "hunter2", ""},
		{Security{SASLMechanism: "oauthbearer", SASLTokenFile: file}, "", ""},
	} {
		p := Process{Command: "status", Env: []string{passwordVariable + "=" + c.password}, Log: slog.New(slog.DiscardHandler)}
		cfg, err := c.f.Config([]string{"localhost:9092"}, p)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%+v: error %v, want %q", c.f, err, c.want)
		}
		if err == nil && ((cfg.SASL != nil) != (c.f.SASLMechanism != "") || cfg.ClientID != "gvbll-status") {
			t.Errorf("%+v: logs in by %v, as client %s", c.f, cfg.SASL, cfg.ClientID)
		}
	}
}

// TestRemoteAddresses: an address is of another machine unless it is one of the loopback's.
func TestRemoteAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"localhost:9092": false, "127.0.0.1:9092": false, "127.9.9.9:1": false, "[::1]:9092": false, "localhost": false, "::1": false,
		"kafka:9092": true, "10.0.0.1:9092": true, "localhost.example:9092": true, "[fe80::1]:9092": true, "": true,
	} {
		if got := remote([]string{"localhost:1", address}) == address && address != "localhost:1"; got != want && !(address == "" && want) {
			t.Errorf("%q is of another machine: %v, want %v", address, got, want)
		}
	}
}
