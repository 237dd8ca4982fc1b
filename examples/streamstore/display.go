package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// display shows how long work goes on: bars on a terminal, a line now and then elsewhere.
type display struct {
	w    io.Writer
	bars *mpb.Progress // nil: not a terminal
}

func newDisplay(w io.Writer) *display {
	d := &display{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		d.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(48))
	}
	return d
}

func (d *display) close() {
	if d.bars != nil {
		d.bars.Wait()
	}
}

// bar shows one piece of work. It is used by one goroutine.
type bar struct {
	d        *display
	name     string
	n, total int64
	b        *mpb.Bar
	said     time.Time
}

func (d *display) bar(name string, total int64) *bar {
	b := &bar{d: d, name: name, total: total, said: time.Now()}
	if d.bars != nil {
		b.b = d.bars.AddBar(total,
			mpb.PrependDecorators(decor.Name(fmt.Sprintf("%-8s", name)), decor.CountersNoUnit("%6d / %d")),
			mpb.AppendDecorators(decor.Percentage(), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace), "")))
	}
	return b
}

func (b *bar) add(n int64) {
	b.n = min(b.n+n, b.total)
	switch {
	case b.b != nil:
		b.b.SetCurrent(b.n)
	case time.Since(b.said) > 5*time.Second:
		b.said = time.Now()
		fmt.Fprintf(b.d.w, "%s: %d of %d\n", b.name, b.n, b.total)
	}
}

// done ends the bar, full or not: a writer that was killed may have stored files that it could not report.
func (b *bar) done() {
	if b.b != nil {
		b.b.SetCurrent(b.n)
		b.b.SetTotal(b.n, true)
		return
	}
	fmt.Fprintf(b.d.w, "%s: %d done\n", b.name, b.total)
}
