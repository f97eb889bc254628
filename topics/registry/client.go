package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// Config is how a registry is reached.
type Config struct {
	URL            string
	User, Password string
	Token          func() (string, error) // of each request, nil for none
	// Dial makes connections; nil is the system's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client asks a registry for schemas.
type Client struct{ sr *sr.Client }

// answerTime and maxAnswer bound an answer. A schema in an answer is escaped, and has more to it.
const (
	answerTime = 10 * time.Second
	maxAnswer  = 4 * maxText
)

// NewClient returns a client, which asks nothing yet.
func NewClient(cfg Config) (*Client, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: cfg.Dial, ForceAttemptHTTP2: true,
		DisableKeepAlives: true, // there is a question now and then
	}
	opts := []sr.ClientOpt{
		sr.URLs(cfg.URL),
		sr.HTTPClient(&http.Client{Timeout: answerTime, Transport: bounded{transport}}),
		sr.PreReq(func(req *http.Request) error {
			if cfg.Token == nil {
				return nil
			}
			token, err := cfg.Token()
			req.Header.Set("Authorization", "Bearer "+token)
			return err
		}),
	}
	if cfg.User != "" {
		opts = append(opts, sr.BasicAuth(cfg.User, cfg.Password))
	}
	c, err := sr.NewClient(opts...)
	return &Client{c}, err
}

// bounded ends answers that are too long.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{http.MaxBytesReader(nil, resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// errAbsent says that the registry has no such schema.
var errAbsent = errors.New("no registry has it")

// Schema returns a schema with all that it refers to. The error is errAbsent if there is none; after any other one it is to be asked
// again.
func (c *Client) Schema(ctx context.Context, id uint32) (Schema, error) {
	found, err := c.sr.SchemaByID(ctx, int(id))
	var answer *sr.ResponseError
	switch {
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return Schema{}, errAbsent
	}
	s := Schema{ID: id, Type: found.Type.String(), Text: found.Schema}
	if err == nil {
		err = c.refer(ctx, &s, found.References, new(int))
	}
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		s.Refused, err = fmt.Sprintf("an answer of more than %d bytes", maxAnswer), nil
	}
	return s, err
}

// refer adds references, and first those that they have, in so many answers.
func (c *Client) refer(ctx context.Context, s *Schema, list []sr.SchemaReference, answers *int) error {
	for _, r := range list {
		if slices.ContainsFunc(s.References, func(known Reference) bool { return known.Name == r.Name }) {
			continue
		}
		if *answers++; *answers > maxReferences || s.size() > maxText {
			s.Refused = fmt.Sprintf("more than %d references, or %d bytes", maxReferences, maxText)
			return nil
		}
		found, err := c.sr.SchemaByVersion(ctx, r.Subject, r.Version)
		if err != nil {
			return fmt.Errorf("its reference %.60q: %w", r.Name, err)
		}
		if err := c.refer(ctx, s, found.References, answers); err != nil || s.Refused != "" {
			return err
		}
		s.References = append(s.References, Reference{r.Name, found.Schema.Schema})
	}
	return nil
}

// Check returns an error if the registry answers that it does not know who asks.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.sr.SupportedTypes(ctx)
	var answer *sr.ResponseError
	if errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("it answers %d, %.100s", answer.StatusCode, cmp.Or(answer.Message, http.StatusText(answer.StatusCode)))
	}
	return nil
}
