package table

import (
	"fmt"
	"strings"
)

// Markdown formats rows as tables: one for each data set and protocol, with a line for
// each system. A score is mean ± standard error, with the paper's figure in brackets;
// accuracy is in percent. The best system of a table in each measure is bold, as are those
// that are a tie with it. "behind" is the difference from the best. The ECE of a step is
// mostly chance, so the last column has that of all labels. A stream in order of time has a
// second table, with what changed along it.
func Markdown(rows []Row) string {
	var b strings.Builder
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Dataset == rows[0].Dataset && rows[n].Protocol == rows[0].Protocol {
			n++
		}
		blocks := []block{scored(rows[:n])}
		if rows[0].Drift != nil {
			blocks = append(blocks, drifted(rows[:n]))
		}
		for _, block := range blocks {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "**%s**\n\n| %s |\n|---%s|\n", block.title, strings.Join(block.head, " | "), strings.Repeat("|---:", len(block.head)-1))
			for _, line := range block.lines {
				fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
			}
		}
		rows = rows[n:]
	}
	return b.String()
}

// block is a table with its heading.
type block struct {
	title string
	head  []string
	lines [][]string
}

// title returns the heading of a block of scores.
func title(rows []Row) string {
	least, most := rows[0].Seeds, rows[0].Seeds
	for _, r := range rows {
		least, most = min(least, r.Seeds), max(most, r.Seeds)
	}
	seeds := fmt.Sprint(most)
	if least != most {
		seeds = fmt.Sprintf("%d to %d", least, most)
	}
	if _, _, _, ok := paperScores(rows[0].Dataset, rows[0].System); ok {
		return fmt.Sprintf("%s, %s, seeds: %s (paper's figures in brackets)", rows[0].Dataset, rows[0].Protocol, seeds)
	}
	return fmt.Sprintf("%s, %s, seeds: %s", rows[0].Dataset, rows[0].Protocol, seeds)
}

// scored returns the block of scores of one data set and protocol.
func scored(rows []Row) block {
	b := block{title: title(rows), head: []string{"system"}}
	for _, m := range measures {
		b.head = append(b.head, m.name)
		if m.name != "ECE" { // which is no proper score
			b.head = append(b.head, "behind")
		}
	}
	b.head = append(b.head, "ECE of stream")
	for i := range rows {
		r := &rows[i]
		line := []string{r.System}
		for k, m := range measures {
			behind := m.behind(r)
			text := m.shown(m.mean(&r.Estimate), *m.estimate(&r.Estimate).se, r.Seeds)
			if acc, nll, ece, ok := paperScores(r.Dataset, r.System); ok {
				text += fmt.Sprintf(" (%.*f)", m.paper, [...]float64{100 * acc, nll, ece}[k])
			}
			if behind.Tie || behind.Best == r.System {
				text = "**" + text + "**"
			}
			line = append(line, text)
			if m.name == "ECE" {
				continue
			}
			switch text := m.shown(behind.Mean, behind.SE, r.Seeds); {
			case behind.Best == r.System:
				line = append(line, "best")
			case behind.Tie:
				line = append(line, text+", tie")
			default:
				line = append(line, text)
			}
		}
		b.lines = append(b.lines, append(line, fmt.Sprintf("%.3f, chance %.3f", r.StreamECE, r.StreamChance)))
	}
	return b
}

// shown formats a mean and, if there are several seeds, its standard error.
func (m measure) shown(mean, se float64, seeds int) string {
	if seeds < 2 {
		return fmt.Sprintf("%.*f", m.digits, m.scale*mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", m.digits, m.scale*mean, m.digits, m.scale*se)
}

// drifted returns the block of what changed along a stream in order of time.
func drifted(rows []Row) block {
	b := block{title: fmt.Sprintf("%s, %s: the first fifth of the steps, the last, and the change", rows[0].Dataset, rows[0].Protocol), head: []string{"system"}}
	for _, m := range measures[:2] {
		b.head = append(b.head, m.name+" first", "last", "change")
	}
	for _, r := range rows {
		if r.Drift == nil {
			continue
		}
		line := []string{r.System}
		for _, m := range measures[:2] {
			line = append(
				line,
				m.shown(m.mean(&r.Drift.First), 0, 1),
				m.shown(m.mean(&r.Drift.Last), 0, 1),
				m.shown(m.mean(&r.Drift.Change), *m.estimate(&r.Drift.Change).se, r.Seeds),
			)
		}
		b.lines = append(b.lines, line)
	}
	return b
}
