package plot

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

// curveOf returns a series of n points that falls from 1 towards 0, with standard errors.
func curveOf(name string, n int) Series {
	s := Series{Name: name}
	for i := range n {
		s.X = append(s.X, float64(i+1))
		s.Y = append(s.Y, math.Exp(-3*float64(i)/float64(n)))
		s.Err = append(s.Err, 0.02)
	}
	return s
}

// gallery returns a picture of each kind, by name, with texts that it must contain.
func gallery() map[string]struct {
	picture Picture
	texts   []string
} {
	static, online := curveOf("static", 40), curveOf("online", 40)
	both := []Series{static, online}
	var sizes []Series
	for i, name := range []string{"Cora", "Texas", "ogbn-arxiv"} {
		y := 0.5 + 0.1*float64(i)
		sizes = append(sizes, Series{
			Name: name, X: []float64{0.001, 0.01, 0.1, 1}, Y: []float64{y, y + .1, y + .2, y},
			Err: []float64{.01, .02, .01, .02},
		})
	}
	nan := math.NaN()
	var bins []Bin
	for b := range 10 {
		low := float64(b) / 10
		bins = append(bins, Bin{Low: low, High: low + 0.1, Count: b * b, Confidence: low + .05, Accuracy: .1 + .7*low})
	}
	systems := []System{
		{Name: "GCN", Value: 1.3, Paper: 1.24},
		{Name: "GAT", Value: nan, Paper: 2.04},
		{Name: "GIN", Value: .9, Err: nan, Paper: .95},
		{Name: "GVBLL-Online", Value: .58, Err: .02, Paper: .59},
	}
	alone := []System{{Name: "static", Value: .67, Err: .01, Paper: nan}, {Name: "online", Value: .59, Paper: nan}}
	return map[string]struct {
		picture Picture
		texts   []string
	}{
		"curves": {
			Curves("Cora, <random> & more", "step", both, both, both),
			[]string{"Cora, <random> & more", "static", "online", "accuracy", "NLL (nats)", "ECE", "step"},
		},
		"reliability": {
			Reliability("Reliability", Diagram{"before", bins}, Diagram{"after", bins[5:]}),
			[]string{"Reliability", "before (ECE 0.163, n = 285)", "confidence", "accuracy", "predictions", "perfect calibration", "0.2", "1.0"},
		},
		"posterior": {
			Posterior("Posterior", both, both[1:]),
			[]string{"Posterior variance", "Distance from the anchor", "‖M − M*‖", "mean variance"},
		},
		"sensitivity": {
			Sensitivity("Sensitivity", "step size η", true, sizes, nil, sizes),
			[]string{"step size η", "0.001", "0.01", "0.1", "1", "accuracy", "ECE", "ogbn-arxiv"},
		},
		"bars":       {Bars("Cora", "NLL (nats)", systems), []string{"Cora", "GCN", "GAT", "GIN", "GVBLL-Online", "paper"}},
		"bars alone": {Bars("Cora", "NLL (nats)", alone), []string{"Cora", "static", "online", "NLL (nats)"}},
		"training": {
			Training("Training", Epochs{
				Loss: []float64{3, 2, 1}, ELL: []float64{-2, -1, -.5}, KLWeight: []float64{0, .5, 1},
				Train: []float64{.3, .6, .9}, Validation: []float64{.2, .5, .6},
			}),
			[]string{"Loss", "loss", "−ELL", "Weight of the KL term", "train", "validation", "epoch", "nats per node"},
		},
		"heat": {
			Heat("Posterior", Map{Title: "Means", XLabel: "dimension", Rows: []string{"a & b", "c"}, Columns: 3, Diverging: true, Values: []float64{-1, 0, 2, nan, 1, 1}},
				Map{Title: "Deviations", Rows: []string{"a & b", "c"}, Columns: 2, Values: []float64{.5, .5, .5, .5}}),
			[]string{"Means", "Deviations", "dimension", "a & b", "c", "-2", "0", "2", "0.5000"},
		},
		"heat with names": {
			Heat("", Map{Title: "Neighbours", XLabel: "of the neighbour", Rows: []string{"ham", "spam"}, Columns: 2, Names: []string{"eggs", "a long name of a class"}, Values: []float64{1, 0, 0, 1}},
				Map{Title: "By number", Rows: []string{"ham", "spam"}, Columns: 2, Values: []float64{1, 0, 0, 1}}),
			[]string{"ham", "spam", "eggs", "a long name of a class", "of the neighbour"},
		},
		"one legend": {
			lines("One legend", chart{title: "a", series: both}, chart{title: "b", series: both[:1]}),
			[]string{"a", "b", "static", "online"},
		},
	}
}

// svg holds the parts of an SVG that the tests check.
type svg struct {
	width, height float64
	texts         []string
	styles        []string // of paths, each ending with a semicolon
	data          []string // of paths
}

// parse reads an SVG, and fails the test if it is not well-formed or a text
// leaves the page.
func parse(t *testing.T, doc []byte) (s svg) {
	t.Helper()
	type text struct {
		x, size float64
		rotated bool
		body    string
	}
	var open *text
	var rotated []bool // by depth
	dec := xml.NewDecoder(bytes.NewReader(doc))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			attr := map[string]string{}
			for _, a := range tok.Attr {
				attr[a.Name.Local] = a.Value
			}
			rotated = append(rotated, strings.HasPrefix(attr["transform"], "rotate") || len(rotated) > 0 && rotated[len(rotated)-1])
			switch tok.Name.Local {
			case "svg":
				if _, err := fmt.Sscanf(attr["viewBox"], "0 0 %g %g", &s.width, &s.height); err != nil {
					t.Fatalf("viewBox %q: %v", attr["viewBox"], err)
				}
			case "path":
				s.styles, s.data = append(s.styles, attr["style"]+";"), append(s.data, attr["d"])
				if strings.Contains(attr["d"], "NaN") || strings.Contains(attr["d"], "Inf") {
					t.Errorf("a path has coordinates that are not finite: %s", attr["d"])
				}
			case "text":
				open = &text{rotated: rotated[len(rotated)-1]}
				open.x, _ = strconv.ParseFloat(attr["x"], 64)
				_, after, _ := strings.Cut(attr["style"], "font-size:")
				open.size, _ = strconv.ParseFloat(after[:strings.Index(after, "px")], 64)
				if !strings.Contains(attr["style"], "sans-serif") {
					t.Errorf("a text has no fallback font: %s", attr["style"])
				}
			}
		case xml.CharData:
			if open != nil {
				open.body += string(tok)
			}
		case xml.EndElement:
			rotated = rotated[:len(rotated)-1]
			if tok.Name.Local != "text" {
				continue
			}
			end := open.x + float64(sans(vg.Length(open.size)).Width(open.body))
			if !open.rotated && (open.x < 0 || end > s.width) {
				t.Errorf("text %q is from %.1f to %.1f on a page %.1f wide", open.body, open.x, end, s.width)
			}
			s.texts = append(s.texts, open.body)
			open = nil
		}
	}
	return s
}

// strokes returns the number of paths drawn with a line of the given width.
func (s svg) strokes(width string) int { return s.styled("stroke-width:" + width + ";") }

// styled returns the number of paths whose style has all of the given parts.
func (s svg) styled(parts ...string) (n int) {
	for _, style := range s.styles {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(style, part) }) {
			n++
		}
	}
	return n
}

func render(t *testing.T, p Picture) svg {
	t.Helper()
	doc, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, doc)
}

// TestPictures: every kind of picture has its texts, its PNG shows something, and
// rendering it again gives the same bytes.
func TestPictures(t *testing.T) {
	for name, test := range gallery() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // fonts are shared
			doc, err := test.picture.SVG()
			if err != nil {
				t.Fatal(err)
			}
			s := parse(t, doc)
			for _, want := range test.texts {
				if !slices.Contains(s.texts, want) {
					t.Errorf("texts are %q, want %q among them", s.texts, want)
				}
			}
			image, err := test.picture.PNG()
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, image, s, color.White)

			again, err := test.picture.SVG()
			if err != nil || !bytes.Equal(doc, again) {
				t.Errorf("the second SVG differs (%v)", err)
			}
			imageAgain, err := test.picture.PNG()
			if err != nil || !bytes.Equal(image, imageAgain) {
				t.Errorf("the second PNG differs (%v)", err)
			}
		})
	}
}

// checkImage checks that a PNG has the SVG's size, has the page's colour in its corners,
// and is not blank.
func checkImage(t *testing.T, doc []byte, s svg, page color.Color) {
	t.Helper()
	m, err := png.Decode(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	size := m.Bounds().Size()
	if want := image.Pt(int(2*s.width), int(2*s.height)); size != want {
		t.Fatalf("the PNG is %v pixels large, want %v", size, want)
	}
	r, g, b, _ := page.RGBA()
	isPage := func(x, y int) bool {
		R, G, B, A := m.At(x, y).RGBA()
		return R == r && G == g && B == b && A == 0xFFFF
	}
	for _, x := range []int{0, size.X - 1} {
		for _, y := range []int{0, size.Y - 1} {
			if !isPage(x, y) {
				t.Errorf("corner (%d, %d) is %v, want %v", x, y, m.At(x, y), page)
			}
		}
	}
	drawn := 0
	for y := range size.Y {
		for x := range size.X {
			if !isPage(x, y) {
				drawn++
			}
		}
	}
	if share := float64(drawn) / float64(size.X*size.Y); share < 0.01 {
		t.Errorf("a share of %.2g of the pixels is drawn, want .01 at least", share)
	}
}

func TestTheme(t *testing.T) {
	p := gallery()["curves"].picture
	p.Theme = Dark
	doc, err := p.PNG()
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, doc, render(t, p), newStyle(Dark).page)
}

func TestLinesAndBands(t *testing.T) {
	s := render(t, gallery()["curves"].picture)
	const panels, series = 3, 2
	if got, want := s.strokes("1.5"), panels*series+series; got != want { // the legend has a line for each series
		t.Errorf("%d lines, want %d", got, want)
	}
	if got, want := s.styled("fill-opacity"), panels*series; got != want {
		t.Errorf("%d bands of errors, want %d", got, want)
	}
}

func TestErrorBars(t *testing.T) {
	s := render(t, gallery()["sensitivity"].picture)
	// Two panels of three series of four points; a bar and two caps for each.
	if got, want := s.strokes("0.9"), 2*3*4*3; got != want {
		t.Errorf("%d strokes of error bars, want %d", got, want)
	}
}

// TestPublished: published figures have markers and an entry in the legend, which is
// absent where there are none.
func TestPublished(t *testing.T) {
	s := render(t, gallery()["bars"].picture)
	if !slices.Contains(s.texts, "paper") {
		t.Error("the legend does not explain the published figures")
	}
	// Four figures and the legend, each a disc in a ring.
	circles := 0
	for _, d := range s.data {
		if strings.Contains(d, "A") {
			circles++
		}
	}
	if circles != 2*5 {
		t.Errorf("%d discs and rings, want %d", circles, 2*5)
	}
	if s := render(t, gallery()["bars alone"].picture); slices.Contains(s.texts, "paper") {
		t.Error("the legend explains a published figure, but there is none")
	}
}

// TestNameKeepsItsColour: a series has the same colour in every panel and the legend,
// also where it is not the first of its panel.
func TestNameKeepsItsColour(t *testing.T) {
	a, b := curveOf("a", 5), curveOf("b", 5)
	p := lines("", chart{series: []Series{a, b}}, chart{series: []Series{b}})
	second := newStyle(Light).hues[1]
	hue := fmt.Sprintf("stroke:#%02X%02X%02X", second.R, second.G, second.B)
	if n := render(t, p).styled(hue, "stroke-width:1.5;"); n != 3 { // two lines and the legend
		t.Errorf("%d strokes in the second colour, want 3", n)
	}
}

// TestManySeries: maxLooks series can all be told apart, and one more is an error.
func TestManySeries(t *testing.T) {
	var series []Series
	for i := range maxLooks {
		series = append(series, curveOf(fmt.Sprint("head ", i), 3))
	}
	looks := map[string]bool{}
	for _, style := range render(t, lines("", chart{series: series})).styles {
		if strings.Contains(style, "stroke-width:1.5") {
			looks[style] = true
		}
	}
	if len(looks) != maxLooks {
		t.Errorf("%d different looks for %d series", len(looks), maxLooks)
	}
	if _, err := lines("", chart{series: append(series, curveOf("one more", 3))}).SVG(); err == nil {
		t.Error("no error for more names than looks")
	}
}

// TestPointsThatCannotBeDrawn: points that are not finite are left out, on a logarithmic
// axis also those with x ≤ 0, and a standard error that is not finite counts as none.
func TestPointsThatCannotBeDrawn(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	s := Series{
		Name: "s", X: []float64{0, 1, 2, 3, nan, 10}, Y: []float64{1, 2, nan, inf, 1, 4},
		Err: []float64{nan, inf, 1, 1, 1, .5},
	}
	for _, test := range []struct {
		logX bool
		want []point
	}{
		{false, []point{{0, 1, 0}, {1, 2, 0}, {10, 4, .5}}},
		{true, []point{{1, 2, 0}, {10, 4, .5}}},
	} {
		panel := chart{log: test.logX, series: []Series{s}}
		if got := panel.points(s); !slices.Equal(got, test.want) {
			t.Errorf("log %v: points %v, want %v", test.logX, got, test.want)
		}
		render(t, lines("", panel))
	}
}

// TestExtremeValues: series of extreme, equal or nearly equal values give valid pictures.
func TestExtremeValues(t *testing.T) {
	for _, y := range [][]float64{{0}, {0, 0}, {-3, -3}, {5e-324, 0}, {-1e100, 1e100}, {1e100, 1e100}, {1e16, 1e16 + 2}, {1, 1 + 1e-15}, {1e-200, 1e-150}} {
		x := make([]float64, len(y))
		for i := range x {
			x[i] = max(math.Abs(y[i]), 1e-100)
		}
		for _, logX := range []bool{false, true} {
			for _, sweep := range []bool{false, true} {
				render(t, lines("", chart{log: logX, sweep: sweep, series: []Series{
					{Name: "y", X: x, Y: y}, {Name: "some", X: []float64{1}, Y: []float64{1}},
				}}))
			}
		}
	}
}

// TestErrors: a picture of invalid values gives an error that names the cause, and no
// bytes.
func TestErrors(t *testing.T) {
	good := curveOf("good", 3)
	with := func(change func(*Series)) Picture {
		s := curveOf("s", 3)
		change(&s)
		return lines("", chart{series: []Series{good, s}})
	}
	nan := math.NaN()
	dark := lines("", chart{series: []Series{good}})
	dark.Theme = 7
	bin := func(b Bin) Picture { return Reliability("", Diagram{"d", []Bin{{0, 1, 1, .5, .5}, b}}) }
	for want, p := range map[string]Picture{
		"without panels":              {},
		"neither Light nor Dark":      dark,
		"no series":                   lines("", chart{}),
		"at most 32":                  lines("", make([]chart, 33)...),
		"2 x, but 3 y":                with(func(s *Series) { s.X = s.X[:2] }),
		"2 standard errors":           with(func(s *Series) { s.Err = s.Err[:2] }),
		"standard error of -1":        with(func(s *Series) { s.Err[1] = -1 }),
		"none of 3 points":            with(func(s *Series) { s.Y = []float64{nan, nan, nan} }),
		"none of 0 points":            with(func(s *Series) { *s = Series{Name: "s"} }),
		`two series are named "go`:    with(func(s *Series) { s.Name = "good" }),
		"no systems":                  Bars("", "", nil),
		`two systems are named "a"`:   Bars("", "", []System{{Name: "a"}, {Name: "a"}}),
		`"b": a standard error of -1`: Bars("", "", []System{{Name: "b", Err: -1}}),
		"neither its value nor":       Bars("", "", []System{{Value: nan, Paper: nan}}),
		"601 systems, at most 600":    Bars("", "", make([]System, 601)),
		"601 bins, at most 600":       Reliability("", Diagram{"d", make([]Bin, 601)}),
		"bin 1 is [0.5, 0.4]":         bin(Bin{Low: .5, High: .4}),
		"bin 1 is [0.5, NaN]":         bin(Bin{Low: .5, High: nan}),
		"bin 1 has -1 predictions":    bin(Bin{High: 1, Count: -1}),
		"accuracy 1.5":                bin(Bin{High: 1, Count: 1, Accuracy: 1.5}),
		"0 rows × 3 columns":          Heat("", Map{Columns: 3}),
		"1 rows × 65537 columns":      Heat("", Map{Rows: []string{"a"}, Columns: 65537}),
		"1 names of 2 columns":        Heat("", Map{Rows: []string{"a"}, Columns: 2, Names: []string{"b"}, Values: []float64{1, 2}}),
		"2 values for 1 rows":         Heat("", Map{Rows: []string{"a"}, Columns: 3, Values: []float64{1, 2}}),
		"none of the values":          Heat("", Map{Rows: []string{"a"}, Columns: 1, Values: []float64{nan}}),
		"no predictions in any bin":   Reliability("", Diagram{"d", []Bin{{0, 1, 0, nan, nan}}}),
	} {
		svg, err := p.SVG()
		if err == nil || !strings.Contains(err.Error(), want) || svg != nil {
			t.Errorf("SVG: %d bytes and error %v, want no bytes and an error with %q", len(svg), err, want)
		}
		if _, err := p.PNG(); err == nil {
			t.Errorf("PNG: no error, want one with %q", want)
		}
	}
}

// TestHeat: each cell is one pixel of the image. The lowest value, zero, the highest and
// NaN have the colours that [Map] documents. A map with more rows than
// names can be shown is valid, too.
func TestHeat(t *testing.T) {
	p := Heat("", Map{Rows: []string{"a", "b"}, Columns: 2, Diverging: true, Values: []float64{-3, 0, 3, math.NaN()}})
	doc, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := bytes.Cut(doc, []byte("base64,"))
	encoded, _, _ := bytes.Cut(after, []byte(`"`))
	m, err := png.Decode(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(encoded)))
	if err != nil {
		t.Fatal(err)
	}
	if size := m.Bounds().Size(); size != image.Pt(2, 2) {
		t.Fatalf("the image of 2 × 2 cells is %v pixels large", size)
	}
	st := newStyle(Light)
	for i, want := range []color.NRGBA{st.hues[0], st.page, st.hues[1], st.grid} {
		if got := color.NRGBAModel.Convert(m.At(i%2, i/2)); got != color.Color(want) {
			t.Errorf("cell %d is %v, want %v", i, got, want)
		}
	}
	many := Map{Rows: make([]string, 200), Columns: 300, Values: make([]float64, 60000)}
	for i := range many.Rows {
		many.Rows[i] = fmt.Sprintf("a class with a long name, number %d", i)
	}
	render(t, Heat("", many))
}

// TestUntrustedText: texts with control characters, markup or too many characters give a
// well-formed picture of bounded texts.
func TestUntrustedText(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	word := strings.Repeat("w", 1000)
	p := lines("a\x00b\xff]]>\ufffe <script> "+long, chart{
		title: word, xLabel: word, yLabel: long, series: []Series{curveOf("a\nb\"", 3)},
	})
	s := render(t, p)
	if !slices.Contains(s.texts, `a b"`) {
		t.Errorf("texts are %q, want %q among them", s.texts, `a b"`)
	}
	for _, text := range s.texts {
		if n := len([]rune(text)); n > maxText {
			t.Errorf("a text has %d characters, want at most %d", n, maxText)
		}
	}
}

// FuzzLines: no values make rendering panic or give an invalid SVG.
func FuzzLines(f *testing.F) {
	f.Add(1.0, 2.0, 3.0, 4.0, 0.5, true, true, "name")
	f.Add(1.0, 2.0, 3.0, 4.0, 0.0, false, false, strings.Repeat("w", 200))
	f.Add(0.0, 5e-324, math.MaxFloat64, math.Inf(1), math.NaN(), false, true, "\x01<&>")
	f.Fuzz(func(t *testing.T, x0, x1, y0, y1, e float64, logX, sweep bool, name string) {
		p := lines(name, chart{
			title: name, xLabel: name, yLabel: name, log: logX, sweep: sweep,
			series: []Series{{Name: name, X: []float64{x0, x1}, Y: []float64{y0, y1}, Err: []float64{e, 0}}},
		})
		if doc, err := p.SVG(); err == nil {
			parse(t, doc)
		}
	})
}
