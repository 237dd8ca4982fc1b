package sqllog

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/headwaterdb/headwater/oplog"
)

// query runs one selecting statement of the pool and hands its rows to scan; what scan returns after an error or a
// broken result is thrown away.
func (l *Log) query(ctx context.Context, s Statement, v values, scan func(*sql.Rows) error) error {
	return l.do(ctx, reads, func(ctx context.Context, conn *sql.Conn) error { return s.query(ctx, conn, v, scan) })
}

// query is Log.query on a connection.
func (s Statement) query(ctx context.Context, conn *sql.Conn, v values, scan func(*sql.Rows) error) error {
	rows, err := conn.QueryContext(ctx, s.Text, s.args(v)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := scan(rows); err != nil {
		return err
	}
	return rows.Err() // a result that broke off looks like one that ended
}

// Read is oplog.Log's. It holds at most one row more than it returns. Where the dialect asks for pages, a truncation
// between two of them shows as rows that are missing in the middle; rows never change, so nothing else can.
func (l *Log) Read(ctx context.Context, after oplog.Index, maxBytes int) ([]oplog.Row, error) {
	var found []oplog.Row
	from, page, size := signed(after), l.firstPage(maxBytes), 0
	for {
		rows, whole, err := l.readPage(ctx, from, page, maxBytes-size, len(found) == 0)
		if err != nil {
			return nil, fmt.Errorf("read rows after %d: %w", after, err)
		}
		found = append(found, rows...)
		for _, r := range rows {
			size += len(r.Payload)
		}
		if len(found) > 0 {
			l.rowSize.Store(int64(size / len(found)))
		}
		if !whole || len(rows) < page || len(found) >= oplog.MaxRead || size > maxBytes {
			return found, nil
		}
		from = int64(rows[len(rows)-1].Index)
		page = min(nextPage(page, len(found), size, maxBytes), oplog.MaxRead-len(found))
	}
}

// firstPage is how many rows to ask for at first: no more than are likely to fit, by the size of those read before, since the
// database sends what it was asked for.
func (l *Log) firstPage(maxBytes int) int {
	page := l.c.Dialect.Page
	if page <= 0 {
		return oplog.MaxRead
	}
	if size := int(l.rowSize.Load()); size > 0 {
		page = min(page-1, max(maxBytes, 0)/size) + 1
	}
	return page
}

// nextPage is how many rows to ask for after n of size bytes in all, the last page of them: as many as are likely to
// fit, and at most four times that page.
func nextPage(page, n, size, maxBytes int) int {
	return min(4*page, max(1, (maxBytes-size)/max(1, size/n)+1))
}

// readPage reads at most limit rows above from that fit into maxBytes, but one in any case where the page is the first.
// whole says that none was left out because it did not fit.
func (l *Log) readPage(ctx context.Context, from int64, limit, maxBytes int, first bool) (found []oplog.Row, whole bool, err error) {
	v := values{After: from, Bytes: int64(max(maxBytes, 0)), Limit: int64(limit)}
	scan := func(rows *sql.Rows) error {
		found, whole = nil, true
		for size := 0; rows.Next(); {
			var index int64
			var payload bytesOf
			payload.own = l.c.Dialect.OwnBytes
			if err := rows.Scan(&index, &payload); err != nil {
				return err
			}
			if size += len(payload.b); size > maxBytes && !(first && len(found) == 0) {
				whole = false
				return nil
			}
			found = append(found, oplog.Row{Index: oplog.Index(index), Payload: notNil(payload.b)})
		}
		return nil
	}
	err = l.do(ctx, reads, func(ctx context.Context, conn *sql.Conn) error {
		err := l.c.Dialect.Statements.Read.query(ctx, conn, v, scan)
		if err == nil && len(found) > 0 && l.c.Dialect.Durable != nil {
			err = l.c.Dialect.Durable(ctx, conn)
		}
		return err
	})
	return found, whole, err
}

// bytesOf scans bytes, and copies them only where the driver may use theirs again.
type bytesOf struct {
	b   []byte
	own bool
}

// Scan is sql.Scanner's.
func (p *bytesOf) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok && v != nil {
		return fmt.Errorf("a payload of type %T, want bytes", v)
	}
	if p.b = b; !p.own {
		p.b = bytes.Clone(b)
	}
	return nil
}

// signed is an index to read after as databases have it.
func signed(after oplog.Index) int64 {
	if after == oplog.Beginning {
		return -1
	}
	return int64(min(after, oplog.MaxIndex))
}

// Newest is oplog.Log's.
func (l *Log) Newest(ctx context.Context) (oplog.Index, error) {
	newest, ok, err := l.newest(ctx)
	if err == nil && !ok {
		err = oplog.ErrNoCluster
	}
	if err != nil {
		return 0, fmt.Errorf("look for the newest row: %w", err)
	}
	return newest, nil
}

// newest returns the index of the newest row, and false where there is none.
func (l *Log) newest(ctx context.Context) (oplog.Index, bool, error) {
	var newest sql.NullInt64
	err := l.query(ctx, l.c.Dialect.Statements.Newest, values{}, func(rows *sql.Rows) error {
		if rows.Next() {
			return rows.Scan(&newest)
		}
		return nil
	})
	return oplog.Index(newest.Int64), newest.Valid, err
}

// Bounds is oplog.Log's. One statement sees one moment, so no transaction is needed.
func (l *Log) Bounds(ctx context.Context) (oplog.Bounds, error) {
	var oldest, newest sql.NullInt64
	var index, size int64
	var parts int
	var mark bytesOf
	var authoritative bool
	err := l.query(ctx, l.c.Dialect.Statements.Bounds, values{}, func(rows *sql.Rows) error {
		if rows.Next() {
			return rows.Scan(&oldest, &newest, &mark, &index, &parts, &size, &authoritative)
		}
		return nil
	})
	if err == nil && !newest.Valid && parts == 0 {
		err = oplog.ErrNoCluster
	}
	if err != nil {
		return oplog.Bounds{}, fmt.Errorf("look at the bounds: %w", err)
	}
	if newest.Valid {
		mark.b = notNil(mark.b)
	}
	b := oplog.Bounds{Empty: !newest.Valid, Oldest: oplog.Index(oldest.Int64), Newest: oplog.Index(newest.Int64), Mark: mark.b, Authoritative: authoritative}
	if parts > 0 {
		b.Snapshot = oplog.SnapshotInfo{Index: oplog.Index(index), Parts: parts, Size: size}
	}
	return b, nil
}

// Truncate is oplog.Log's.
func (l *Log) Truncate(ctx context.Context, below oplog.Index, limit int) (int, error) {
	if limit <= 0 {
		limit = 0
	}
	v := values{Below: int64(min(below, oplog.MaxIndex)), Limit: int64(limit)}
	if slices.Contains(l.c.Dialect.Statements.Truncate.Params, Newest) {
		newest, ok, err := l.newest(ctx)
		if err != nil || !ok { // of no rows none can be deleted
			return 0, wrapTruncate(below, err)
		}
		v[Newest] = int64(newest)
	}
	n, err := l.exec(ctx, l.c.Dialect.Statements.Truncate, v)
	return int(n), wrapTruncate(below, err)
}

func wrapTruncate(below oplog.Index, err error) error {
	if err != nil {
		return fmt.Errorf("truncate below %d: %w", below, err)
	}
	return nil
}
