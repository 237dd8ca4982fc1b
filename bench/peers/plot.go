package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// line is one series of a plot.
type line struct {
	name string
	xs   []float64
	ys   []float64
}

// The size of a plot, in its own units.
const (
	plotWidth, plotHeight = 960.0, 440.0
	left, right           = 80.0, 620.0 // of the area with lines; the legend is behind
	top, bottom           = 50.0, 380.0
)

// colours are told apart by most eyes, on white and on nearly black.
var colours = [...]struct{ light, dark string }{
	{"#0060b9", "#6cb6ff"}, {"#c2410c", "#ff9b5e"}, {"#15803d", "#5fd38d"}, {"#7e22ce", "#c89bff"}, {"#b91c1c", "#ff8080"},
	{"#0f766e", "#4fd1c5"}, {"#a16207", "#e3c04d"}, {"#475569", "#a3b1c6"}, {"#be185d", "#ff8cc0"}, {"#4d7c0f", "#b5e061"}, {"#1e3a8a", "#9aa8ff"},
}

// plot draws lines over logarithmic axes as an SVG that follows the reader's choice of light or dark.
func plot(title, xName, yName string, lines []line) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n", plotWidth, plotHeight, escape(title))
	b.WriteString(style(len(lines)))
	fmt.Fprintf(&b, `<rect class="ground" width="%.0f" height="%.0f"/>`+"\n", plotWidth, plotHeight)
	text(&b, left, 26, "title", "start", title)
	x, y := axisOf(lines, func(l line) []float64 { return l.xs }), axisOf(lines, func(l line) []float64 { return l.ys })
	px := func(v float64) float64 { return left + x.at(v)*(right-left) }
	py := func(v float64) float64 { return bottom - y.at(v)*(bottom-top) }
	for _, v := range y.decades() {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", left, right, py(v), py(v))
		text(&b, left-8, py(v)+4, "", "end", tick(v))
	}
	for _, v := range distinct(lines) {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", px(v), px(v), top, bottom)
		text(&b, px(v), bottom+18, "", "middle", tick(v))
	}
	text(&b, (left+right)/2, bottom+42, "", "middle", xName)
	text(&b, left, top-8, "", "start", yName)
	for i, l := range lines {
		var points []string
		for k := range l.xs {
			points = append(points, fmt.Sprintf("%.1f,%.1f", px(l.xs[k]), py(l.ys[k])))
			fmt.Fprintf(&b, `<circle class="c%d" cx="%.1f" cy="%.1f" r="3.5"/>`+"\n", i, px(l.xs[k]), py(l.ys[k]))
		}
		fmt.Fprintf(&b, `<polyline class="s%d" points="%s"/>`+"\n", i, strings.Join(points, " "))
		row := top + 10 + float64(i)*22
		fmt.Fprintf(&b, `<line class="s%d" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", i, right+16, right+40, row, row)
		text(&b, right+46, row+4, "", "start", l.name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// style holds both sets of colours; which one counts is the reader's setting.
func style(n int) string {
	var light, dark strings.Builder
	for i := range n {
		c := colours[i%len(colours)]
		fmt.Fprintf(&light, ".s%d{stroke:%s}.c%d{fill:%s}", i, c.light, i, c.light)
		fmt.Fprintf(&dark, ".s%d{stroke:%s}.c%d{fill:%s}", i, c.dark, i, c.dark)
	}
	return "<style>text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.ground{fill:#ffffff}" +
		".grid{stroke:#d0d7de;stroke-width:1}polyline,line{fill:none;stroke-width:2}" + light.String() +
		"@media (prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}.grid{stroke:#30363d}" + dark.String() + "}</style>\n"
}

func text(b *strings.Builder, x, y float64, class, anchor, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, escape(s))
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}

// axis is a logarithmic axis.
type axis struct{ low, high float64 } // logarithms

// axisOf makes an axis that holds all values, from a power of ten to one for values, and a little more than there is for xs.
func axisOf(lines []line, of func(line) []float64) axis {
	a := axis{math.Inf(1), math.Inf(-1)}
	for _, l := range lines {
		for _, v := range of(l) {
			a.low, a.high = min(a.low, math.Log10(v)), max(a.high, math.Log10(v))
		}
	}
	if a.low > a.high {
		return axis{0, 1}
	}
	margin := max((a.high-a.low)*0.05, 0.1)
	return axis{a.low - margin, a.high + margin}
}

// at is where a value lies, from 0 to 1.
func (a axis) at(v float64) float64 { return (math.Log10(v) - a.low) / (a.high - a.low) }

// decades are the round values on the axis: 1, 2 and 5 of each power of ten, or where that is too many, the 1.
func (a axis) decades() (values []float64) {
	steps := []float64{1, 2, 5}
	if a.high-a.low > 2.5 {
		steps = []float64{1}
	}
	for e := math.Floor(a.low); e <= a.high; e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); math.Log10(v) >= a.low && math.Log10(v) <= a.high {
				values = append(values, v)
			}
		}
	}
	return values
}

// distinct are the xs of all lines.
func distinct(lines []line) (xs []float64) {
	seen := map[float64]bool{}
	for _, l := range lines {
		for _, x := range l.xs {
			if !seen[x] {
				seen[x] = true
				xs = append(xs, x)
			}
		}
	}
	return xs
}

// tick writes a value of an axis.
func tick(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
