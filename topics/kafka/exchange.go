package kafka

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Four requests go over kafka-go's connections in the encoding of package kmsg, which reads their answers.
// Of a fetch, kafka-go refuses the whole answer for one batch that it cannot read, and
// unpacks without a bound. Of metadata, it knows no topic ids, and answers from a cache
// that it keeps when no broker answers. Of offsets, it asks for each in a request of its own. To delete records it has no request.

// maxAnswer bounds an answer of a broker, in bytes. A broker sends more than was asked for
// only if a single batch is larger, and its largest batch (message.max.bytes) is 1 MB by
// default.
const maxAnswer = 256 << 20

// errMalformed reports an answer that is not of the protocol.
var errMalformed = errors.New("a broker's answer is malformed")

// readAnswer reads an answer into the buffer, or into a larger one, and returns what follows
// its length.
func readAnswer(r io.Reader, buffer []byte) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxAnswer {
		return nil, fmt.Errorf("%w: it has %d bytes", errMalformed, n)
	}
	return readFull(r, buffer[:0], int(n))
}

// readFull appends n bytes to the buffer. Memory is taken as they come, not for what is claimed.
func readFull(r io.Reader, buffer []byte, n int) ([]byte, error) {
	for n > 0 {
		some := min(n, max(len(buffer), cap(buffer)-len(buffer), 1<<20))
		buffer = slices.Grow(buffer, some)
		got, err := io.ReadFull(r, buffer[len(buffer):][:some])
		if buffer, n = buffer[:len(buffer)+got], n-got; err != nil {
			return buffer, err
		}
	}
	return buffer, nil
}

// raw is a request of kmsg for one broker. It implements kafka-go's [protocol.RawExchanger].
type raw struct {
	kmsg.Request
	to       int32 // id of the broker, anyBroker for any
	clientID string
	// buffer is memory for the answer. It belongs to the request even after the caller has
	// given up: the connection may still be reading into it.
	buffer []byte
}

const anyBroker = -1

// ApiKey implements [protocol.Message].
func (r *raw) ApiKey() protocol.ApiKey { return protocol.ApiKey(r.Key()) }

// Broker returns where the request goes.
func (r *raw) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: r.to}, nil
}

// Required is called before RawExchange, with the versions that the broker and kafka-go have in common. A
// request that needs a version has it already.
func (r *raw) Required(versions map[protocol.ApiKey]int16) bool {
	if r.GetVersion() == 0 {
		r.SetVersion(versions[r.ApiKey()])
	}
	return true
}

// RawExchange sends the request and reads the answer.
func (r *raw) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID(r.clientID))
	if _, err := rw.Write(format.AppendRequest(nil, r.Request, 0)); err != nil {
		return nil, err
	}
	b, err := readAnswer(rw, r.buffer)
	if err != nil {
		return nil, err
	}
	answer := &rawAnswer{Response: r.ResponseKind(), bytes: b}
	body := b[4:] // behind the correlation id: there is one request at a time on a connection
	if r.IsFlexible() {
		if len(body) == 0 || body[0] != 0 { // tags
			return nil, errMalformed
		}
		body = body[1:]
	}
	if err := answer.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if t, ok := answer.Response.(kmsg.ThrottleResponse); ok {
		answer.ThrottleTimeMs, _ = t.Throttle()
	}
	return unlessMuted(answer, nil)
}

// rawAnswer is an answer, and its bytes, which that points into.
type rawAnswer struct {
	kmsg.Response
	bytes []byte

	ThrottleTimeMs int32 // see throttleOf
}

// ApiKey implements [protocol.Message].
func (a *rawAnswer) ApiKey() protocol.ApiKey { return protocol.ApiKey(a.Key()) }

// exchange sends a request to a broker, once, and returns its answer.
func (k *coordinators) exchange(ctx context.Context, to int32, req kmsg.Request, buffer []byte) (*rawAnswer, error) {
	m, err := k.RoundTrip(ctx, k.addr, &raw{req, to, k.ClientID, buffer})
	if err != nil {
		return nil, err
	}
	return m.(*rawAnswer), nil
}

// metadataVersion is the first version of metadata with topic ids (KIP-516), of Kafka 2.8.
// An older broker closes the connection.
const metadataVersion = 10

// known is what a broker says of a topic.
type known struct {
	code       kafkago.Error // why it does not say more, 0 if it does
	id         string        // changes when the topic is created anew; "" if the broker has none
	partitions int
	rights     int32 // bits of the operations that this client may do, not above 0 if the broker does not say
}

// ask asks a broker about topics, by their names, once. An answer is of a broker that lives.
func (k *coordinators) ask(ctx context.Context, topics ...string) (map[string]known, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	req := &kmsg.MetadataRequest{Version: metadataVersion, Topics: []kmsg.MetadataRequestTopic{}, IncludeTopicAuthorizedOperations: true}
	for i := range topics {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &topics[i]})
	}
	answer, err := k.exchange(ctx, anyBroker, req, nil)
	if err != nil {
		return nil, err
	}
	all := make(map[string]known)
	for _, t := range answer.Response.(*kmsg.MetadataResponse).Topics {
		x := known{code: kafkago.Error(t.ErrorCode), partitions: len(t.Partitions), rights: t.AuthorizedOperations}
		if t.TopicID != [16]byte{} {
			x.id = hex.EncodeToString(t.TopicID[:])
		}
		if t.Topic != nil {
			all[*t.Topic] = x
		}
	}
	return all, nil
}

// askThrottled asks a broker for its versions, to which it says whether a quota throttles this client: kafka-go asks in an older
// form, to which it does not.
func (k *coordinators) askThrottled(ctx context.Context, broker string) {
	ctx, cancel := context.WithTimeout(ctx, k.DialTimeout)
	defer cancel()
	conn, err := k.Dial(ctx, "tcp", broker)
	if err != nil {
		return
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok && conn.SetDeadline(deadline) == nil {
		form := kmsg.NewRequestFormatter(kmsg.FormatterClientID(k.ClientID))
		if _, err := conn.Write(form.AppendRequest(nil, &kmsg.ApiVersionsRequest{Version: 2}, 0)); err == nil {
			_, _ = conn.Read(make([]byte, 1))
		}
	}
}

// topicIn returns the topic of a request's list that has the name, which it adds if there is none.
func topicIn[T any](list *[]T, topic string, name func(*T) *string) *T {
	for i := range *list {
		if t := &(*list)[i]; *name(t) == topic {
			return t
		}
	}
	var t T
	*name(&t) = topic
	*list = append(*list, t)
	return &(*list)[len(*list)-1]
}
