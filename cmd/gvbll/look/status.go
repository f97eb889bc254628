package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/scores"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics"
	bases "github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// Status is how a graph is doing.
type Status struct {
	Prefix   string   `json:"prefix"`
	Cell     *int32   `json:"cell,omitempty"` // null for a graph that is not divided
	Owner    *Member  `json:"owner"`          // null without one
	Standbys []Member `json:"standbys"`

	// Of the ledger's last record.
	Model     string      `json:"model,omitempty"`
	Shadow    string      `json:"shadow,omitempty"`
	Trial     *page.Trial `json:"trial,omitempty"`
	Epoch     int64       `json:"epoch"`
	Windows   int64       `json:"windows"`
	Committed *time.Time  `json:"committed,omitempty"` // null before the first window

	// Bases are those that the ledger names, the newest first, and Needed is from where on the oldest needs the topics.
	Bases  []base         `json:"bases,omitempty"`
	Needed []needed       `json:"needed,omitempty"`
	Lag    []partitionLag `json:"lag"`
	Last   statusPeriod   `json:"last"`
	Before statusPeriod   `json:"before"`
	// Verdict says in words whether what was served can be believed, as on the boards, see [page.Period.Verdict].
	Verdict   string     `json:"verdict"`
	Reasons   *reasons   `json:"reasons,omitempty"`    // null where no prediction has any
	LastLabel *time.Time `json:"last_label,omitempty"` // null if none came in the two periods
	Wrong     []Finding  `json:"wrong"`
	Unseen    []string   `json:"unseen"` // alerts that only metrics can tell

	at       time.Time
	evidence evidence
}

// evidence is what findings need beside what is printed.
type evidence struct {
	missing []string             // topics
	gone    map[bases.Name]error // bases that the ledger names and the store lacks
	// In words, "" for none: predictions that are not in their topic, why no worker starts, which topic too few replicas have,
	// and who withholds inputs.
	lost, refuses, tooFew, withheld string
	foreign                         string // a member of the group that is no worker
	takes                           string // what a label names a class by, "" if it is not known

	pace     float64       // events a second, the most that the graph has stepped for paceOver
	apart    time.Duration // the longest between two windows of event time
	drift    string        // the detector that found a loss to rise, "" for none
	unmet    []ledger.Unmet
	nodes    int           // in the graph
	edges    int           // likewise
	fallback bool          // the model as trained served the last window
	silent   time.Duration // since labels stopped, 0 if they have not
	told     bool          // the rates are known at which classes get labels
	purged   bool          // the ledger has not all of both periods
}

// partitionLag counts the events of a partition that are in no window yet.
type partitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Events    int64  `json:"events"`
}

// base is a base that the ledger names.
type base struct {
	Name  string    `json:"name"`
	Taken time.Time `json:"taken"`
}

// needed is from where on a partition is needed.
type needed struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Since     *time.Time `json:"since,omitempty"` // of the record there, null if there is none yet
}

// statusPeriod is a [page.Period] in short. Scores are 0 without labels.
type statusPeriod struct {
	Seconds     float64        `json:"seconds"`
	Predictions int            `json:"predictions"`
	Labels      int            `json:"labels"`
	Delay       float64        `json:"label_delay_seconds"` // median
	Expired     expired        `json:"expired"`
	Figures     figure.Kept    `json:"figures"`
	Refused     map[string]int `json:"refused"`
	calibration.Means
	StaticNLL float64   `json:"static_nll,omitempty"` // of the model as trained
	Majority  *majority `json:"majority,omitempty"`   // null without labels
	Asked     *asked    `json:"asked,omitempty"`      // null if no labels were asked for
	// Classes are those that are watched, of which there are labels and others: the rarest first.
	Classes []ranked `json:"classes,omitempty"`
	// By has the scores by the values of an attribute, null without --by or labels.
	By *cohorts `json:"by,omitempty"`
	// Unknown are the names of features that the model's schema lacks, those with most values first.
	Unknown []spelling.Unknown `json:"unknown_attributes,omitempty"`

	of page.Period
}

// expired counts what left because of its age, edges without those that left with a node.
type expired struct {
	Nodes int `json:"nodes"`
	Edges int `json:"edges"`
}

// cohorts are scores by the values of an attribute.
type cohorts struct {
	Attribute string        `json:"attribute"`
	Class     string        `json:"class,omitempty"` // of AUCs, and that is acted on
	Values    []page.Cohort `json:"values"`          // those with most labels first
	Shifts    []page.Shift  `json:"shifts,omitempty"`
}

// ranked says how well the probability of a class tells its nodes from the others.
type ranked struct {
	Class            string  `json:"class"`
	Labels           int     `json:"labels"`
	AUC              float64 `json:"auc"`
	AveragePrecision float64 `json:"average_precision"`
	ECE              float64 `json:"ece"` // of the probability of the class
	Chance           float64 `json:"ece_chance"`
}

// majority is the most frequent class of the labels. Always saying it would be right for its share.
type majority struct {
	Class string  `json:"class"`
	Share float64 `json:"share"`
}

// ReadStatus reads how a graph with these workers is doing, and how it did for a time. Bases are looked for in a store, unless it is nil.
func ReadStatus(
	ctx context.Context, g Graph, store bases.Store, prefix string, members []Member, last time.Duration,
) (s *Status, err error) {
	s = &Status{Prefix: prefix, at: time.Now()}
	if g.Names.Cells > 0 {
		s.Cell = &g.Names.Cell
	}
	s.Lag, s.Standbys = []partitionLag{}, []Member{} // lists in JSON, even when empty
	s.Last, s.Before = shorten(&page.Period{}, last), shorten(&page.Period{}, last)
	if s.evidence.missing, err = topics.Missing(ctx, g.Client, g.Names); err != nil {
		return nil, err
	}
	s.addMembers(members)
	if !slices.Contains(s.evidence.missing, g.Names.Ledger) {
		if err := s.readLedger(ctx, g, store, last); err != nil {
			return nil, err
		}
		if s.Lag, err = lagOf(ctx, g.Client, g.Names); err != nil {
			return nil, err
		}
		if s.evidence.lost, err = lostPredictions(ctx, g); err != nil {
			return nil, err
		}
		if s.Last.Figures.Of(parts.Reasoned) > 0 {
			if s.Reasons, err = g.reasonsIn(ctx, s.at.Add(-last), s.at); err != nil {
				return nil, err
			}
		}
		if s.evidence.refuses, err = refusal(ctx, g, s.Windows); err != nil {
			return nil, err
		}
		if s.evidence.withheld, err = g.withheld(ctx, s.at); err != nil {
			return nil, err
		}
		s.evidence.tooFew = g.Client.TooFewReplicas(ctx, false, g.Names.All()...)
	}
	if s.Owner == nil {
		s.Verdict = "no owner"
	}
	s.Wrong, s.Unseen = s.findings(), unseen
	return s, nil
}

func (s *Status) addMembers(members []Member) {
	for i := range members {
		if members[i].foreign != "" {
			s.evidence.foreign = members[i].foreign
		} else if members[i].Owner {
			s.Owner = &members[i]
		} else {
			s.Standbys = append(s.Standbys, members[i])
		}
	}
}

// readLedger reads the windows of the two periods, and the last one if it is older.
func (s *Status) readLedger(ctx context.Context, g Graph, store bases.Store, last time.Duration) error {
	newest, err := ledger.Newest(ctx, g.Client, g.Names.LedgerAt())
	if newest == nil || err != nil {
		return err
	}
	s.Model, s.Epoch, s.Windows, s.Committed = newest.Serves(), newest.Epoch, newest.Window+1, &newest.Stepped
	s.evidence.fallback, s.evidence.unmet = newest.Head == StaticHead, newest.Unmet
	s.evidence.nodes, s.evidence.edges = newest.Figures.Int(event.GraphNodes), newest.Figures.Int(event.GraphEdges)
	if s.evidence.takes, err = g.TakesClasses(ctx, newest); err != nil {
		return err
	}
	for _, b := range newest.Bases {
		s.Bases = append(s.Bases, base{b.Name.String(), time.UnixMilli(b.Taken)})
	}
	if store != nil {
		s.evidence.gone = (&replay.Bases{Store: store}).Check(ctx, newest.Bases)
	}
	needs, err := replay.Needs(ctx, g.Client, g.Names.LedgerAt(), newest)
	if err != nil {
		return err
	}
	for _, n := range needs {
		x := needed{Topic: n.Topic, Partition: int32(n.Partition), Offset: n.Offset}
		if !n.Since.IsZero() {
			x.Since = &n.Since
		}
		s.Needed = append(s.Needed, x)
	}
	if s.Shadow, err = ShadowIn(ctx, g.Client, g.Names, newest); err != nil {
		return err
	}
	if newest.Promoted == "" {
		shadow := ""
		if newest.Shadow != nil {
			shadow = newest.Shadow.Model
		}
		s.Trial = TrialOf(newest.Trial, shadow)
	}
	between := s.at.Add(-last)
	var now, before page.Period
	var p pace
	var rhythm page.Rhythm
	var stepped time.Time // the window before
	err = g.scan(ctx, between.Add(-last), func(r *ledger.Record) {
		p.add(r)
		rhythm.Add(r.Stepped, r.Predictions, r.Labels)
		if r.Cause == "event-time" && !stepped.IsZero() {
			s.evidence.apart = max(s.evidence.apart, r.Stepped.Sub(stepped))
		}
		stepped = r.Stepped
		if r.Stepped.Before(between) {
			scores.AddWindow(&before, r)
		} else {
			scores.AddWindow(&now, r)
			for _, c := range r.Changes {
				if c.Worse {
					s.evidence.drift = c.Detector
				}
			}
		}
	})
	if err != nil {
		return err
	}
	if at := rhythm.Last(); !at.IsZero() {
		s.LastLabel = &at
	}
	s.evidence.told = !slices.ContainsFunc(now.Classes, func(c page.Group) bool { return c.Arrived > 0 }) // see ledger.Group
	s.evidence.silent = rhythm.Silent(s.at)
	s.Verdict = now.Verdict(&before, s.evidence.told, s.evidence.silent)
	begins, err := g.begins(ctx)
	if err != nil {
		return err
	}
	long, longBefore := last, last // as far as the ledger has it
	if begins.After(between) {
		long, longBefore = s.at.Sub(begins), 0
	} else if begins.After(between.Add(-last)) {
		longBefore = between.Sub(begins)
	}
	s.Last, s.Before, s.evidence.pace = shorten(&now, long), shorten(&before, longBefore), p.most()
	s.evidence.purged = longBefore < last
	return nil
}

// pace counts events by the time at which they were stepped.
type pace struct {
	events map[int64]int64 // by the number of the paceOver since 1970
}

// paceOver is the time over which a pace is measured: long enough to be one, and short enough
// that a graph which has little to do has been busy for all of it now and then.
const paceOver = 10 * time.Second

// add counts the events of a window.
func (p *pace) add(r *ledger.Record) {
	if p.events == nil {
		p.events = make(map[int64]int64)
	}
	for _, g := range r.Ranges {
		p.events[r.Stepped.UnixNano()/int64(paceOver)] += g.To - g.From
	}
}

// most returns the highest number of events a second.
func (p *pace) most() (pace float64) {
	for _, n := range p.events {
		pace = max(pace, float64(n)/paceOver.Seconds())
	}
	return pace
}

func shorten(p *page.Period, length time.Duration) statusPeriod {
	s := statusPeriod{
		Seconds: length.Seconds(), Predictions: p.Predictions, Labels: p.Labels, Delay: p.Delay().Seconds(),
		Means: p.Served.Means(), Refused: p.Refused, Figures: p.Figures, of: *p,
		Expired: expired{p.Figures.Int(event.NodesExpired), p.Figures.Int(event.EdgesExpired)},
	}
	if s.Refused == nil {
		s.Refused = make(map[string]int) // in JSON an object, even when empty
	}
	s.Unknown = slices.SortedStableFunc(slices.Values(p.Unknown),
		func(a, b spelling.Unknown) int { return cmp.Compare(b.Values, a.Values) })
	if static := p.Head(StaticHead); static != nil {
		s.StaticNLL = static.Means().NLL
	}
	if most := page.Usual(p.Classes); most != nil {
		s.Majority = &majority{most.Name, float64(most.Labels) / float64(max(p.Served.Labels, 1))}
	}
	for i, c := range p.Classes {
		odds := page.OddsOf(p.Classes, i)
		if odds == nil {
			continue
		}
		if auc, ap, ok := odds.Ranking(); ok {
			r := ranked{Class: c.Name, Labels: c.Labels, AUC: auc, AveragePrecision: ap}
			r.ECE, r.Chance = odds.ECE()
			s.Classes = append(s.Classes, r)
		}
	}
	slices.SortStableFunc(s.Classes, func(a, b ranked) int { return cmp.Or(a.Labels-b.Labels, cmp.Compare(a.Class, b.Class)) })
	if by := p.Cohorts; by.By != "" {
		s.By = &cohorts{Attribute: by.By, Class: by.Class, Values: page.CohortsOf(by), Shifts: p.Shifts()}
	}
	if p.Figures.Of(parts.Asked.Nodes)+p.Figures.Of(parts.Asked.Labels) > 0 {
		s.Asked = askedOf(p)
	}
	return s
}

// print prints a table.
func (c *cohorts) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	short := strings.NewReplacer("accuracy", "acc.", "by chance up to", "chance", "coverage", "cover", "acted on, right", "right")
	for i, row := range page.CohortTable("by "+c.Attribute, c.Values) {
		row[0] = cut(shown(row[0]), 15)
		for k := range row[1:] {
			if i == 0 {
				row[k+1] = short.Replace(row[k+1])
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	fmt.Fprintln(out)
	w.Flush()
}

// ofClass formats a score of a class, [page.Undefined] if there is none.
func (p *statusPeriod) ofClass(name string, score func(*ranked) float64) string {
	for i := range p.Classes {
		if p.Classes[i].Class == name {
			return p.score(score(&p.Classes[i]))
		}
	}
	return page.Undefined
}

// usual describes the most frequent class and its share, [page.Undefined] if few labels came.
func (p *statusPeriod) usual() string {
	if p.Majority == nil || p.Labels < serve.FewLabels {
		return page.Undefined
	}
	return fmt.Sprintf("%s %.4f", cut(shown(p.Majority.Class), 20), p.Majority.Share)
}

// toldApart is the AUC from which on a rare class is told apart.
const toldApart = 0.7

// noBetter says so if what served was right no more often than the most frequent class alone would have
// been, "" if it was, or if labels are few, or where a class is rare and ranked: then accuracy says next to nothing.
func (p *statusPeriod) noBetter() string {
	if p.Majority == nil || p.Labels < page.EnoughLabels || p.Acc > p.Majority.Share {
		return ""
	}
	told := func(r ranked) bool { return r.AUC >= toldApart }
	if p.Majority.Share > calibration.MuchMajority && slices.ContainsFunc(p.Classes, told) {
		return ""
	}
	return fmt.Sprintf("what serves is right no more often than always saying %s would be", cut(shown(p.Majority.Class), 40))
}

// StaticHead is the model as trained, which never learns.
const StaticHead = "static"

// exactLag is the lag up to which records are counted, because offsets also have
// transaction markers and aborted records.
const exactLag = 1000

// coordinatorWithin is for how long a group's coordinator may be away.
const coordinatorWithin = 10 * time.Second

// lagOf returns how many events of each input partition no window has yet.
func lagOf(ctx context.Context, client *kafka.Client, names topics.Names) ([]partitionLag, error) {
	inputs := []string{names.Nodes, names.Labels, names.Commands}
	bounds, err := client.Offsets(ctx, inputs...)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, coordinatorWithin)
	defer cancel()
	consumed, err := client.Committed(within, names.Ledger, inputs...)
	if err != nil {
		return nil, err
	}
	lags := []partitionLag{}
	for at, b := range bounds {
		from := max(consumed[at], b.First)
		n := max(b.End-from, 0)
		if n > 0 && n <= exactLag {
			if n, err = countRecords(ctx, client, at, from, b.End); err != nil {
				return nil, err
			}
		}
		lags = append(lags, partitionLag{at.Topic, at.Partition, n})
	}
	slices.SortFunc(lags, func(a, b partitionLag) int {
		return cmp.Or(slices.Index(inputs, a.Topic)-slices.Index(inputs, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return lags, nil
}

// Waiting returns how many events no window has yet.
func Waiting(ctx context.Context, g Graph) (n int64, err error) {
	lags, err := lagOf(ctx, g.Client, g.Names)
	for _, l := range lags {
		n += l.Events
	}
	return n, err
}

// countRecords counts the committed records from ≤ offset < to of a partition.
func countRecords(ctx context.Context, client *kafka.Client, at kafka.TopicPartition, from, to int64) (n int64, err error) {
	err = client.ReadTo(ctx, map[kafka.TopicPartition]int64{at: from},
		map[kafka.TopicPartition]kafka.Bounds{at: {End: to}}, func(*kafka.Record) bool {
			n++
			return true
		})
	return n, err
}

// waiting returns the number of events that are in no window yet.
func (s *Status) waiting() (n int64) {
	for _, l := range s.Lag {
		n += l.Events
	}
	return n
}

// Worst says what is wrong first, "" for nothing.
func (s *Status) Worst() string {
	if len(s.Wrong) == 0 {
		return ""
	}
	return s.Wrong[0].What
}

// Print prints the status for people, in lines of 80 columns, each thing once.
func (s *Status) Print(out io.Writer) error {
	told := func(alert string) bool { // a finding has the figures
		return slices.ContainsFunc(s.Wrong, func(f Finding) bool { return f.Alert == alert })
	}
	line := func(name, text string) { fold(out, fmt.Sprintf("%-12s", name), 12, text) }
	graph := s.Prefix
	if s.Cell != nil {
		graph += fmt.Sprintf(", cell %d", *s.Cell)
	}
	line("graph", graph)
	if s.Owner == nil {
		line("owner", "none")
	} else {
		line("owner", s.Owner.in(s.Cell))
	}
	for i := range s.Standbys {
		line("standby", s.Standbys[i].in(s.Cell))
	}
	if s.Committed == nil {
		line("windows", "none yet")
	} else {
		line("model", s.Model)
		if s.evidence.takes != "" {
			line("classes", s.evidence.takes)
		}
		if s.Trial != nil {
			line("trial", fmt.Sprint(s.Trial.Model, " ", s.Trial))
		} else if s.Shadow != "" {
			line("shadow", s.Shadow)
		}
		windows := fmt.Sprintf("%d in epoch %d", s.Windows, s.Epoch)
		if !told("GvbllCommitsStopped") {
			windows += fmt.Sprintf(", the last %s ago", roughly(s.at.Sub(*s.Committed)))
		}
		line("windows", windows)
	}
	if len(s.Bases) > 0 {
		line("base", fmt.Sprintf("%s, %s ago, the newest of %d", cut(s.Bases[0].Name, 40),
			roughly(s.at.Sub(s.Bases[0].Taken)), len(s.Bases)))
		line("needed", s.needs())
	}
	line("waiting", s.lagging(told("GvbllCommitsStopped") || told("GvbllLagGrowing")))
	if s.LastLabel != nil && !told("GvbllLabelsStopped") {
		line("last label", roughly(s.at.Sub(*s.LastLabel))+" ago")
	}
	if s.Verdict != "" && s.Owner != nil && !slices.ContainsFunc(s.Wrong,
		func(f Finding) bool { return strings.HasPrefix(f.What, s.Verdict) }) {
		line("verdict", s.Verdict)
	}
	fmt.Fprintln(out)
	if err := s.printPeriods(out); err != nil {
		return err
	}
	if by := s.Last.By; by != nil && (len(by.Values) > 1 || len(by.Values) == 1 && by.Values[0].Labels < s.Last.Labels) {
		by.print(out)
	}
	for _, note := range [][]string{
		{s.Last.noBetter()},
		{s.shortened()},
		s.Last.chosen(), s.Reasons.lines(), s.Last.shifted(), s.Last.unknown(), s.wrong(),
		{"only metrics tell: " + strings.Join(s.Unseen, ", ")},
	} {
		for i, text := range slices.DeleteFunc(note, func(text string) bool { return text == "" }) {
			if i == 0 {
				fmt.Fprintln(out)
			}
			fold(out, "", 2, text)
		}
	}
	return nil
}

// shortened says that older windows were deleted from the ledger, "" if both periods have theirs.
func (s *Status) shortened() string {
	if !s.evidence.purged {
		return ""
	}
	return fmt.Sprintf("the ledger has windows of the last %s alone, since older ones were purged or deleted",
		roughly(time.Duration((s.Last.Seconds+s.Before.Seconds)*float64(time.Second))))
}

// printPeriods prints a table of the last period and the one before.
func (s *Status) printPeriods(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, of func(*statusPeriod) string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", name, of(&s.Last), of(&s.Before))
	}
	length := roughly(time.Duration(s.Last.Seconds * float64(time.Second)))
	fmt.Fprintf(w, "\tlast %s\tbefore\t\n", length)
	row("predictions", func(p *statusPeriod) string { return fmt.Sprint(p.Predictions) })
	row("labels", func(p *statusPeriod) string { return fmt.Sprint(p.Labels) })
	row("label delay", func(p *statusPeriod) string {
		if p.Labels == 0 {
			return page.Undefined
		}
		return roughly(time.Duration(p.Delay * float64(time.Second)))
	})
	for _, f := range figure.All() {
		if f.Words != "" && (s.Last.Figures.Of(f) != 0 || s.Before.Figures.Of(f) != 0) {
			row(f.Words, func(p *statusPeriod) string { return fmt.Sprintf("%.6g", p.Figures.Of(f)) })
		}
	}
	for _, reason := range s.reasons() {
		row("refused: "+reason, func(p *statusPeriod) string { return fmt.Sprint(p.Refused[reason]) })
	}
	row("accuracy", func(p *statusPeriod) string { return p.score(p.Acc) })
	row("most frequent class", (*statusPeriod).usual)
	row("NLL", func(p *statusPeriod) string { return p.score(p.NLL) })
	row("ECE", func(p *statusPeriod) string { return p.score(p.ECE) })
	row("by chance up to", func(p *statusPeriod) string { return p.score(p.Chance) })
	if list := slices.Concat(s.Last.Classes, s.Before.Classes); len(list) > 0 { // the rarest alone: --json has all
		name := list[0].Class
		row("AUC of "+cut(shown(name), 20), func(p *statusPeriod) string {
			return p.ofClass(name, func(r *ranked) float64 { return r.AUC })
		})
		row("average precision of it", func(p *statusPeriod) string {
			return p.ofClass(name, func(r *ranked) float64 { return r.AveragePrecision })
		})
	}
	return w.Flush()
}

// shifted says what the shifts of attributes cost: of those that cost most, --json has all.
func (p *statusPeriod) shifted() (lines []string) {
	if p.By == nil {
		return nil
	}
	for _, s := range p.By.Shifts[:min(len(p.By.Shifts), 3)] {
		lines = append(lines, fmt.Sprintf("the shift of attribute %s since training: %+.4f nats of NLL", cut(shown(s.Attribute), 40), s.Cost))
	}
	return lines
}

// unknown names the attributes that the model lacks: of those with most values, --json has all.
func (p *statusPeriod) unknown() (lines []string) {
	for _, u := range p.Unknown[:min(len(p.Unknown), 5)] {
		lines = append(lines, fmt.Sprintf("unknown attribute: %s, %d values%s", cut(shown(u.Name), 40), u.Values, u.Question()))
	}
	return lines
}

// wrong says what is wrong.
func (s *Status) wrong() (lines []string) {
	for _, f := range s.Wrong {
		lines = append(lines, fmt.Sprintf("wrong: %s (docs/runbook.md#%s)", f.What, anchor(f.Alert)))
	}
	return lines
}

// anchor returns the section of docs/runbook.md on an alert.
func anchor(alert string) string { return strings.ToLower(alert) }

// in describes a worker in one line, with the page of a cell unless that is nil.
func (m *Member) in(cell *int32) string {
	at := m.HTTP
	if at != "" && cell != nil {
		at += fmt.Sprintf("/cells/%d/", *cell)
	}
	return strings.Join(strings.Fields(m.Host+" "+at+" "+m.Version), " ")
}

// needs says from where on each partition is needed.
func (s *Status) needs() string {
	var list []string
	oldest := s.at
	for _, n := range s.Needed {
		list = append(list, fmt.Sprintf("%s/%d from offset %d", n.Topic, n.Partition, n.Offset))
		if n.Since != nil && n.Since.Before(oldest) {
			oldest = *n.Since
		}
	}
	return fmt.Sprintf("all since %s ago: %s", roughly(s.at.Sub(oldest)), strings.Join(list, ", "))
}

// lagging says how many events wait in which partitions, without their sum where a finding has it.
func (s *Status) lagging(told bool) string {
	var list, where []string
	for _, l := range s.Lag {
		if l.Events > 0 {
			where = append(where, fmt.Sprintf("%s/%d", l.Topic, l.Partition))
			list = append(list, fmt.Sprintf("%s: %d", where[len(where)-1], l.Events))
		}
	}
	sum := fmt.Sprintf("%d events", s.waiting())
	switch {
	case len(list) == 0:
		return sum
	case len(list) == 1 && told:
		return "in " + where[0]
	case len(list) == 1:
		return sum + ", in " + where[0]
	case told:
		return strings.Join(list, ", ")
	}
	return sum + " (" + strings.Join(list, ", ") + ")"
}

// reasons returns those for which an event was refused in one of the periods.
func (s *Status) reasons() []string {
	all := maps.Clone(s.Last.Refused)
	maps.Copy(all, s.Before.Refused)
	return slices.Sorted(maps.Keys(all))
}

// score formats a score, [page.Undefined] if it is of too few labels.
func (p *statusPeriod) score(x float64) string {
	if p.Labels < serve.FewLabels {
		return page.Undefined
	}
	return fmt.Sprintf("%.4f", x)
}

// roughly formats a duration to two digits or so, from two days on in days.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%vd", math.Round(d.Hours()/2.4)/10)
	case d < 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Minute)
	}
	return flags.ShortDuration(d)
}
