package worker

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/replay"
)

// logged calls tell with hooks that log, and returns the lines without their times.
func logged(tell func(func(replay.Event))) []string {
	var b bytes.Buffer
	tell(logEvents(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))))
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' })
}

// TestRefusalsAreLogged: the first refusal for a reason is logged at once, with an example.
// However many follow, there is a line a minute for each reason, and none is uncounted.
func TestRefusalsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := logged(func(h func(replay.Event)) {
			offset := int64(0)
			window := func(refusals int, reason event.Reason) {
				out := &event.Outcome{}
				for range refusals {
					origin := &event.Origin{Topic: "g.nodes", Partition: 3, Offset: offset}
					out.Refused = append(out.Refused, event.Refusal{Reason: reason, Detail: "why", Origin: origin})
					offset++
				}
				h(replay.Stepped{Outcome: out})
			}
			window(2, event.NonFinite)
			for range 119 { // two minutes
				window(10, event.NonFinite)
				time.Sleep(time.Second)
			}
			window(1, event.Empty)
			window(0, "")
			time.Sleep(time.Second)
			window(0, "")
			time.Sleep(time.Hour)
			window(0, "")
		})
		const line = `level=WARN msg="refused events: see 'gvbll dead-letters'" reason=%s events=%d example=g.nodes/3:%d detail=why`
		want := []string{
			fmt.Sprintf(line, event.NonFinite, 2, 0),
			fmt.Sprintf(line, event.NonFinite, 610, 2),
			fmt.Sprintf(line, event.Empty, 1, 1192),
			fmt.Sprintf(line, event.NonFinite, 580, 612),
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// TestLabelsOfTrainingAreLogged: that labels of training nodes come is logged once.
func TestLabelsOfTrainingAreLogged(t *testing.T) {
	lines := logged(func(h func(replay.Event)) {
		for window, labels := range []int{0, 3, 2} {
			h(replay.Stepped{Outcome: &event.Outcome{Window: int64(window), Figures: counted(map[*figure.Figure]int{event.LabelsOfTraining: labels})}})
		}
	})
	want := []string{`level=INFO msg="labels came of nodes that the model was trained on: they are neither scored nor learned again" window=1 labels=3`}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestEventsAreLogged: a promotion and drift are logged once, when they happen: not when
// a start replays them, and drift not by a standby either, for the owner logs it.
func TestEventsAreLogged(t *testing.T) {
	drift := &event.Drift{Detectors: []event.Detector{{Name: "adwin", Changes: 1, Rise: .4}, {Name: "adwin-static", Changes: 1, Rise: 2}, {Name: "embeddings", Changes: 1}, {Name: "quiet", Total: 9}}}
	lines := logged(func(h func(replay.Event)) {
		for window, s := range []replay.Stepped{{Replayed: true}, {Replayed: true}, {}} {
			s.Outcome = &event.Outcome{Window: int64(window), Model: "old", Promoted: "new", Drift: drift}
			h(s)
			if window == 0 {
				h(replay.Recovered{})
			}
		}
	})
	want := []string{
		`level=INFO msg="promoted: another model serves from the next window on" window=1 model=new before=old`,
		`level=INFO msg="promoted: another model serves from the next window on" window=2 model=new before=old`,
		`level=WARN msg="drift found: the loss of what was served has risen" window=2 detector=adwin`,
		`level=INFO msg="drift found" window=2 detector=adwin-static`,
		`level=INFO msg="drift found" window=2 detector=embeddings`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestUnknownFieldsAreLogged: the first record with a field that nobody knows is logged, and the
// first whose time looks like seconds.
func TestUnknownFieldsAreLogged(t *testing.T) {
	example := &event.Origin{Topic: "g.nodes", Partition: 1, Offset: 7}
	lines := logged(func(h func(replay.Event)) {
		for _, first := range []bool{true, false} {
			h(replay.UnknownField{Name: "neighbor s", Example: example, First: first})
			h(replay.UnknownField{Name: intake.TimeIn + "seconds", Example: example, First: first})
		}
	})
	want := []string{
		`level=WARN msg="a field is ignored: no event of the topic has it" field="\"neighbor s\"" example=g.nodes/1:7`,
		`level=WARN msg="an event's time looks like seconds: it is read as milliseconds since 1970" example=g.nodes/1:7`,
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("logged, -want +got\n%s", d)
	}
}

// counted returns the figures of a window in which so many of each were counted.
func counted(of map[*figure.Figure]int) (w figure.Window) {
	for f, n := range of {
		w.Count(f, n)
	}
	return w
}

// TestKeepAheadIsLogged: a clock of --keep that is ahead is logged once, and again when it was right meanwhile.
func TestKeepAheadIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := logged(func(h func(replay.Event)) {
			for _, ahead := range []time.Duration{-time.Hour, 5 * time.Minute, 55 * time.Minute, 54 * time.Minute, 0, time.Hour} {
				var f figure.Window
				f.Set(event.KeepWatermark, float64(time.Now().Add(ahead).UnixMilli())/1000)
				f.Count(event.NodesExpired, 1740)
				h(replay.Stepped{Outcome: &event.Outcome{Figures: f}})
			}
		})
		if len(lines) != 2 || !strings.Contains(lines[0], "ahead=55m0s nodes=1740") || !strings.Contains(lines[1], "ahead=1h0m0s") {
			t.Errorf("%q", lines)
		}
	})
}

// TestUnknownAttributesAreLogged: a name of features that the model lacks is logged once, with the attribute that it may stand for.
func TestUnknownAttributesAreLogged(t *testing.T) {
	lines := logged(func(h func(replay.Event)) {
		for n := range 1000 {
			unknown := []spelling.Unknown{{Name: "amont", Meant: "amount", Values: 7}, {Name: "a\nb", Values: 1}, {Name: fmt.Sprint("n", n), Values: 1}}
			h(replay.Stepped{Outcome: &event.Outcome{Window: int64(n), Odd: event.Odd{Attributes: &event.Attributes{Rows: 7, Unknown: unknown[:min(3, 1+n)]}}}})
		}
	})
	want := []string{
		`level=WARN msg="an attribute is ignored: the model has none of this name: did you mean \"amount\"?" attribute=amont values=7 window=0`,
		`level=WARN msg="an attribute is ignored: the model has none of this name" attribute="a\nb" values=1 window=1`,
	}
	if len(lines) != 256 || lines[0] != want[0] || lines[1] != want[1] {
		t.Errorf("%d lines, the first are\n%s", len(lines), strings.Join(lines[:min(2, len(lines))], "\n"))
	}
}
