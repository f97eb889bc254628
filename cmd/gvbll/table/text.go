package table

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Text formats rows for a terminal: a block for each data set and protocol, with a
// line for each system and a column for each measure. A cell is mean ± standard error,
// with the paper's figure in brackets; accuracy is in percent. A star marks the best
// system of a block, and all that round to the same number.
func Text(rows []Row) string {
	return layout(rows, func(b *strings.Builder, title string, table [][]string, best [][]bool) {
		fmt.Fprintf(b, "%s\n", title)
		for i, line := range table {
			text := "  " + pad(line[0], 14)
			for j, cell := range line[1:] {
				mark := " "
				if best[i][j+1] {
					mark = "*"
				}
				text += "  " + pad(mark+cell, 24)
			}
			fmt.Fprintln(b, strings.TrimRight(text, " "))
		}
	})
}

// Markdown formats rows as Text does, as Markdown tables with the best in bold.
func Markdown(rows []Row) string {
	return layout(rows, func(b *strings.Builder, title string, table [][]string, best [][]bool) {
		fmt.Fprintf(b, "**%s**\n\n", title)
		for i, line := range table {
			for j, cell := range line {
				if best[i][j] {
					cell = "**" + cell + "**"
				}
				fmt.Fprintf(b, "| %s ", cell)
			}
			b.WriteString("|\n")
			if i == 0 {
				b.WriteString("|---|---:|---:|---:|\n")
			}
		}
	})
}

// pad fills s with spaces to a width in characters.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// layout calls write for each block, which is a run of rows of one data set and protocol,
// with its title, its cells, and for each cell whether it is the best of its column.
func layout(rows []Row, write func(b *strings.Builder, title string, table [][]string, best [][]bool)) string {
	var b strings.Builder
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Dataset == rows[0].Dataset && rows[n].Protocol == rows[0].Protocol {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		table, best := block(rows[:n])
		write(&b, title(rows[:n]), table, best)
		rows = rows[n:]
	}
	return b.String()
}

// title returns the heading of a block.
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

// measure is a column of a block.
type measure struct {
	name          string
	digits, paper int     // decimals of our figures, and of the paper's
	sign          float64 // 1 if more is better, -1 if less is better
	of            func(r *Row) (mean, se float64)
}

var measures = [...]measure{
	{"accuracy %", 1, 2, 1, func(r *Row) (float64, float64) { return 100 * r.Acc, 100 * r.AccSE }},
	{"NLL", 3, 2, -1, func(r *Row) (float64, float64) { return r.NLL, r.NLLSE }},
	{"ECE", 3, 2, -1, func(r *Row) (float64, float64) { return r.ECE, r.ECESE }},
}

// block returns the cells of one data set and protocol by line and column, with a header,
// and which of them are the best of their column.
func block(rows []Row) (table [][]string, best [][]bool) {
	table = append(table, []string{"system"})
	for _, r := range rows {
		table = append(table, []string{r.System})
	}
	for range table {
		best = append(best, make([]bool, 1+len(measures)))
	}
	for k, m := range measures {
		table[0] = append(table[0], m.name)
		top := math.Inf(-1)
		for i := range rows {
			mean, _ := m.of(&rows[i])
			top = max(top, m.sign*mean)
		}
		shown := fmt.Sprintf("%.*f", m.digits, m.sign*top)
		for i := range rows {
			mean, se := m.of(&rows[i])
			text := fmt.Sprintf("%.*f", m.digits, mean)
			best[i+1][k+1] = text == shown
			if rows[i].Seeds > 1 {
				text += fmt.Sprintf(" ± %.*f", m.digits, se)
			}
			if acc, nll, ece, ok := paperScores(rows[i].Dataset, rows[i].System); ok {
				text += fmt.Sprintf(" (%.*f)", m.paper, [...]float64{100 * acc, nll, ece}[k])
			}
			table[i+1] = append(table[i+1], text)
		}
	}
	return table, best
}
