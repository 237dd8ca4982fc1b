package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// verdict is what a bar came to.
type verdict struct {
	what, needs string
	seen        string // the two values that are compared, or the one
	ratio       string // empty: a value against a bound
	rounds      string // the least and the greatest of the rounds, of the ratio or of the value
	met         bool
	mixed       bool    // not so in every round
	err         error   // why it cannot be judged
	needed      float64 // operations a second; 0: the bar is about something else
	takes, idle float64 // processor time of an operation in µs, and what was idle of the machine in percent
}

// word is the verdict in a word.
func (v verdict) word() string {
	switch {
	case v.err != nil:
		return "not measured"
	case v.met && v.mixed:
		return "met, not in every round"
	case v.met:
		return "met"
	case v.mixed:
		return "**not met**, but in a round"
	}
	return "**not met**"
}

// judge judges by the median of the rounds.
func (v *verdict) judge(byRound map[int]float64, met func(float64) bool) {
	v.met = met(middleOf(byRound))
	for _, one := range byRound {
		v.mixed = v.mixed || met(one) != v.met
	}
}

// place is where a value was measured.
type place struct {
	experiment, series string
	x                  int // anyX: where it did most in that round
	v                  value
	unit               string
}

// These stand for the one of two series that did more in that round.
const (
	sBestEtcd = "etcd at its better"        // with one connection or with many
	sBestNode = "nodes on PostgreSQL, best" // racing or with the turnstile
)

const anyX = 0 // as the x of a place: see there

var betterOf = map[string][]string{sBestEtcd: {sEtcd, sEtcdMany}, sBestNode: {sRacing, sTurnstile}}

// rounds returns the value of each round, by round.
func (r *Results) rounds(p place) (byRound map[int]float64, err error) {
	byRound = map[int]float64{}
	names, ok := betterOf[p.series]
	if !ok {
		names = []string{p.series}
	}
	best := map[int]float64{}
	for _, name := range names {
		for _, f := range r.at(p.experiment, name, p.x) {
			if have, ok := best[f.Round]; !ok || f.Rate > have {
				best[f.Round], byRound[f.Round] = f.Rate, p.v(f)
			}
		}
	}
	if len(byRound) == 0 {
		return nil, errNothing
	}
	return byRound, nil
}

// middle is the median over the rounds.
func (r *Results) middle(p place) (float64, error) {
	byRound, err := r.rounds(p)
	if err != nil {
		return 0, err
	}
	return middleOf(byRound), nil
}

func middleOf(byRound map[int]float64) float64 { return medianOf(slices.Collect(maps.Values(byRound))) }

// spread tells the least and the greatest of the rounds.
func spread(byRound map[int]float64, show func(float64) string) string {
	values := slices.Collect(maps.Values(byRound))
	return show(slices.Min(values)) + " to " + show(slices.Max(values))
}

// ratios are the rounds' ratios: what disturbs a round disturbs both of its values. Their median counts.
func (r *Results) ratios(a, b place) (map[int]float64, error) {
	as, err := r.rounds(a)
	if err != nil {
		return nil, err
	}
	bs, err := r.rounds(b)
	if err != nil {
		return nil, err
	}
	ratios := map[int]float64{}
	for round, v := range as {
		if bs[round] > 0 {
			ratios[round] = v / bs[round]
		}
	}
	if len(ratios) == 0 {
		return nil, errNothing
	}
	return ratios, nil
}

// atLeast judges a ≥ times b.
func (r *Results) atLeast(what, needs string, a, b place, times float64) verdict {
	v := r.compare(what, needs, a, b, above(times))
	if v.err != nil || a.unit != "/s" {
		return v
	}
	of := func(name string) float64 {
		a.v = extra(name)
		m, _ := r.middle(a) // there is one, or v.err would say so
		return m
	}
	reference, _ := r.middle(b)
	v.needed, v.takes, v.idle = times*reference, of("µs of the load")+of("µs of the rest"), of("% idle")
	return v
}

// atMost judges a ≤ times b.
func (r *Results) atMost(what, needs string, a, b place, times float64) verdict {
	return r.compare(what, needs, a, b, below(times))
}

func (r *Results) compare(what, needs string, a, b place, met func(float64) bool) verdict {
	v := verdict{what: what, needs: needs}
	ma, errA := r.middle(a)
	mb, errB := r.middle(b)
	ratios, err := r.ratios(a, b)
	if v.err = errors.Join(errA, errB, err); v.err != nil {
		return v
	}
	v.seen = show(ma, a.unit) + " against " + show(mb, b.unit)
	two := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	v.ratio, v.rounds = two(middleOf(ratios)), spread(ratios, two)
	v.judge(ratios, met)
	return v
}

// value judges a value against a bound.
func (r *Results) value(what, needs string, p place, met func(float64) bool) verdict {
	v := verdict{what: what, needs: needs}
	byRound, err := r.rounds(p)
	if v.err = err; err != nil {
		return v
	}
	v.seen = show(middleOf(byRound), p.unit)
	v.judge(byRound, met)
	v.rounds = spread(byRound, func(v float64) string { return show(v, p.unit) })
	return v
}

func below(bound float64) func(float64) bool { return func(v float64) bool { return v <= bound } }
func above(bound float64) func(float64) bool { return func(v float64) bool { return v >= bound } }

// show prints a value with its unit.
func show(v float64, unit string) string {
	switch unit {
	case "/s":
		return grouped(v) + "/s"
	case "rows/s":
		return grouped(v) + " rows/s"
	case "":
		return digits(v)
	}
	return digits(v) + " " + unit
}

// digits writes three digits of a small number, and a large one as a whole number.
func digits(v float64) string {
	if v >= 1000 {
		return grouped(v)
	}
	return fmt.Sprintf("%.3g", v)
}

// grouped writes a whole number with commas.
func grouped(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// verdicts judges every bar.
func (r *Results) verdicts() []verdict {
	at := func(ex, s string, x int, v value, unit string) place { return place{ex, s, x, v, unit} }
	puts := func(s string, x int) place { return at("puts", s, x, rate, "/s") }
	tail := func(s string, x int) place { return at("puts", s, x, p99, "ms") }
	half := func(s string, x int) place { return at("puts", s, x, p50, "ms") }
	out := []verdict{
		r.atLeast("library, PostgreSQL, 1024 callers", "≥ 12 × etcd", puts(sLibPostgres, 1024), puts(sBestEtcd, 1024), 12),
		r.atMost("the same, p99", "≤ a tenth of etcd's", tail(sLibPostgres, 1024), tail(sBestEtcd, 1024), 0.1),
		r.value("ten-slice commits over 10³ streams", "≥ 25,000/s", at("commits", sLibPostgres, 1000, extra("op commit a second"), "/s"), above(25_000)),
		r.value("the same at random over 10⁶ streams with 10⁷ slices", "≥ 12,000/s", at("commits", sLibPostgres, 1_000_000, extra("op commit a second"), "/s"), above(12_000)),
		r.atLeast("library, SQLite, 1024 callers", "≥ 15 × etcd", puts(sLibSQLite, 1024), puts(sBestEtcd, 1024), 15),
		r.atLeast("the same, rows", "≥ 0.6 × a bare loop of such rows", at("puts", sLibSQLite, 1024, extra("rows a second"), "rows/s"), puts(sInsertSQLite, 1024), 0.6),
		r.atMost("library, PostgreSQL, 1 caller, p50", "≤ 1.3 × a bare INSERT", half(sLibPostgres, 1), half(sInsertPG, 1), 1.3),
		r.atMost("library, SQLite, 1 caller, p50", "≤ 1.3 × a bare INSERT", half(sLibSQLite, 1), half(sInsertSQLite, 1), 1.3),
	}
	for i, x := range []int{1, 16, 64, 256, 1024} {
		times := []float64{1, 1.2, 1.4, 1.6, 1.6}[i]
		what := fmt.Sprintf("API, PostgreSQL, callers: %d", x)
		out = append(out,
			r.atLeast(what, fmt.Sprintf("≥ %.1f × etcd", times), puts(sAPI, x), puts(sBestEtcd, x), times),
			r.atLeast(what, "≥ 0.75 × the echo beside such inserts", puts(sAPI, x), puts(sEchoBeside, x), 0.75))
	}
	gets := func(s string) place { return at("gets", s, 256, rate, "/s") }
	out = append(out,
		r.atMost("API, PostgreSQL, 1024 callers, p99", "≤ a third of etcd's", tail(sAPI, 1024), tail(sBestEtcd, 1024), 1./3),
		r.atLeast("API, shared requests, 1024 callers", "≥ 6 × etcd", puts(sGathered, 1024), puts(sBestEtcd, 1024), 6),
		r.atLeast("API, PostgreSQL, 1024 callers, against kine with as many", "≥ 10 × kine", puts(sAPI, 1024), puts(sKinePostgres, 1024), 10),
		r.atLeast("the same, against kine with as many as it does most with", "≥ 10 × kine", puts(sAPI, 1024), puts(sKinePostgres, anyX), 10),
		r.atMost("API, 1 caller, p50", "≤ etcd's", half(sAPI, 1), half(sBestEtcd, 1), 1),
		r.atLeast("linearizable reads, API, 256 callers", "≥ 1.2 × etcd", gets(sAPI), gets(sBestEtcd), 1.2),
		r.atLeast("linearizable reads, API, 256 callers", "≥ 0.8 × the echo", gets(sAPI), gets(sEcho), 0.8),
	)
	return slices.Concat(out, r.readBars(), r.stateBars(), r.nodeBars(), r.serverBars())
}

// readBars judges local reads of a state of a million streams.
func (r *Results) readBars() []verdict {
	const x = 1_000_000
	ns := func(name string) place { return place{"lookups", sState, x, extra(name), "ns"} }
	return []verdict{
		r.atMost("a stream of 10⁶ by id, random", "≤ 2 × a bare look-up in the map", ns("stream random"), ns("map random"), 2),
		r.value("the same", "≤ 1.5 µs", ns("stream random"), below(1500)),
		r.value("a stream of 10⁶ by id, hot", "≤ 150 ns", ns("stream hot"), below(150)),
		r.atMost("ten slices of 10⁷ by offset, random", "≤ 3 × a stream by id", ns("find ten random"), ns("stream random"), 3),
	}
}

// stateBars judges what a large state costs.
func (r *Results) stateBars() []verdict {
	const small, large = 1000, 1_000_000
	commits := func(x int) place {
		return place{"commits", sLibPostgres, x, extra("op commit a second"), "/s"}
	}
	tail := func(s string) place { return place{"snapshots", s, large, extra("op commit p99 ms"), "ms"} }
	with := func(name, unit string) place { return place{"snapshots", sWith, large, extra(name), unit} }
	return []verdict{
		r.atMost("commits over 10³ streams against 10⁶, random", "≤ 7 × as many", commits(small), commits(large), 7),
		r.atMost("p99 of commits while a snapshot of 10⁷ slices is made", "≤ 3 × without", tail(sWith), tail(sWithout), 3),
		r.value("that snapshot", "≤ 250 MiB", with("snapshot MiB", "MiB"), below(250)),
		r.value("start on it, until ready", "≤ 15 s", with("seconds to ready", "s"), below(15)),
	}
}

// nodeBars judges many nodes on one database.
func (r *Results) nodeBars() (out []verdict) {
	at := func(x int, v value, unit string) place { return place{"nodes", sTurnstile, x, v, unit} }
	for i, x := range []int{8, 16} {
		share, tail := []float64{0.3, 0.15}[i], []float64{100, 200}[i]
		what := fmt.Sprintf("%d nodes with the turnstile", x)
		out = append(out,
			r.atLeast(what, fmt.Sprintf("≥ %.2f × one node at its better", share), at(x, rate, "/s"), place{"nodes", sBestNode, 1, rate, "/s"}, share),
			r.value(what+", slowest by fastest", "≥ 0.5", at(x, extra("slowest by fastest node"), ""), above(0.5)),
			r.value(what+", p99.9", fmt.Sprintf("≤ %.0f ms", tail), at(x, p999, "ms"), below(tail)))
	}
	seen := func(v value) place { return place{"visible", sLibPostgres, 1, v, "ms"} }
	return append(out,
		r.value("from one node's answer to another's view, p50", "≤ 0.3 ms", seen(p50), below(0.3)),
		r.value("the same, p99", "≤ 2 ms", seen(p99), below(2)))
}

// serverBars judges an idle server.
func (r *Results) serverBars() []verdict {
	at := func(name, unit string) place { return place{"serve", sServe, 1, extra(name), unit} }
	return []verdict{
		r.value("an idle server, resident memory", "≤ 40 MiB", at("resident MiB", "MiB"), below(40)),
		r.value("from its start to its first answer", "≤ 0.15 s", at("seconds to first answer", "s"), below(0.15)),
	}
}
