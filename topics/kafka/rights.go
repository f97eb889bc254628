package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
)

// denied reports whether brokers do not allow this client what it asks for.
func denied(err error) bool {
	return errors.Is(err, kafkago.TopicAuthorizationFailed) || errors.Is(err, kafkago.GroupAuthorizationFailed) ||
		errors.Is(err, kafkago.TransactionalIDAuthorizationFailed) || errors.Is(err, kafkago.ClusterAuthorizationFailed)
}

// explainDenied adds to an error who lacks which right on what, if it is one of rights.
func (c *Client) explainDenied(err error, right, on string) error {
	if !denied(err) {
		return err
	}
	who := cmp.Or(c.cfg.Principal, "this client")
	return fmt.Errorf("%s has no right to %s on %s: give it (docs/security.md) (%w)", who, right, on, cause(err))
}

// MayWrite returns an error if the brokers say that this client may not write to one of the topics.
func (c *Client) MayWrite(ctx context.Context, topics ...string) error {
	var all map[string]known
	err := c.retry(ctx, forever, func(ctx context.Context) (err error) {
		all, err = c.transport.ask(ctx, topics...)
		return err
	})
	for _, topic := range slices.Sorted(slices.Values(topics)) {
		if t := all[topic]; err == nil && t.rights > 0 && t.rights&(1<<kafkago.ACLOperationTypeWrite) == 0 {
			return c.explainDenied(kafkago.TopicAuthorizationFailed, "Write", "topic "+topic)
		}
	}
	return err
}
