//go:build unix

package nemesis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
)

// witness reads the log past all networks and keeps every row, before it is truncated. Clients wait for it where it falls
// behind, so that it misses none on a slow machine either.
type witness struct {
	open func(ctx context.Context) (oplog.Log, error)

	mu    sync.Mutex // guards the rest
	rows  []headwater.LogRow
	moved chan struct{} // closed when rows has grown
	err   error         // what it saw that no log may show
}

func newWitness(open func(ctx context.Context) (oplog.Log, error)) *witness {
	return &witness{open: open, moved: make(chan struct{})}
}

// run reads until ctx ends.
func (w *witness) run(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var log oplog.Log
	defer func() {
		if log != nil {
			_ = log.Close()
		}
	}()
	for ctx.Err() == nil {
		if log == nil {
			l, err := w.open(ctx)
			if err == nil {
				log = l
			}
		}
		if log != nil {
			_ = headwater.ReadLog(ctx, log, w.next(), 0, w.take) // what fails is tried again
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// next is the index of the row that it has not seen yet.
func (w *witness) next() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(len(w.rows))
}

func (w *witness) take(row headwater.LogRow) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if row.Index != uint64(len(w.rows)) {
		err := fmt.Errorf("after row %d comes row %d", len(w.rows)-1, row.Index)
		w.err = errors.Join(w.err, err)
		return err
	}
	w.rows = append(w.rows, row)
	close(w.moved)
	w.moved = make(chan struct{})
	return nil
}

// await waits until the row at index has been seen.
func (w *witness) await(ctx context.Context, index uint64) error {
	for {
		w.mu.Lock()
		seen, moved := uint64(len(w.rows)) > index, w.moved
		w.mu.Unlock()
		if seen {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("wait for row %d: %w", index, ctx.Err())
		}
	}
}

// compare reads what there still is of the log again: it must be what was seen. It returns all rows.
func (w *witness) compare(ctx context.Context) ([]headwater.LogRow, error) {
	log, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	again := 0
	err = headwater.ReadLog(ctx, log, 0, 0, func(row headwater.LogRow) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if row.Index >= uint64(len(w.rows)) {
			return fmt.Errorf("row %d appeared after the end", row.Index)
		}
		again++
		was, is := mustJSON(w.rows[row.Index]), mustJSON(row)
		if was != is {
			return fmt.Errorf("row %d was\n%s\nand is\n%s", row.Index, was, is)
		}
		return nil
	})
	if err == nil && again == 0 {
		err = errors.New("there is no row left at the end")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows, errors.Join(w.err, err)
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a struct of the product's own
	}
	return string(b)
}
