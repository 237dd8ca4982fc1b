package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pageFile is the page that people read.
const pageFile = "peers.md"

// writePages writes the page and its plots.
func writePages(out string, r *Results) error {
	page, plots := pages(r)
	for name, svg := range plots {
		if err := os.WriteFile(filepath.Join(out, name), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, pageFile), []byte(page), 0o644)
}

// pages makes the page and the plots that it shows, by file name.
func pages(r *Results) (page string, plots map[string]string) {
	var b strings.Builder
	plots = map[string]string{}
	head(&b, r)
	fmt.Fprint(&b, "## The bars\n\nSeen are medians over the rounds; a ratio is the median of the rounds' ratios. \"etcd\" is etcd with one connection or\nwith sixteen, whichever did more in that round. The rounds differ as the last column but one tells.\n\n| what | bar | seen | ratio | rounds | |\n|---|---|---|---|---|---|\n")
	unmeasured := 0
	verdicts := r.verdicts()
	for _, v := range verdicts {
		if v.err != nil {
			unmeasured++
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", v.what, v.needs, v.seen, v.ratio, v.rounds, r.word(v))
	}
	if unmeasured > 0 {
		fmt.Fprintf(&b, "\nBars that were not measured: %d.\n", unmeasured)
	}
	distances(&b, r, verdicts)
	for _, ex := range experiments(nil, nil, nil, true) {
		section(&b, r, ex, plots)
	}
	return b.String(), plots
}

// distances shows how far away the bars are that were missed and are about operations a second.
func distances(b *strings.Builder, r *Results, verdicts []verdict) {
	missed := slices.DeleteFunc(slices.Clone(verdicts), func(v verdict) bool { return v.err != nil || v.met || v.needed == 0 })
	if len(missed) == 0 || r.unfit() != "" {
		return
	}
	second := 1e6 * float64(r.Machine.Cores)
	fmt.Fprintf(b, "\n## How far away\n\nThe %d cores have %s µs of processor time a second. What a missed bar in operations a second leaves of it for one operation if nothing is idle,\n"+
		"beside what one takes now and how much of the machine is idle. Medians.\n\n| what | bar | needs | which leaves | takes | idle |\n|---|---|---|---|---|---|\n",
		r.Machine.Cores, grouped(second))
	for _, v := range missed {
		fmt.Fprintf(b, "| %s | %s | %s | %s µs | %s µs | %s %% |\n", v.what, v.needs, show(v.needed, "/s"), digits(second/v.needed), digits(v.takes), digits(v.idle))
	}
}

func head(b *strings.Builder, r *Results) {
	fmt.Fprint(b, "# Headwater, etcd and kine side by side\n\nWritten by `make bench-peers`; do not edit. [README.md](README.md) says how to read and to repeat this.\n\n")
	if r.Quick {
		fmt.Fprint(b, "**A trial of the instrument: these are no measurements.**\n\n")
	}
	m := r.Machine
	lowest, highest := loads(r)
	fmt.Fprintf(b, "- %s, %d rounds of %g s each\n- %s, %d cores shared by clients, servers and databases, %s/%s, %s, disk %s\n", r.Begin, r.Rounds, r.Seconds,
		m.CPU, m.Cores, m.OS, m.Arch, m.GoVersion, r.Disk)
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	fmt.Fprintf(b, "- %s\n- load average before the measurements: %.1f at first, then %.1f to %.1f (that of a measurement before is in it)\n",
		strings.Join(versions, ", "), m.Load, lowest, highest)
	if r.Flags != "" {
		fmt.Fprintf(b, "- `cd bench/peers && go run . -out ../../docs/benchmarks %s`\n", r.Flags)
	}
	if r.Sync > 0 {
		fmt.Fprintf(b, "- a write of 4 KiB with fdatasync on that disk, alone: %s ms\n", digits(r.Sync))
	}
	for _, run := range r.Earlier {
		fmt.Fprintf(b, "- of an earlier run: %s\n", run)
	}
	fmt.Fprintln(b)
	if r.busy() {
		fmt.Fprint(b, "**The machine had other work: absolute figures are too low, ratios are chance, and no bar is judged.**\n\n")
	}
}

// busy reports whether somebody else used the machine when the run began.
func (r *Results) busy() bool { return r.Machine.Load > 0.25*float64(r.Machine.Cores) }

// word is the verdict in a word, where the run allows one.
func (r *Results) word(v verdict) string {
	if why := r.unfit(); v.err == nil && why != "" {
		return "not judged: " + why
	}
	return v.word()
}

// unfit says why no bar is judged by the run; nothing where they are.
func (r *Results) unfit() string {
	switch {
	case r.Quick:
		return "a trial"
	case r.Disk == "tmpfs" || r.Disk == "ramfs":
		return "not a disk"
	case r.busy():
		return "a busy machine"
	}
	return ""
}

// loads are the least and the greatest load average before a measurement.
func loads(r *Results) (lowest, highest float64) {
	for i, f := range r.Figures {
		if i == 0 || f.Load < lowest {
			lowest = f.Load
		}
		highest = max(highest, f.Load)
	}
	return lowest, highest
}

// section shows one experiment.
func section(b *strings.Builder, r *Results, ex experiment, plots map[string]string) {
	names, xs := r.series(ex.name)
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", ex.title)
	rates := linesOf(r, ex.name, names, xs, rate)
	tails := linesOf(r, ex.name, names, xs, p99)
	if len(xs) > 1 {
		for _, p := range []struct {
			kind, y string
			lines   []line
		}{{"rate", "a second", rates}, {"p99", "p99, milliseconds", tails}} {
			if len(p.lines) > 0 {
				file := ex.name + "-" + p.kind + ".svg"
				plots[file] = plot(ex.title, ex.x, p.y, p.lines)
				fmt.Fprintf(b, "![%s over %s](%s)\n\n", p.y, ex.x, file)
			}
		}
	}
	if len(rates) > 0 {
		table(b, r, ex, names, xs)
	}
	extras(b, r, ex, names, xs)
	failures(b, r, ex.name)
}

// linesOf are the medians of each series that has any.
func linesOf(r *Results, experiment string, names []string, xs []int, v value) (lines []line) {
	for _, name := range names {
		l := line{name: name}
		for _, x := range xs {
			if m, err := r.median(experiment, name, x, v); err == nil && m > 0 {
				l.xs, l.ys = append(l.xs, float64(x)), append(l.ys, m)
			}
		}
		if len(l.xs) > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// table shows rate, p50 and p99 of each series over x.
func table(b *strings.Builder, r *Results, ex experiment, names []string, xs []int) {
	fmt.Fprintf(b, "A second, p50 / p99 in milliseconds, over %s:\n\n| |", ex.x)
	for _, x := range xs {
		fmt.Fprintf(b, " %s |", grouped(float64(x)))
	}
	fmt.Fprintf(b, "\n|---|%s\n", strings.Repeat("---|", len(xs)))
	for _, name := range names {
		fmt.Fprintf(b, "| %s |", name)
		for _, x := range xs {
			f := r.at(ex.name, name, x)
			if len(f) == 0 {
				fmt.Fprint(b, " – |")
				continue
			}
			// f is not empty, so there are medians
			n, _ := median(f, rate)
			half, _ := median(f, p50)
			tail, _ := median(f, p99)
			errs, _ := median(f, func(f Figure) float64 { return float64(f.Errors) })
			fmt.Fprintf(b, " %s, %s / %s", grouped(n), digits(half), digits(tail))
			if errs > 0 {
				fmt.Fprintf(b, ", %s errors (%s)", grouped(errs), f[0].Example)
			}
			fmt.Fprint(b, " |")
		}
		fmt.Fprintln(b)
	}
}

// extras shows what series have beside rates and latencies.
func extras(b *strings.Builder, r *Results, ex experiment, names []string, xs []int) {
	kinds := map[string]bool{}
	for _, f := range r.Figures {
		for k := range f.Extra {
			if f.Experiment == ex.name && f.Failed == "" && !strings.HasPrefix(k, "op ") {
				kinds[k] = true
			}
		}
	}
	if len(kinds) == 0 {
		return
	}
	sorted := slices.Sorted(maps.Keys(kinds))
	fmt.Fprintf(b, "\n| | %s | %s |\n|---|---|%s\n", ex.x, strings.Join(sorted, " | "), strings.Repeat("---|", len(sorted)))
	for _, name := range names {
		for _, x := range xs {
			figures := r.at(ex.name, name, x)
			if len(figures) == 0 || len(figures[0].Extra) == 0 {
				continue
			}
			fmt.Fprintf(b, "| %s | %s |", name, grouped(float64(x)))
			for _, k := range sorted {
				if _, ok := figures[0].Extra[k]; !ok {
					fmt.Fprint(b, " – |")
					continue
				}
				m, _ := median(figures, extra(k)) // they are not empty
				fmt.Fprintf(b, " %s |", digits(m))
			}
			fmt.Fprintln(b)
		}
	}
}

// failures names what could not be measured.
func failures(b *strings.Builder, r *Results, experiment string) {
	for _, f := range r.Figures {
		if f.Experiment == experiment && f.Failed != "" {
			text, _, _ := strings.Cut(f.Failed, "\n")
			fmt.Fprintf(b, "\nNot measured: %s at %d, round %d: %s\n", f.Series, f.X, f.Round, text)
		}
	}
}
