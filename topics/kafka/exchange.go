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
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// Two requests go over kafka-go's connections, and their answers are read here. Of a
// fetch, kafka-go refuses the whole answer for one batch that it cannot read, and
// unpacks without a bound. Of metadata, it knows no topic ids, and answers from a cache
// that it keeps when no broker answers.

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
	buffer = slices.Grow(buffer[:0], int(n))[:n]
	_, err := io.ReadFull(r, buffer)
	return buffer, err
}

// rawFetch is a fetch request with an answer of bytes. It implements kafka-go's
// [protocol.RawExchanger].
type rawFetch struct {
	*fetch.Request
	clientID string
	// buffer is memory for the answer. It belongs to the request even after the caller has
	// given up: the connection may still be reading into it.
	buffer  []byte
	version int16 // that the broker and kafka-go have in common
}

// Required is called before RawExchange, with the connection's versions.
func (f *rawFetch) Required(versions map[protocol.ApiKey]int16) bool {
	f.version = versions[protocol.Fetch]
	return true
}

// RawExchange sends the request and reads the answer.
func (f *rawFetch) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if err := protocol.WriteRequest(rw, f.version, 0, f.clientID, f.Request); err != nil {
		return nil, err
	}
	b, err := readAnswer(rw, f.buffer)
	answer := &rawAnswer{key: protocol.Fetch, version: f.version, bytes: b}
	if len(b) >= 8 {
		answer.ThrottleTimeMs = int32(binary.BigEndian.Uint32(b[4:]))
	}
	return unlessMuted(answer, err)
}

// rawAnswer is an answer before it is decoded: the correlation id, and what follows it.
type rawAnswer struct {
	key     protocol.ApiKey
	version int16
	bytes   []byte

	ThrottleTimeMs int32 // see throttleOf
}

func (a *rawAnswer) ApiKey() protocol.ApiKey { return a.key }

// answer is what a fetch says of one partition.
type answer struct {
	at           TopicPartition
	code         kafkago.Error
	high, stable int64 // high watermark and last stable offset
	aborted      []fetch.ResponseTransaction
	batches      []byte
}

// err returns the answer's error, nil for none.
func (a *answer) err() error {
	if a.code != 0 {
		return a.code
	}
	return nil
}

// answers decodes a fetch answer of versions 4 to 11. The batches point into its bytes.
func (a *rawAnswer) answers() ([]answer, error) {
	in := input{b: a.bytes}
	in.int32() // correlation id: there is one request at a time on a connection
	in.int32() // throttle time
	if a.version >= 7 {
		if code := in.int16(); code != 0 {
			return nil, kafkago.Error(code)
		}
		in.int32() // session
	}
	var all []answer
	for range in.list(6) {
		topic := in.string()
		for range in.list(30) {
			p := answer{at: TopicPartition{topic, in.int32()}, code: kafkago.Error(in.int16()), high: in.int64(), stable: in.int64()}
			if a.version >= 5 {
				in.int64() // log start offset
			}
			for range in.list(16) {
				p.aborted = append(p.aborted, fetch.ResponseTransaction{ProducerID: in.int64(), FirstOffset: in.int64()})
			}
			if a.version >= 11 {
				in.int32() // preferred replica
			}
			if n := in.int32(); n > 0 {
				p.batches = in.take(int64(n))
			}
			all = append(all, p)
		}
	}
	if in.failed {
		return nil, errMalformed
	}
	return all, nil
}

// metadataVersion is the first version of metadata with topic ids (KIP-516), of Kafka 2.8.
// An older broker closes the connection.
const metadataVersion = 10

// rawMetadata asks a broker itself about topics, by their names.
type rawMetadata struct {
	clientID string
	topics   []string
}

func (*rawMetadata) ApiKey() protocol.ApiKey { return protocol.Metadata }

// Required says that kafka-go must not encode the request.
func (*rawMetadata) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange sends the request and reads the answer.
func (m *rawMetadata) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	be := binary.BigEndian
	b := be.AppendUint32(nil, 0) // length, set below
	b = be.AppendUint16(b, uint16(protocol.Metadata))
	b = be.AppendUint16(b, metadataVersion)
	b = be.AppendUint32(b, 0) // correlation id
	b = be.AppendUint16(b, uint16(len(m.clientID)))
	b = append(b, m.clientID...)
	b = append(b, 0) // no tags
	b = binary.AppendUvarint(b, uint64(len(m.topics)+1))
	for _, name := range m.topics {
		b = append(b, make([]byte, 16)...) // no id
		b = binary.AppendUvarint(b, uint64(len(name)+1))
		b = append(b, name...)
		b = append(b, 0)
	}
	b = append(b, 0, 0, 0, 0) // no creation, no lists of permissions, no tags
	be.PutUint32(b, uint32(len(b)-4))
	if _, err := rw.Write(b); err != nil {
		return nil, err
	}
	answer, err := readAnswer(rw, nil)
	return &rawAnswer{key: protocol.Metadata, version: metadataVersion, bytes: answer}, err
}

// known is what a broker says of a topic.
type known struct {
	code       kafkago.Error // why it does not say more, 0 if it does
	id         string        // changes when the topic is created anew; "" if the broker has none
	partitions int
}

// topics decodes an answer to rawMetadata.
func (a *rawAnswer) topics() (map[string]known, error) {
	in := input{b: a.bytes}
	in.int32()
	in.tags()
	in.int32()
	for range in.compactList(11) { // brokers
		in.int32()
		in.compactString()
		in.int32()
		in.compactString()
		in.tags()
	}
	in.compactString() // cluster
	in.int32()         // controller
	all := make(map[string]known)
	for range in.compactList(26) {
		t := known{code: kafkago.Error(in.int16())}
		name := in.compactString()
		if id := in.take(16); slices.ContainsFunc(id, func(b byte) bool { return b != 0 }) {
			t.id = hex.EncodeToString(id)
		}
		in.int8() // internal
		t.partitions = in.compactList(22)
		for range t.partitions {
			in.take(2 + 4 + 4 + 4)
			for range 3 { // lists of replicas
				in.take(4 * int64(in.compactList(4)))
			}
			in.tags()
		}
		in.int32()
		in.tags()
		all[name] = t
	}
	in.int32() // permissions in the cluster
	if in.failed {
		return nil, errMalformed
	}
	return all, nil
}

// ask asks a broker about topics, once. An answer is of a broker that lives.
func (c *Client) ask(ctx context.Context, topics ...string) (map[string]known, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	m, err := c.transport.RoundTrip(ctx, c.client.Addr, &rawMetadata{c.cfg.ClientID, topics})
	if err != nil {
		return nil, err
	}
	return m.(*rawAnswer).topics()
}
