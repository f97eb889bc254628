package flags

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/topics/registry"
)

// Registry is a schema registry: its address and, after commas, how to log in. "" is none.
type Registry struct{ url, user, password, token string }

func (f *Registry) pairs() []setting.Pair {
	return []setting.Pair{
		{Name: "user", Value: word{&f.user}}, {Name: "password", Value: word{&f.password}}, {Name: "token", Value: word{&f.token}},
	}
}

// word is a text as a value of a pair.
type word struct{ field *string }

func (w word) String() string        { return *w.field }
func (w word) Set(text string) error { *w.field = text; return nil }
func (word) Kind() (string, string)  { return "TEXT", "text" }

func (f Registry) String() string {
	if more := setting.JoinPairs(f.pairs()...); more != "" {
		return f.url + "," + more
	}
	return f.url
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Registry) UnmarshalText(text []byte) error {
	address, more, isMore := strings.Cut(string(text), ",")
	*f = Registry{url: address}
	if isMore {
		if err := setting.ParsePairs(more, f.pairs()...); err != nil {
			return err
		}
	}
	switch u, err := url.Parse(address); {
	case address == "" && !isMore:
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%.60q: give the registry's address, https://HOST:PORT", address)
	case u.User != nil:
		return fmt.Errorf("an address with a password: give https://HOST,user=NAME,password=FILE")
	case (f.user == "") != (f.password == ""):
		return fmt.Errorf("give user=NAME and password=FILE, both or neither")
	case f.token != "" && f.user != "":
		return fmt.Errorf("give user and password, or token=FILE, and not both")
	}
	return nil
}

// Open returns what asks the registry, nil for none. A registry that refuses is an error; one that is away is waited for when
// it is needed.
func (f Registry) Open(ctx context.Context, p Process) (registry.Source, error) {
	if f.url == "" {
		return nil, nil
	}
	cfg := registry.Config{URL: f.url, User: f.user, Dial: p.Dial}
	var err error
	if f.user != "" {
		if cfg.Password, err = readSecret(f.password); err != nil {
			return nil, Usagef("--registry: password=%v", err)
		}
		p.warnIfOpen("--registry", f.password)
	}
	if f.token != "" {
		if _, err = readSecret(f.token); err != nil {
			return nil, Usagef("--registry: token=%v", err)
		}
		cfg.Token = func() (string, error) { return readSecret(f.token) } // it may be changed
		p.warnIfOpen("--registry", f.token)
	}
	u, err := url.Parse(f.url)
	if err != nil {
		return nil, err
	}
	if away := remote([]string{u.Host}); away != "" && u.Scheme == "http" && f.user+f.token != "" {
		p.Log.Warn(fmt.Sprintf("--registry: the password or token goes to %s in the clear: give https://", away))
	}
	c, err := registry.NewClient(cfg)
	if err == nil {
		err = c.Check(ctx)
	}
	if err != nil {
		return nil, Usagef("--registry %s: %w: check the address, and user, password or token", f.url, err)
	}
	return c, nil
}
