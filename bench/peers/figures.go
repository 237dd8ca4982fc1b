package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/headwaterdb/headwater/internal/bench"
)

// Figure is one measurement: of one series, at one x, in one round.
type Figure struct {
	Experiment string  `json:"experiment"`
	Series     string  `json:"series"`
	X          int     `json:"x"`     // callers, nodes or streams: what the experiment varies
	Round      int     `json:"round"` // from 1
	Rate       float64 `json:"rate"`  // operations a second; 0: not what is measured
	P50        float64 `json:"p50Ms"`
	P99        float64 `json:"p99Ms"`
	P999       float64 `json:"p999Ms"`
	Errors     int64   `json:"errors"`
	Example    string  `json:"example,omitempty"` // one of the errors
	Failed     string  `json:"failed,omitempty"`  // why there is no measurement
	Load       float64 `json:"load"`              // average of processes that wanted to run in the minute before
	// Extra are values of the series alone: rows a second, bytes of a row, the slowest node's share, MiB.
	Extra map[string]float64 `json:"extra,omitempty"`
}

// figureOf takes what is compared out of a result.
func figureOf(r *bench.Result) Figure {
	f := Figure{Rate: r.All.Rate, P50: r.All.P50, P99: r.All.P99, P999: r.All.P999, Errors: r.All.Errors}
	f.Extra = map[string]float64{}
	if p, n := r.Processor, r.All.Rate*r.Seconds; p != nil && n > 0 {
		f.Extra["µs of the load"] = p.Own / n * 1e6
		f.Extra["µs of the rest"] = max(p.Busy-p.Own, 0) / n * 1e6
		f.Extra["% idle"] = 100 * p.Idle / (p.Busy + p.Idle + p.Stolen)
		f.Extra["% stolen"] = 100 * p.Stolen / (p.Busy + p.Idle + p.Stolen)
	}
	if len(r.Errors) > 0 {
		f.Example = fmt.Sprintf("%.100s", r.Errors[0].Example)
	}
	return f
}

// Results is everything that a run measured, and all that is needed to judge it.
type Results struct {
	Begin    string            `json:"begin"` // UTC
	Quick    bool              `json:"quick"` // a trial of the instrument, not a measurement
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds"` // of each measurement
	Flags    string            `json:"flags,omitempty"`
	Sync     float64           `json:"syncMs,omitempty"` // median of a write of 4 KiB and fdatasync on the disk, alone
	Machine  bench.Machine     `json:"machine"`
	Versions map[string]string `json:"versions"`
	Disk     string            `json:"disk"`              // the file system that everything writes to
	Earlier  []string          `json:"earlier,omitempty"` // the runs that figures were kept of
	Figures  []Figure          `json:"figures"`
}

// surroundings are what figures of two runs must have in common to stand in one page.
func (r *Results) surroundings() string {
	m := r.Machine
	return fmt.Sprintf("%s, %d cores, %s/%s", m.CPU, m.Cores, m.OS, m.Arch)
}

// keep takes over the figures of the run in a file, but those of the experiments that are to be measured again.
func (r *Results) keep(path string, again []experiment) error {
	old, err := readResults(path)
	if err != nil {
		return err
	}
	if a, b := old.surroundings(), r.surroundings(); a != b {
		return fmt.Errorf("-keep: the figures in %s are of %s, this is %s", path, a, b)
	}
	var kept []string
	for _, f := range old.Figures {
		if slices.ContainsFunc(again, func(ex experiment) bool { return ex.name == f.Experiment }) {
			continue
		}
		if r.Figures = append(r.Figures, f); !slices.Contains(kept, f.Experiment) {
			kept = append(kept, f.Experiment)
		}
	}
	r.Earlier = append(old.Earlier, fmt.Sprintf("%s: %s, %d rounds of %g s each, headwater %s, postgresql %s, flags %s", strings.Join(kept, ", "),
		old.Begin, old.Rounds, old.Seconds, old.Versions["headwater"], old.Versions["postgresql"], old.Flags))
	r.Quick, r.Machine.Load = r.Quick || old.Quick, max(r.Machine.Load, old.Machine.Load)
	return nil
}

func (r *Results) write(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path) // whole or not at all
}

// failed is how many measurements failed.
func (r *Results) failed() (n int) {
	for _, f := range r.Figures {
		if f.Failed != "" {
			n++
		}
	}
	return n
}

func readResults(path string) (*Results, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Results)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Figures) == 0 {
		return nil, fmt.Errorf("%s holds no figures", path)
	}
	return r, nil
}

// at returns the figures of a series at x, or at every x, that are measurements.
func (r *Results) at(experiment, series string, x int) (figures []Figure) {
	for _, f := range r.Figures {
		if f.Experiment == experiment && f.Series == series && (f.X == x || x == anyX) && f.Failed == "" {
			figures = append(figures, f)
		}
	}
	return figures
}

// series returns the names of an experiment's series and its xs, in the order in which they were measured.
func (r *Results) series(experiment string) (names []string, xs []int) {
	for _, f := range r.Figures {
		if f.Experiment != experiment {
			continue
		}
		if !slices.Contains(names, f.Series) {
			names = append(names, f.Series)
		}
		if !slices.Contains(xs, f.X) {
			xs = append(xs, f.X)
		}
	}
	slices.Sort(xs)
	return names, xs
}

// value is one number of a figure.
type value func(Figure) float64

func rate(f Figure) float64 { return f.Rate }
func p50(f Figure) float64  { return f.P50 }
func p99(f Figure) float64  { return f.P99 }
func p999(f Figure) float64 { return f.P999 }

// extra is a value of Figure.Extra.
func extra(name string) value { return func(f Figure) float64 { return f.Extra[name] } }

// errNothing: there is no measurement to take a value from.
var errNothing = errors.New("not measured")

// median is the median over the rounds.
func (r *Results) median(experiment, series string, x int, v value) (float64, error) {
	return median(r.at(experiment, series, x), v)
}

func median(figures []Figure, v value) (float64, error) {
	if len(figures) == 0 {
		return 0, errNothing
	}
	values := make([]float64, len(figures))
	for i, f := range figures {
		values[i] = v(f)
	}
	return medianOf(values), nil
}

// medianOf sorts values, of which there is one at least, and returns their median.
func medianOf(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
