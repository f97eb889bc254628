package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Markdown formats rows as tables: one for each data set and protocol, with a line for
// each system. A score is mean ± standard error, with the paper's figure in brackets;
// accuracy is in percent. The best system of a table in each measure is bold, as are those
// that are a tie with it. "behind" is the difference from the best. The ECE of a step is
// mostly chance, so another column has that of all labels; AUC and AP are of all labels too. A
// stream in order of time has a second table, with what changed along it.
func Markdown(rows []row) string {
	var blocks []string
	for _, t := range tables(rows) {
		blocks = append(blocks, scored(t))
		if t[0].Drift != nil {
			blocks = append(blocks, drifted(t))
		}
	}
	return strings.Join(blocks, "\n")
}

// block formats a table with its title; the first line is its head.
func block(title string, lines [][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n", title)
	for i, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|---%s|\n", strings.Repeat("|---:", len(line)-1))
		}
	}
	return b.String()
}

// scored formats the scores of one data set and protocol.
func scored(rows []row) string {
	least, most := rows[0].Seeds, rows[0].Seeds
	for _, r := range rows {
		least, most = min(least, r.Seeds), max(most, r.Seeds)
	}
	title := fmt.Sprintf("%s, %s, seeds: %d", rows[0].Dataset, rows[0].Protocol, least)
	if least != most {
		title += fmt.Sprintf(" to %d", most)
	}
	if _, ok := paperScores(rows[0].Dataset, rows[0].System); ok {
		title += " (paper's figures in brackets)"
	}
	head := []string{"system", "accuracy %", "behind", "NLL", "behind", "ECE", "ECE of stream"}
	ranked := slices.ContainsFunc(rows, func(r row) bool { return r.AUC.Mean > 0 })
	if ranked {
		title += "; AUC and AP are means over classes"
		if class := rows[0].Ranked; class != "" {
			title = strings.TrimSuffix(title, "means over classes") + "of " + class
		}
		head = append(head, "AUC", "AP")
	}
	rare := rows[0].Majority > calibration.MuchMajority
	if rare {
		title += fmt.Sprintf("; always saying the other class is right for %.2f %%", 100*rows[0].Majority)
		head = append(head, "recall at 1 %")
	}
	lines := [][]string{head}
	for i := range rows {
		r := &rows[i]
		line := []string{r.System}
		paper, quoted := paperScores(r.Dataset, r.System)
		cell := func(k int, more string) string {
			x := r.at(k)
			text := shown(k, x.Mean, x.SE, r.Seeds) + more
			if x.Tie || x.Best == r.System {
				text = "**" + text + "**"
			}
			return text
		}
		for k, m := range measures[:stepMeasures] {
			x, more := r.at(k), ""
			if quoted {
				more = fmt.Sprintf(" (%.*f)", m.paper, m.scale**paper.at(k))
			}
			line = append(line, cell(k, more))
			if m.name == "ECE" { // which is no proper score
				continue
			}
			switch text := shown(k, x.Behind, x.BehindSE, r.Seeds); {
			case x.Best == r.System:
				line = append(line, "best")
			case x.Tie:
				line = append(line, text+", tie")
			default:
				line = append(line, text)
			}
		}
		line = append(line, fmt.Sprintf("%.3f, chance %.3f", r.StreamECE, r.StreamChance))
		if ranked {
			line = append(line, cell(3, ""), cell(4, ""))
		}
		if rare {
			line = append(line, fmt.Sprintf("%.3f", r.Recall))
		}
		lines = append(lines, line)
	}
	return block(title, lines)
}

// shown formats a mean and, if there are several seeds, its standard error.
func shown(measure int, mean, se float64, seeds int) string {
	m := &measures[measure]
	text := fmt.Sprintf("%.*f", m.digits, m.scale*mean)
	if seeds > 1 {
		text += fmt.Sprintf(" ± %.*f", m.digits, m.scale*se)
	}
	return text
}

// drifted formats what changed along a stream in order of time.
func drifted(rows []row) string {
	lines := [][]string{{"system", "accuracy % first", "last", "change", "NLL first", "last", "change"}}
	for _, r := range rows {
		if r.Drift == nil {
			continue
		}
		line := []string{r.System}
		for k := range 2 {
			line = append(line, shown(k, *r.Drift.First.at(k), 0, 1), shown(k, *r.Drift.Last.at(k), 0, 1),
				shown(k, *r.Drift.Change.at(k), *r.Drift.ChangeSE.at(k), r.Seeds))
		}
		lines = append(lines, line)
	}
	return block(fmt.Sprintf("%s, %s: the first fifth of the steps, the last, and the change", rows[0].Dataset, rows[0].Protocol), lines)
}
