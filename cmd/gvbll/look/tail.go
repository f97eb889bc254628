package look

import (
	"fmt"
	"io"
	"strings"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TailHeader names the columns of a line. Without a set of many classes it fits into 80 columns.
var TailHeader = fmt.Sprintf("%-16s %-14s %6s %6s %6s %7s  %s", "NODE", "CLASS", "CONF", "TOTAL", "EPIST", "WINDOW", "SET")

// PrintTail prints the line of a prediction, and behind it what moved it, if that is known.
func PrintTail(w io.Writer, p *event.Prediction) error {
	line := fmt.Sprintf("%s %s %6.4f %6.4f %6.4f %7d%s%s",
		column(p.Node.String(), 16), column(p.Class, 14), p.Confidence, p.Total, p.Epistemic, p.Window, again(p),
		setOf(p)+act(p)+askedFor(p))
	_, err := fmt.Fprintln(w, line)
	if p.Reasons != nil && len(p.Reasons.List) > 0 {
		fold(w, "  ", 4, "why "+shown(p.Reasons.Class)+": "+shown(p.Reasons.Words()))
	}
	return err
}

// act says that the prediction is to be acted on.
func act(p *event.Prediction) string {
	if p.Act == nil || !*p.Act {
		return ""
	}
	return "  act"
}

// askedFor says with which probability a label was asked for, "" if it was not.
func askedFor(p *event.Prediction) string {
	if p.Asked == 0 {
		return ""
	}
	return fmt.Sprintf("  asked for: %.4f", p.Asked)
}

// setOf returns the set of classes of a prediction, and why one should not act on it, "" if it has
// no set.
func setOf(p *event.Prediction) string {
	if p.Set == nil {
		return ""
	}
	text := "  {" + shown(strings.Join(p.Set.Classes, ", ")) + "}"
	if p.Set.Abstain != "" {
		text += " abstain: " + shown(p.Set.Abstain)
	}
	return text
}

// again marks a revision. It returns "" for the first prediction of a node.
func again(p *event.Prediction) string {
	if p.Revision == 0 {
		return ""
	}
	return fmt.Sprintf(" r%d", p.Revision)
}
