package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/bench"
)

// results are rounds of rates, one list of series after another.
func results(experiment string, x int, rates map[string][]float64) *Results {
	r := &Results{}
	for name, list := range rates {
		for i, v := range list {
			r.Figures = append(r.Figures, Figure{Experiment: experiment, Series: name, X: x, Round: i + 1, Rate: v, P50: v / 10, P99: v})
		}
	}
	return r
}

func TestMedian(t *testing.T) {
	t.Parallel()
	r := results("puts", 1, map[string][]float64{"odd": {3, 1, 2}, "even": {4, 1, 2, 3}})
	for name, want := range map[string]float64{"odd": 2, "even": 2.5} {
		if got, err := r.median("puts", name, 1, rate); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
	if _, err := r.median("puts", "odd", 2, rate); !errors.Is(err, errNothing) {
		t.Errorf("where nothing was measured: %v", err)
	}
}

// TestRatioIsOfRounds: a round in which everything was slow does not bend the ratio.
func TestRatioIsOfRounds(t *testing.T) {
	t.Parallel()
	r := results("puts", 1, map[string][]float64{"a": {20, 2, 60}, "b": {10, 1, 30}})
	p := func(s string) place { return place{"puts", s, 1, rate, "/s"} }
	v := r.atLeast("what", "≥ 2", p("a"), p("b"), 2)
	if !v.met || v.ratio != "2.00" || v.rounds != "2.00 to 2.00" || v.seen != "20/s against 10/s" || v.word() != "met" {
		t.Errorf("%+v", v)
	}
	if v := r.atLeast("what", "≥ 2.1", p("a"), p("b"), 2.1); v.met || v.word() != "**not met**" {
		t.Errorf("%+v", v)
	}
	if v := r.atMost("what", "≤ 2", p("a"), p("absent"), 2); v.err == nil || v.word() != "not measured" {
		t.Errorf("%+v", v)
	}
}

// TestRoundsDiffer: where the rounds do not agree the page tells.
func TestRoundsDiffer(t *testing.T) {
	t.Parallel()
	r := results("puts", 1, map[string][]float64{"a": {19, 22, 24}, "b": {10, 10, 10}})
	p := func(s string) place { return place{"puts", s, 1, rate, "/s"} }
	for times, want := range map[float64]string{1.9: "met", 2: "met, not in every round", 2.3: "**not met**, but in a round", 2.5: "**not met**"} {
		if got := r.atLeast("", "", p("a"), p("b"), times).word(); got != want {
			t.Errorf("1.9, 2.2 and 2.4 for %v: %s, want %s", times, got, want)
		}
		if got := r.value("", "", p("a"), above(10*times)).word(); got != want {
			t.Errorf("19, 22 and 24 for %v: %s, want %s", 10*times, got, want)
		}
	}
}

// TestBestEtcd: each round's better one counts, with its own latencies.
func TestBestEtcd(t *testing.T) {
	t.Parallel()
	r := results("puts", 64, map[string][]float64{sEtcd: {10, 30}, sEtcdMany: {20, 25}})
	got, err := r.rounds(place{"puts", sBestEtcd, 64, p50, "ms"})
	if err != nil || len(got) != 2 || got[1] != 2 || got[2] != 3 {
		t.Errorf("%v, %v, want 2 and 3 ms", got, err)
	}
}

// TestAnyX: the x counts with which it did most in that round.
func TestAnyX(t *testing.T) {
	t.Parallel()
	r := results("puts", 64, map[string][]float64{sKinePostgres: {10, 30}})
	r.Figures = append(r.Figures, results("puts", 256, map[string][]float64{sKinePostgres: {20, 25}}).Figures...)
	got, err := r.rounds(place{"puts", sKinePostgres, anyX, rate, "/s"})
	if err != nil || len(got) != 2 || got[1] != 20 || got[2] != 30 {
		t.Errorf("%v, %v, want 20 and 30", got, err)
	}
}

// TestFailedFiguresDoNotCount: what could not be measured is no zero.
func TestFailedFiguresDoNotCount(t *testing.T) {
	t.Parallel()
	r := results("puts", 1, map[string][]float64{"a": {10}})
	r.Figures = append(r.Figures, Figure{Experiment: "puts", Series: "a", X: 1, Round: 2, Failed: "no server"})
	if got, err := r.median("puts", "a", 1, rate); err != nil || got != 10 {
		t.Errorf("%v, %v", got, err)
	}
	if page, _ := pages(r); !strings.Contains(page, "Not measured: a at 1, round 2: no server") {
		t.Errorf("the page does not tell:\n%s", page)
	}
}

// TestRoundsAreInterleaved: within a round all series at one x are measured before the next x, and each round begins with
// another one.
func TestRoundsAreInterleaved(t *testing.T) {
	t.Parallel()
	var order []string
	s := func(name string) series {
		return series{name, func(_ context.Context, _ *env, x int) (Figure, error) {
			order = append(order, fmt.Sprint(name, x))
			if name == "bad" {
				return Figure{}, errors.New("broken")
			}
			return Figure{Rate: float64(x)}, nil
		}}
	}
	e := &env{results: &Results{}, time: time.Second}
	written := 0
	err := e.run(t.Context(), []experiment{{name: "one", xs: []int{1, 2}, series: []series{s("a"), s("bad")}}}, 2, func() error {
		written++
		return nil
	})
	if err != nil || strings.Join(order, " ") != "a1 bad1 a2 bad2 bad1 a1 bad2 a2" || written != 2 {
		t.Errorf("order %v, written %d times, %v", order, written, err)
	}
	if f := e.results.Figures[4]; f.Round != 2 || f.Series != "bad" || f.Failed != "broken" || f.X != 1 {
		t.Errorf("figure %+v", f)
	}
}

// TestPages: every experiment has its place, plots are well-formed, follow light and dark, and are those that the page
// shows.
func TestPages(t *testing.T) {
	t.Parallel()
	r := &Results{Begin: "2026-01-02T03:04:05Z", Rounds: 3, Seconds: 5, Machine: bench.Machine{Cores: 2, Load: 0.4}, Versions: map[string]string{"etcd": "v3"}}
	for _, ex := range experiments([]int{1, 64, 1024}, []int{1, 8, 16}, []int{1000, 1_000_000}, true) {
		for i, s := range ex.series {
			for _, x := range ex.xs {
				for round := range 3 {
					r.Figures = append(r.Figures, Figure{Experiment: ex.name, Series: s.name, X: x, Round: round + 1, Rate: float64(1000 * (i + 1)),
						P50: 1, P99: 2, P999: 3, Extra: map[string]float64{"rows a second": 10, "resident MiB": 5,
							"µs of the load": 4, "µs of the rest": 3, "% idle": 30}})
				}
			}
		}
	}
	page, plots := pages(r)
	for _, ex := range experiments(nil, nil, nil, true) {
		if !strings.Contains(page, "## "+ex.title) {
			t.Errorf("the page has no section %q", ex.title)
		}
	}
	for _, want := range []string{"| ≥ 12 × etcd | 6,000/s against 2,000/s | 3.00 | 3.00 to 3.00 | **not met** |", "etcd v3", "3 rounds of 5 s",
		"| library, PostgreSQL, 1024 callers | ≥ 12 × etcd | 24,000/s | 83.3 µs | 7 µs | 30 % |",
		"| an idle server, resident memory | ≤ 40 MiB | 5 MiB |  | 5 MiB to 5 MiB | met |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, spoil := range []func(){func() { r.Quick = true }, func() { r.Quick, r.Machine.Load = false, 0.6 },
		func() { r.Machine.Load, r.Disk = 0.1, "tmpfs" }} {
		spoil()
		if page, _ := pages(r); strings.Contains(page, " met |") || strings.Contains(page, "How far away") || !strings.Contains(page, "| not judged: ") {
			t.Errorf("quick: %v, load %v, disk %q: a bar is judged", r.Quick, r.Machine.Load, r.Disk)
		}
	}
	if n := strings.Count(page, ".svg)"); n != len(plots) || n < 8 {
		t.Errorf("%d plots are shown, %d made", n, len(plots))
	}
	for name, svg := range plots {
		if !strings.Contains(page, "]("+name+")") {
			t.Errorf("%s is not shown", name)
		}
		checkSVG(t, name, svg)
	}
}

func checkSVG(t *testing.T, name, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if !strings.Contains(svg, "prefers-color-scheme:dark") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("%s: %s", name, svg)
	}
}

func TestPlotOfOddData(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]line{
		"nothing": nil, "one point": {{"a", []float64{1}, []float64{5}}}, "level": {{"a", []float64{1, 10}, []float64{5, 5}}},
		"wide": {{"<a&b>", []float64{1, 1e6}, []float64{0.001, 1e7}}},
	} {
		checkSVG(t, name, plot("title <&>", "x", "y", lines))
	}
}

func TestAxis(t *testing.T) {
	t.Parallel()
	a := axisOf([]line{{"a", nil, []float64{10, 1000}}}, func(l line) []float64 { return l.ys })
	if lo, hi := a.at(10), a.at(1000); lo <= 0 || hi >= 1 || math.Abs(a.at(100)-0.5) > 1e-9 {
		t.Errorf("10 at %v, 100 at %v, 1000 at %v", lo, a.at(100), hi)
	}
	if got := fmt.Sprint(a.decades()); got != "[10 20 50 100 200 500 1000]" {
		t.Errorf("marks %v", got)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{1: "1", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.123456: "0.123", 12.3456: "12.3", 999: "999", 1400: "1,400"} {
		if got := digits(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{1: "1", 1024: "1024", 20000: "20k", 3e6: "3M"} {
		if got := tick(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

func TestFileSystemOf(t *testing.T) {
	t.Parallel()
	mounts := "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x xfs rw 0 0\n"
	for dir, want := range map[string]string{"/var": "ext4", "/tmp": "tmpfs", "/tmp/xy": "tmpfs", "/tmp/x/y": "xfs"} {
		if got := fileSystemOf(dir, mounts); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, o := range []options{{callers: "1,x", nodes: "1", streams: "1"}, {callers: "0", nodes: "1", streams: "1"},
		{callers: "1", nodes: "1", streams: "1", only: "["}, {callers: "1", nodes: "1", streams: "1", only: "nothing"}} {
		if _, err := o.experiments(); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	chosen, err := options{callers: "1,2", nodes: "1", streams: "1", only: "^puts$"}.experiments()
	if err != nil || len(chosen) != 1 || len(chosen[0].xs) != 2 {
		t.Fatalf("%+v, %v", chosen, err)
	}
	for _, s := range chosen[0].series {
		if strings.Contains(s.name, "etcd") || strings.Contains(s.name, "kine") {
			t.Errorf("%s is measured without -peers", s.name)
		}
	}
	// Refused before anything is built or written.
	out := filepath.Join(t.TempDir(), "out")
	good := options{out: out, callers: "1", nodes: "1", streams: "1", only: "^serve$", rounds: 1, time: time.Second}
	for what, spoil := range map[string]func(*options){"no -out": func(o *options) { o.out = "" }, "no rounds": func(o *options) { o.rounds = 0 },
		"no time": func(o *options) { o.time = 0 }, "a negative warm-up": func(o *options) { o.warmup = -1 }} {
		o := good
		spoil(&o)
		if err := run(t.Context(), o); err == nil {
			t.Errorf("it ran with %s", what)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a folder was made")
	}
	for _, text := range []string{"", "null", "{}", "{", `{"figures":[]}`} {
		path := filepath.Join(t.TempDir(), rawFile)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), options{out: filepath.Dir(path), render: true}); err == nil {
			t.Errorf("pages were written from %q", text)
		}
		o := good
		o.out, o.keep = filepath.Dir(path), true
		if err := run(t.Context(), o); err == nil {
			t.Errorf("figures were kept of %q", text)
		}
	}
}

// TestFiguresAreProtected: neither a trial nor figures of another machine come into a page of measurements.
func TestFiguresAreProtected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, rawFile)
	r := results("puts", 1, map[string][]float64{"a": {1, 2}})
	r.Machine.CPU = "another"
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for flag, o := range map[string]options{"-quick": {quick: true}, "-keep": {keep: true}} {
		o.out, o.callers, o.nodes, o.streams, o.only, o.rounds, o.time = dir, "1", "1", "1", "^serve$", 1, time.Second
		if err := run(t.Context(), o); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the figures were changed, %v", err)
	}
}

// TestFlagsArePrintedForAShell: what the page shows can be copied.
func TestFlagsArePrintedForAShell(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"-rounds=3", "-only=^(puts|gets)$", "it's", "-time=3s", "a b"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quoted(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%s: a shell reads %s: %q, %v", text, quoted(text), out, err)
		}
	}
	if got := quoted("-time=3s"); got != "-time=3s" {
		t.Errorf("needless quotes: %s", got)
	}
}

// TestJobs: the loads that need no server do what they say.
func TestJobs(t *testing.T) {
	t.Parallel()
	do := func(j job) []byte {
		t.Helper()
		text, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := runJob(t.Context(), string(text), &out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	var r bench.Result
	if err := json.Unmarshal(do(job{Kind: "insert-sqlite", Addr: filepath.Join(t.TempDir(), "p.db"), Time: 50 * time.Millisecond, ValueBytes: 500}), &r); err != nil {
		t.Fatal(err)
	}
	if r.All.Count == 0 || r.All.Errors != 0 {
		t.Errorf("inserts: %+v, %+v", r.All, r.Errors)
	}
	var ns map[string]float64
	if err := json.Unmarshal(do(job{Kind: "lookups", Streams: 100, Time: 10 * time.Millisecond}), &ns); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"view", "map hot", "map random", "stream hot", "stream random", "find ten random"} {
		if ns[name] <= 0 {
			t.Errorf("look-ups: nothing of %q in %v", name, ns)
		}
	}
	for _, bad := range []string{"{", `{"Kind":"sleep"}`} {
		if err := runJob(t.Context(), bad, io.Discard); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestResultsAreReadBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), rawFile)
	r := results("puts", 1, map[string][]float64{"a": {1, 2}})
	if n := r.failed(); n != 0 {
		t.Errorf("%d measurements failed", n)
	}
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readResults(path)
	if err != nil || len(got.Figures) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	// The pages can be written again from the raw figures.
	if err := run(t.Context(), options{out: filepath.Dir(path), render: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), pageFile)); err != nil {
		t.Error(err)
	}
}
