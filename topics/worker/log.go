package worker

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// refusalInterval is the time between two log lines about refusals for one reason.
const refusalInterval = time.Minute

// logEvents returns a handler that logs what happens in the windows: refusals, fields that
// nobody knows, changes of the model that serves, drift, and once that labels of training nodes come. Windows that are replayed
// at the start are history, and only their number is logged.
func logEvents(log *slog.Logger) func(replay.Event) {
	l := &eventLog{log: log, refusals: make(map[event.Reason]*refusalLog), attributes: make(map[string]bool)}
	return func(e replay.Event) {
		switch e := e.(type) {
		case replay.Recovered:
			if e.Windows > 0 {
				log.Info("recovered", "checkpoint", e.Checkpoint, "windows", e.Windows, "took", e.Took.Round(time.Millisecond))
			}
			l.recovered = true
		case replay.Stepped:
			l.stepped(e)
		case replay.UnknownField:
			logUnknown(log, e)
		}
	}
}

// eventLog is the state of a log of events.
type eventLog struct {
	log                *slog.Logger
	recovered, trained bool
	ahead              bool // the clock of --keep, at the last window
	refusals           map[event.Reason]*refusalLog
	attributes         map[string]bool // unknown names that were logged
}

func (l *eventLog) stepped(s replay.Stepped) {
	if s.Replayed && !l.recovered {
		return
	}
	if promoted := s.Outcome.Promoted; promoted != "" {
		l.log.Info("promoted: another model serves from the next window on", "window", s.Outcome.Window, "model",
			promoted, "before", s.Outcome.Model)
	}
	if s.Replayed { // the owner logs the rest
		return
	}
	for _, c := range ledger.Changes(s.Outcome.Drift) {
		if c.Worse && c.Detector == "adwin" { // the model as trained serves nothing
			l.log.Warn("drift found: the loss of what was served has risen", "window", s.Outcome.Window, "detector", c.Detector)
		} else {
			l.log.Info("drift found", "window", s.Outcome.Window, "detector", c.Detector)
		}
	}
	if n := s.Outcome.Figures.Int(event.LabelsOfTraining); n > 0 && !l.trained {
		l.trained = true
		l.log.Info("labels came of nodes that the model was trained on: they are neither scored nor learned again",
			"window", s.Outcome.Window, "labels", n)
	}
	l.unknownAttributes(s.Outcome)
	l.keepAhead(s.Outcome, time.Now())
	logRefusals(l.log, l.refusals, s.Outcome.Refused, time.Now())
}

// unknownAttributes logs each name of features that the model lacks once.
func (l *eventLog) unknownAttributes(out *event.Outcome) {
	const most = 256 // as models change, so may what they lack
	if out.Odd.Attributes == nil {
		return
	}
	for _, u := range out.Odd.Attributes.Unknown {
		if !l.attributes[u.Name] && len(l.attributes) < most {
			l.attributes[u.Name] = true
			l.log.Warn("an attribute is ignored: the model has none of this name"+u.Question(), "attribute", u.Name, "values", u.Values,
				"window", out.Window)
		}
	}
}

// mostAhead is how far the clock of --keep may be ahead of this machine's.
const mostAhead = 5 * time.Minute

// keepAhead logs once that the clock of --keep is ahead, until it is not.
func (l *eventLog) keepAhead(out *event.Outcome, now time.Time) {
	told := time.UnixMilli(int64(1000 * out.Figures.Of(event.KeepWatermark)))
	if ahead := told.Sub(now); ahead <= mostAhead {
		l.ahead = false
	} else if !l.ahead {
		l.ahead = true
		l.log.Warn("the clock of --keep is ahead, by the times of node events: nodes and edges leave too early", "window", out.Window,
			"ahead", ahead.Round(time.Second), "nodes", out.Figures.Int(event.NodesExpired), "edges", out.Figures.Int(event.EdgesExpired))
	}
}

// logUnknown logs the first record with a field.
func logUnknown(log *slog.Logger, f replay.UnknownField) {
	switch {
	case !f.First:
	case strings.HasPrefix(f.Name, intake.TimeIn):
		log.Warn("an event's time looks like "+strings.TrimPrefix(f.Name,
			intake.TimeIn)+": it is read as milliseconds since 1970", "example", f.Example.String())
	default:
		log.Warn("a field is ignored: no event of the topic has it", "field", fmt.Sprintf("%.64q", f.Name), "example", f.Example.String())
	}
}

// refusalLog is what is not logged yet of the refusals for one reason.
type refusalLog struct {
	count   int
	example string // of where a record is, and why it was refused
	detail  string
	next    time.Time // of a line
}

// logRefusals logs the refusals of a window: the first for a reason at once, and then a
// line for each reason and interval, with the number since the last line and an example.
func logRefusals(log *slog.Logger, by map[event.Reason]*refusalLog, refused []event.Refusal, now time.Time) {
	for i := range refused {
		r := &refused[i]
		l := by[r.Reason]
		if l == nil {
			l = &refusalLog{}
			by[r.Reason] = l
		}
		if l.count++; l.count == 1 {
			l.example, l.detail = r.Origin.String(), r.Detail
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		if l := by[reason]; l.count > 0 && !now.Before(l.next) {
			log.Warn("refused events: see 'gvbll dead-letters'", "reason", reason, "events", l.count, "example",
				l.example, "detail", l.detail)
			*l = refusalLog{next: now.Add(refusalInterval)}
		}
	}
}
