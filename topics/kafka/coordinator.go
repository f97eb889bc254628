package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// coordinators is kafka-go's transport for the requests of transactions, which go to the
// coordinators of transactional ids and of groups. kafka-go looks a coordinator up before
// each of them, which is half of the requests of a commit. Here it is looked up when a
// producer opens a session, and then after a request has failed, see [Client.retry].
type coordinators struct {
	*kafkago.Transport
	addr      net.Addr                                       // of the bootstrap brokers
	timeout   time.Duration                                  // of one request
	throttled func(request protocol.ApiKey, d time.Duration) // called with what an answer says
	trusted   atomic.Bool                                    // brokers have accepted the password

	mu sync.Mutex
	// Refusals of the password: the first and the last of those that follow each other within passwordTime.
	refused, again time.Time
	nodes          map[findcoordinator.Request]int32 // brokers' ids
}

// forget has all coordinators looked up again.
func (k *coordinators) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.nodes)
}

// RoundTrip sends a request and returns its answer.
func (k *coordinators) RoundTrip(ctx context.Context, addr net.Addr, req kafkago.Request) (kafkago.Response, error) {
	answer, err := k.roundTrip(ctx, addr, req)
	if m := (*muted)(nil); errors.As(err, &m) {
		answer, err = m.answer, nil
	}
	if k.SASL != nil && errors.Is(err, kafkago.SASLAuthenticationFailed) {
		if k.SASL.Name() == (bearer{}).Name() {
			err = errRefusedToken
		} else if k.trusted.Load() && k.mayChange(time.Now()) {
			err = errRefusedPassword
		} else if k.trusted.Load() {
			err = fmt.Errorf("the brokers refuse user or password, which they took before: put the new one into the "+
				"password's file (%w)", cause(err))
		}
	}
	if err == nil && req.ApiKey() != protocol.Metadata { // which kafka-go answers from its cache
		k.throttled(req.ApiKey(), throttleOf(answer))
	}
	return answer, err
}

// passwordTime is for how long a password that is refused may be one that is being changed.
const passwordTime = 30 * time.Second

// mayChange reports whether a password that is refused now has been for less than passwordTime.
func (k *coordinators) mayChange(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.again) > passwordTime {
		k.refused = now
	}
	k.again = now
	return now.Sub(k.refused) < passwordTime
}

func (k *coordinators) roundTrip(ctx context.Context, addr net.Addr, req kafkago.Request) (kafkago.Response, error) {
	var key findcoordinator.Request
	switch m := req.(type) {
	case *initproducerid.Request:
		k.forget()
		return k.Transport.RoundTrip(ctx, addr, req)
	case protocol.TransactionalMessage:
		key = findcoordinator.Request{Key: m.Transaction(), KeyType: int8(kafkago.CoordinatorKeyTypeTransaction)}
	case *txnoffsetcommit.Request:
		key = findcoordinator.Request{Key: m.GroupID, KeyType: int8(kafkago.CoordinatorKeyTypeConsumer)}
	case *rawproduce.Request:
		return k.Transport.RoundTrip(ctx, addr, &routed{Message: req, to: m.Broker, clientID: k.ClientID})
	default:
		return k.Transport.RoundTrip(ctx, addr, req)
	}
	node, err := k.find(ctx, addr, key)
	if err != nil {
		return nil, err
	}
	to := func(protocol.Cluster) (protocol.Broker, error) { return protocol.Broker{ID: node}, nil }
	return k.Transport.RoundTrip(ctx, addr, &routed{Message: req, to: to, clientID: k.ClientID})
}

// find returns the id of the broker that is a coordinator.
func (k *coordinators) find(ctx context.Context, addr net.Addr, key findcoordinator.Request) (int32, error) {
	k.mu.Lock()
	node, known := k.nodes[key]
	k.mu.Unlock()
	if known {
		return node, nil
	}
	m, err := k.Transport.RoundTrip(ctx, addr, &key)
	if err != nil {
		return 0, err
	}
	res := m.(*findcoordinator.Response)
	if res.ErrorCode != 0 {
		return 0, kafkago.Error(res.ErrorCode)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nodes[key] = res.NodeID
	return res.NodeID, nil
}

// routed is a request for one broker. kafka-go sends a [protocol.BrokerMessage] there, and
// leaves the encoding of a [protocol.RawExchanger] to it.
type routed struct {
	protocol.Message
	to       func(protocol.Cluster) (protocol.Broker, error)
	clientID string
	version  int16 // that the broker and kafka-go have in common
}

// Broker returns where the request goes.
func (r *routed) Broker(c protocol.Cluster) (protocol.Broker, error) { return r.to(c) }

// Required is called before RawExchange, with the connection's versions.
func (r *routed) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[r.ApiKey()]
	return true
}

// RawExchange sends the request and reads the answer.
func (r *routed) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	return unlessMuted(protocol.RoundTrip(rw, r.version, 0, r.clientID, r.Message))
}
