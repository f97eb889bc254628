package bench

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// simulation is a sharded graph whose stages take measured times and whose messages
// take drawn ones. It says what many machines would do, where there is only one to
// measure on; docs/performance.md lists what it assumes.
//
// A shard has four threads: input decodes all arrivals of the stream; the engine enters
// windows and serves the shard's own arrivals; exchange sends and receives messages;
// publish encodes predictions. The lead has input, exchange and a learner, on a machine
// of its own. Brokers are never the limit.
type simulation struct {
	shards int
	costs  stageCosts
	window int     // arrivals in a window
	labels float64 // labels that join in a window, for each arrival
	lag    int     // window s is served with the labels up to window s-1-lag
	depth  int     // the lead cuts no window that is this many ahead of the slowest shard
	ahead  int     // windows that a shard may have entered and not served
	hop    hop
	rate   float64 // arrivals a second that come; 0 for as many as are taken
	count  int     // windows to simulate
	seed   uint64
}

// stageCosts are CPU times in nanoseconds, and sizes in bytes, with the simulation's
// number of shards.
type stageCosts struct {
	input   float64 // decoding an arrival of the stream, in each shard and at the lead
	enter   float64 // an arrival of the stream, in each shard
	serve   float64 // one of the shard's own arrivals
	publish float64 // encoding the prediction of one of its own
	learn   float64 // a label, at the lead

	part  float64 // bytes of an arrival in a message to its owner
	row   float64 // bytes of a label in a message to the lead
	heads float64 // bytes of a message from the lead

	send, receive         float64 // a request with the messages of a window
	sendByte, receiveByte float64
}

// hop is how long a record takes from the producer to a consumer that waits for it, in
// milliseconds: log-normal, and never ahead of the record before it.
type hop struct{ p50, p99 float64 }

// draw returns a time in nanoseconds.
func (h hop) draw(rng *rand.Rand) float64 {
	if h.p50 == 0 {
		return 0
	}
	const normalP99 = 2.3263 // the 99th percentile of the normal distribution
	return 1e6 * h.p50 * math.Exp(rng.NormFloat64()*math.Log(h.p99/h.p50)/normalP99)
}

// simulated is what a simulation found, without its first quarter.
type simulated struct {
	perSecond float64
	busiest   string  // thread
	use       float64 // of that thread, up to 1
	// From the end of a window's arrivals until all predictions of the window can be
	// read uncommitted, in milliseconds.
	median, p99 float64
}

func (s simulated) String() string {
	return fmt.Sprintf("busiest: %s %.2f; visible after %.0f ms, p99 %.0f", s.busiest, s.use, s.median, s.p99)
}

// run simulates. The same simulation has the same result.
func (s simulation) run() simulated {
	r := &running{simulation: s, rng: rand.New(rand.NewPCG(s.seed, 1)), left: make([]int, s.count), began: make([]float64, s.count), visible: make([]float64, s.count), ended: make([]float64, s.count)}
	if s.shards == 1 { // today's worker: nothing leaves the process
		r.hop = hop{}
		r.costs.send, r.costs.receive, r.costs.sendByte, r.costs.receiveByte = 0, 0, 0, 0
		if s.lag == 0 { // and the engine learns
			r.costs.serve += r.labels * r.costs.learn
			r.costs.learn = 0
		}
	}
	r.lead = newLeadTask(r)
	for i := range s.shards {
		r.tasks = append(r.tasks, newShardTask(r, i))
	}
	for i := range r.left {
		r.left[i] = s.shards
	}
	r.lead.decode(0)
	for _, t := range r.tasks {
		t.decode(0)
	}
	for len(r.agenda) > 0 {
		e := heap.Pop(&r.agenda).(entry)
		r.now = e.time
		e.do()
	}
	return r.result()
}

// running is a simulation under way. Times are in nanoseconds.
type running struct {
	simulation
	rng     *rand.Rand
	now     float64
	agenda  agenda // what is to happen
	created int    // entries so far
	tasks   []*shardTask
	lead    *leadTask

	// By window.
	began   []float64 // when its arrivals were there, or with rate 0 when it was cut
	ended   []float64 // when the last shard had served
	visible []float64 // when the last predictions could be read
	left    []int     // shards whose predictions cannot be read yet
}

// entry is something that happens at a time. Entries of one time happen in the order in
// which they were created, so that a run can be repeated.
type entry struct {
	time  float64
	order int
	do    func()
}

// agenda is a heap of entries, the earliest first.
type agenda []entry

func (e agenda) Len() int { return len(e) }
func (e agenda) Less(i, j int) bool {
	return e[i].time < e[j].time || e[i].time == e[j].time && e[i].order < e[j].order
}
func (e agenda) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *agenda) Push(x any)   { *e = append(*e, x.(entry)) }
func (e *agenda) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// at lets something happen at a time.
func (r *running) at(time float64, do func()) {
	r.created++
	heap.Push(&r.agenda, entry{time, r.created, do})
}

// full returns when all arrivals of window t have come.
func (r *running) full(t int) float64 {
	if r.rate == 0 {
		return 0
	}
	return float64(t+1) * float64(r.window) * 1e9 / r.rate
}

// thread works on one thing after the other.
type thread struct {
	name string
	r    *running
	free float64 // when it has done everything
	busy float64 // total time of its work
}

// work queues work of a given time and calls then when it is done.
func (t *thread) work(cost float64, then func()) {
	t.free = max(t.r.now, t.free) + cost
	t.busy += cost
	t.r.at(t.free, then)
}

// line is a partition with one sender and one receiver: records are read in the order in
// which they were sent.
type line struct{ last float64 }

// carry calls arrived a hop from now, and not before what was carried earlier.
func (r *running) carry(l *line, arrived func()) {
	l.last = max(l.last, r.now+r.hop.draw(r.rng))
	r.at(l.last, arrived)
}

// task is what the lead and the shards have in common.
type task struct {
	r               *running
	input, exchange thread
	decoded         int         // windows
	ahead           func() bool // whether to decode one more
	ready           func()      // called after each window
	pause           bool        // decoding waits for ahead
	lines           map[from]*line
}

// from says which records are on a line: what they hold, and the number of the shard that
// sends them, 0 for the lead.
type from struct {
	what   content
	number int
}

type content int

const (
	ofCuts content = iota
	ofParts
	ofRows
	ofServed
	ofHeads
	ofPredictions
)

func (t *task) line(what content, number int) *line {
	at := from{what, number}
	if t.lines[at] == nil {
		t.lines[at] = &line{}
	}
	return t.lines[at]
}

// decode decodes window w once its arrivals are there, and then the next.
func (t *task) decode(w int) {
	r := t.r
	if w == r.count {
		return
	}
	if t.pause = !t.ahead(); t.pause {
		return
	}
	r.at(max(r.now, r.full(w)), func() {
		t.input.work(r.costs.input*float64(r.window), func() {
			t.decoded = w + 1
			t.ready()
			t.decode(w + 1)
		})
	})
}

// resume goes on with decoding if it waited.
func (t *task) resume() {
	if t.pause {
		t.decode(t.decoded)
	}
}

// send sends bytes, of all messages of one window.
func (t *task) send(bytes float64, sent func()) {
	t.exchange.work(t.r.costs.send+bytes*t.r.costs.sendByte, sent)
}

// receive receives one of several messages of a window.
func (t *task) receive(bytes float64, of int, received func()) {
	t.exchange.work(t.r.costs.receive/float64(of)+bytes*t.r.costs.receiveByte, received)
}

// leadTask cuts windows and learns.
type leadTask struct {
	task
	learner thread
	cuts    int   // windows that are cut
	seen    int   // of them, those that it has read back
	served  []int // by shard: windows whose rows are here
	rows    []int // by window: shards whose rows are here
}

func newLeadTask(r *running) *leadTask {
	l := &leadTask{learner: thread{name: "the learner", r: r}, served: make([]int, r.shards), rows: make([]int, r.count)}
	l.task = task{r: r, input: thread{name: "the lead's input", r: r}, exchange: thread{name: "the lead's exchange", r: r}, lines: make(map[from]*line)}
	l.task.ahead = func() bool { return l.decoded-l.cuts < r.depth }
	l.task.ready = l.cut
	return l
}

// cut writes the next cut if the window is there, the cut before it has been read back,
// and no shard is too far behind.
func (l *leadTask) cut() {
	r, t := l.r, l.cuts
	if t == r.count || l.decoded <= t || l.seen < t || t-slices.Min(l.served) >= r.depth {
		return
	}
	l.cuts++
	r.began[t] = r.full(t)
	if r.rate == 0 {
		r.began[t] = r.now
	}
	r.carry(l.line(ofCuts, 0), func() { l.seen++; l.cut() })
	for i, s := range r.tasks {
		r.carry(s.line(ofCuts, 0), func() { r.tasks[i].cuts++; r.tasks[i].wake() })
	}
	l.resume()
}

// done notes how far a shard is.
func (l *leadTask) done(shard, t int) {
	l.served[shard] = t + 1
	l.cut()
}

// receiveRows counts the rows of a window that came from a shard, and learns once all are
// there.
func (l *leadTask) receiveRows(shard, t int) {
	r := l.r
	l.done(shard, t)
	if l.rows[t]++; l.rows[t] < r.shards {
		return
	}
	l.learner.work(r.costs.learn*r.labels*float64(r.window), func() {
		l.send(r.costs.heads, func() {
			for i, s := range r.tasks {
				r.carry(s.line(ofHeads, 0), func() {
					r.tasks[i].receive(r.costs.heads, 1, func() { r.tasks[i].heads++; r.tasks[i].next() })
				})
			}
		})
	})
}

// shardTask steps the windows that are cut.
type shardTask struct {
	task
	number          int
	engine, publish thread
	working         bool  // the engine is
	cuts            int   // windows whose cut is here
	entered, served int   // windows
	published       int   // windows
	heads           int   // windows whose labels are in the heads that are here
	parts           []int // by window: slices whose parts are here
	heard           []int // by window: slices whose served bytes are here
}

func newShardTask(r *running, number int) *shardTask {
	s := &shardTask{number: number, engine: thread{name: "engine", r: r}, publish: thread{name: "publish", r: r}, parts: make([]int, r.count), heard: make([]int, r.count)}
	s.task = task{r: r, input: thread{name: "input", r: r}, exchange: thread{name: "exchange", r: r}, lines: make(map[from]*line)}
	s.task.ahead = func() bool { return s.decoded-s.entered < r.depth }
	s.task.ready = s.wake
	return s
}

// wake is called when a window can be entered. A shard that waits for parts looks for more
// windows when some have come.
func (s *shardTask) wake() {
	if s.entered == s.served {
		s.next()
	}
}

// own returns how many arrivals of a window are a shard's own.
func (r *running) own() float64 { return float64(r.window) / float64(r.shards) }

// next lets the engine serve the oldest window if all that it needs is here and the
// window before is being published, or enter the next one.
func (s *shardTask) next() {
	r := s.r
	if s.working {
		return
	}
	if t := s.served; t < s.entered && s.parts[t] == r.shards && (r.labels == 0 || s.heads >= t-r.lag) && t-s.published <= 1 {
		s.working = true
		s.engine.work(r.costs.serve*r.own(), func() {
			s.working = false
			s.serve(t)
			s.next()
		})
		return
	}
	t := s.entered
	if t == s.cuts || t >= s.decoded || t-s.served >= r.simulation.ahead || !s.hears(t-1) {
		return
	}
	s.working = true
	s.engine.work(r.costs.enter*float64(r.window), func() {
		s.working = false
		s.entered++
		s.resume()
		s.sendParts(t)
		s.next()
	})
}

// hears reports whether all shards have said what they served for the window that is heard of
// in window t: so it must be before another one is entered.
func (s *shardTask) hears(t int) bool {
	due := t - 1 - s.r.lag
	return due < 0 || s.heard[due] == s.r.shards
}

// sendParts sends the owners their arrivals' parts.
func (s *shardTask) sendParts(t int) {
	r := s.r
	s.parts[t]++ // its own
	if r.shards == 1 {
		return
	}
	bytes := r.costs.part * r.own()
	s.send(bytes*float64(r.shards-1), func() {
		for i, to := range r.tasks {
			if i == s.number {
				continue
			}
			r.carry(to.line(ofParts, s.number), func() {
				to.receive(bytes, r.shards-1, func() { to.parts[t]++; to.next() })
			})
		}
	})
}

// serve passes on what was served of window t.
func (s *shardTask) serve(t int) {
	r := s.r
	s.served++
	r.ended[t] = r.now
	s.publish.work(r.costs.publish*r.own(), func() {
		s.published++
		s.next()
		r.carry(s.line(ofPredictions, 0), func() {
			if r.left[t]--; r.left[t] == 0 {
				r.visible[t] = r.now
			}
		})
	})
	bytes := r.costs.row * r.labels * r.own()
	s.heard[t]++ // its own
	s.send(bytes, func() {
		for i, to := range r.tasks {
			if i != s.number {
				r.carry(to.line(ofServed, s.number), func() { to.heard[t]++; to.next() })
			}
		}
		r.carry(r.lead.line(ofRows, s.number), func() {
			r.lead.receive(bytes, r.shards, func() { r.lead.receiveRows(s.number, t) })
		})
	})
}

// result sums up.
func (r *running) result() simulated {
	from := r.count / 4
	took := r.ended[r.count-1] - r.ended[from-1]
	res := simulated{perSecond: float64((r.count-from)*r.window) * 1e9 / took}
	threads := []*thread{&r.lead.input, &r.lead.exchange, &r.lead.learner}
	for _, s := range r.tasks {
		threads = append(threads, &s.input, &s.engine, &s.exchange, &s.publish)
	}
	for _, t := range threads {
		if use := t.busy / r.now; use > res.use {
			res.busiest, res.use = t.name, use
		}
	}
	var ages []float64
	for t := from; t < r.count; t++ {
		ages = append(ages, (r.visible[t]-r.began[t])/1e6)
	}
	slices.Sort(ages)
	res.median, res.p99 = ages[len(ages)/2], ages[len(ages)*99/100]
	return res
}
