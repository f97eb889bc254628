package main

import (
	"context"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
)

// kafkaFlags are the flags of every command that talks to Kafka.
type kafkaFlags struct {
	Brokers []string `help:"Addresses of Kafka brokers, host:port." default:"127.0.0.1:9092" placeholder:"127.0.0.1:9092"`
	Prefix  string   `help:"What the topics' names begin with; one prefix is one graph." default:"gvbll"`
}

// connect returns a client whose brokers have answered, and the topics' names.
func (f kafkaFlags) connect(ctx context.Context) (*kafka.Client, topics.Names, error) {
	names, err := topics.Under(f.Prefix)
	if err != nil {
		return nil, names, usageError{err}
	}
	c, err := kafka.Dial(ctx, kafka.Config{Brokers: f.Brokers, ClientID: "gvbll", Timeout: 10 * time.Second})
	return c, names, err
}
