package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// barFrom is from which amount of work on a progress bar is worth its place.
const barFrom = 1 << 20

// bar is a progress bar on a terminal, or nothing at all where there is no terminal. A nil bar works.
type bar struct {
	progress *mpb.Progress
	bar      *mpb.Bar
}

// newBar starts a bar over so many bytes; none where that is little or not known, or where the bar would get between
// the lines of the output.
func (a *app) newBar(name string, total int64) *bar {
	if total < barFrom || !isTerminal(a.err) || isTerminal(a.out) {
		return nil
	}
	return startBar(a.err, name, total, decor.CountersKibiByte("% .1f / % .1f"))
}

// newCountBar is newBar for things that are counted, of which it is not known yet how many there are.
func (a *app) newCountBar(name string) *bar {
	if !isTerminal(a.err) {
		return nil
	}
	return startBar(a.err, name, 0, decor.CountersNoUnit("%d / %d"))
}

func startBar(w io.Writer, name string, total int64, counters decor.Decorator) *bar {
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(60))
	return &bar{progress: p, bar: p.AddBar(total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" "), counters),
		mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))}
}

func (b *bar) add(n int) {
	if b != nil {
		b.bar.IncrBy(n)
	}
}

func (b *bar) set(done, total uint64) {
	if b != nil {
		b.bar.SetTotal(int64(total), false)
		b.bar.SetCurrent(int64(done))
	}
}

// done takes the bar away, wherever it stands.
func (b *bar) done() {
	if b != nil {
		b.bar.Abort(true)
		b.progress.Wait()
	}
}

func isTerminal(w io.Writer) bool {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
