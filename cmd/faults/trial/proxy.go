package trial

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxy stands before the brokers of a cluster. The addresses of brokers in their answers are its
// own, so that all requests of its clients pass through it.
type proxy struct {
	// request is called with each request before it is passed on, and returns whether to do so. It may
	// wait, which holds what follows on the connection too. answered is called with each answer, and
	// may end its connection as must does.
	request  func(*frame) bool
	answered func(*frame)

	mu      sync.Mutex
	fronts  map[string]net.Listener // by the broker's address
	brokers []string                // that it was started for
	all     map[net.Conn]bool       // connections that are open, true for those of clients
}

// frame is a request, or the answer to one, after its length.
type frame struct {
	broker  string // address
	key     kmsg.Key
	version int16
	bytes   []byte
}

// newProxy returns a proxy before the brokers, which passes all on.
func newProxy(brokers []string) *proxy {
	p := &proxy{
		request: func(*frame) bool { return true }, answered: func(*frame) {},
		brokers: brokers, fronts: make(map[string]net.Listener), all: make(map[net.Conn]bool),
	}
	for _, broker := range brokers {
		l := need(net.Listen("tcp", "127.0.0.1:0"))
		p.fronts[broker] = l
		go p.accept(l, broker)
	}
	return p
}

// addresses returns where clients find the brokers.
func (p *proxy) addresses() (all []string) {
	for _, broker := range p.brokers {
		all = append(all, p.fronts[broker].Addr().String())
	}
	return all
}

func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.fronts {
		l.Close()
	}
	for c := range p.all {
		c.Close()
	}
}

// cut closes about half of the connections of clients, and returns how many.
func (p *proxy) cut(rng *rand.Rand) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, client := range p.all {
		if client && rng.IntN(2) == 0 {
			c.Close()
			n++
		}
	}
	return n
}

func (p *proxy) accept(l net.Listener, broker string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", broker)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.all[client], p.all[server] = true, false
		p.mu.Unlock()
		sent := make(chan *frame, 64) // requests without their answers, in order
		pass := func(on func()) {
			_ = caught(on) // by the end of a connection
			client.Close()
			server.Close()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.all, client)
			delete(p.all, server)
		}
		go pass(func() {
			defer close(sent)
			for {
				b := readFrame(client)
				f := &frame{broker, kmsg.Key(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:])), b}
				if p.request(f) {
					sent <- f
					writeFrame(server, b)
				}
			}
		})
		go pass(func() {
			for f := range sent {
				b := p.readdressed(f, readFrame(server))
				p.answered(&frame{broker, f.key, f.version, b})
				writeFrame(client, b)
			}
		})
	}
}

// readdressed returns an answer with the proxy's addresses in place of the brokers'.
func (p *proxy) readdressed(request *frame, answer []byte) []byte {
	if request.key != kmsg.Metadata && request.key != kmsg.FindCoordinator {
		return answer
	}
	res, header := request.decode(answer)
	switch res := res.(type) {
	case *kmsg.MetadataResponse:
		for i := range res.Brokers {
			p.readdress(&res.Brokers[i].Host, &res.Brokers[i].Port)
		}
	case *kmsg.FindCoordinatorResponse:
		p.readdress(&res.Host, &res.Port)
		for i := range res.Coordinators {
			p.readdress(&res.Coordinators[i].Host, &res.Coordinators[i].Port)
		}
	}
	return res.AppendTo(answer[:header:header])
}

func (p *proxy) readdress(host *string, port *int32) {
	if l := p.fronts[net.JoinHostPort(*host, strconv.Itoa(int(*port)))]; l != nil {
		*port = int32(l.Addr().(*net.TCPAddr).Port)
	}
}

// ask sends a request to its broker on a connection of its own, and returns the answer.
func (f *frame) ask() kmsg.Response {
	c := need(net.Dial("tcp", f.broker))
	defer c.Close()
	writeFrame(c, f.bytes)
	res, _ := f.decode(readFrame(c))
	return res
}

// decode decodes the answer to a request, and returns the length of its header.
func (f *frame) decode(answer []byte) (res kmsg.Response, header int) {
	res = kmsg.ResponseForKey(int16(f.key))
	res.SetVersion(f.version)
	header = 4 // the correlation id
	if res.IsFlexible() {
		header++
	}
	must(res.ReadFrom(answer[header:]))
	return res, header
}

// readFrame reads what has its length before it.
func readFrame(r io.Reader) []byte {
	var size [4]byte
	need(io.ReadFull(r, size[:]))
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > 64<<20 { // the answer to a heartbeat has 6
		fail("not a frame of Kafka")
	}
	b := make([]byte, n)
	need(io.ReadFull(r, b))
	return b
}

func writeFrame(w io.Writer, b []byte) {
	need(w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)))
}
