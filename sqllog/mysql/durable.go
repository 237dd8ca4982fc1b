package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"
)

// flushText asks how far InnoDB's log goes, and how far it is on the disk: MariaDB's names, and those of MySQL from 8.0.30.
const flushText = `SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_lsn_current', 'Innodb_lsn_flushed',
	'Innodb_redo_log_current_lsn', 'Innodb_redo_log_flushed_to_disk_lsn')`

// The first and the longest pause between two looks at how far the flush is. A flush takes as long as the disk.
const (
	firstFlush   = 500 * time.Microsecond
	longestFlush = 20 * time.Millisecond
)

// durable is the dialect's Durable. What the session has just read was in the log when it was read, so it is on the disk
// when the log is up to where it ends now. The flush of the row's own commit is under way, so that takes a write; where the server has logged
// something of its own since, which nobody waits for, it takes until the server flushes by itself, once a second.
func durable(ctx context.Context, sc *sql.Conn) error {
	return sc.Raw(func(dc any) error {
		c := dc.(*conn)
		if !c.found.early() {
			return nil
		}
		end, flushed, known, err := c.flushed(ctx)
		for pause, now := firstFlush, uint64(0); err == nil && known && flushed < end; pause = min(2*pause, longestFlush) {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
			now, flushed, known, err = c.flushed(ctx)
			if err == nil && now < end { // not the server that was read from
				return fmt.Errorf("the end of the log went from %d back to %d", end, now)
			}
		}
		return err
	})
}

// flushed returns where InnoDB's log ends and up to where it is on the disk, and whether the server says so.
func (c *conn) flushed(ctx context.Context) (end, flushed uint64, known bool, err error) {
	rows, err := query(ctx, c.raw, flushText)
	if err != nil {
		return 0, 0, false, fmt.Errorf("look how far the log is on the disk: %w", unsent(err))
	}
	for _, r := range rows {
		n, err := strconv.ParseUint(fmt.Sprint(r[1]), 10, 64)
		if err != nil {
			continue
		}
		switch fmt.Sprint(r[0]) {
		case "Innodb_lsn_current", "Innodb_redo_log_current_lsn":
			end = n
		case "Innodb_lsn_flushed", "Innodb_redo_log_flushed_to_disk_lsn":
			flushed, known = n, true
		}
	}
	return end, flushed, known, nil
}
