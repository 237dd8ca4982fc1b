package fakedb

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Tables are the tables of logs, by their prefix. All methods may be called at once from many goroutines.
type Tables struct {
	mu   sync.Mutex // guards the rest
	logs map[string]*tables
}

// tables are those of one log.
type tables struct {
	rows     map[int64][]byte
	order    []int64 // the indexes of the rows, ascending
	parts    map[partKey]part
	snapshot struct {
		idx, parts, size int64
		token            string
	}
}

type partKey struct {
	token string
	part  int64
}

type part struct {
	idx  int64
	data []byte
}

// NewTables returns no tables.
func NewTables() *Tables { return &Tables{logs: map[string]*tables{}} }

// Rows returns the payloads of the log of prefix by their index. They must not be changed.
func (t *Tables) Rows(prefix string) map[int64][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := map[int64][]byte{}
	if l := t.logs[prefix]; l != nil {
		for idx, payload := range l.rows {
			rows[idx] = payload
		}
	}
	return rows
}

// Put places rows in the log of prefix, which must be there, as somebody with a shell could, over what is there.
func (t *Tables) Put(prefix string, rows map[int64][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for idx, payload := range rows {
		t.logs[prefix].put(idx, payload)
	}
}

// Drop removes the row at an index in the same way.
func (t *Tables) Drop(prefix string, idx int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs[prefix].drop(idx)
}

// Parts returns how many parts of snapshots are stored under prefix.
func (t *Tables) Parts(prefix string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.logs[prefix]; l != nil {
		return len(l.parts)
	}
	return 0
}

func (t *Tables) has(prefix string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.logs[prefix] != nil
}

// with runs f on the tables of the statement, alone. Where there are none it does nothing.
func (c *call) with(f func(l *tables)) {
	c.tables.mu.Lock()
	defer c.tables.mu.Unlock()
	if l := c.tables.logs[c.prefix]; l != nil {
		f(l)
	}
}

func create(c *call) ([][]any, int64) {
	c.tables.mu.Lock()
	defer c.tables.mu.Unlock()
	if c.tables.logs[c.prefix] == nil {
		c.tables.logs[c.prefix] = &tables{rows: map[int64][]byte{}, parts: map[partKey]part{}}
	}
	return nil, 0
}

func (l *tables) put(idx int64, payload []byte) {
	if at, there := slices.BinarySearch(l.order, idx); !there {
		l.order = slices.Insert(l.order, at, idx)
	}
	l.rows[idx] = append([]byte{}, payload...)
}

func (l *tables) drop(idx int64) {
	if at, there := slices.BinarySearch(l.order, idx); there {
		l.order = slices.Delete(l.order, at, at+1)
		delete(l.rows, idx)
	}
}

// oldest and newest are the ends of the log, which must have a row.
func (l *tables) oldest() int64 { return l.order[0] }
func (l *tables) newest() int64 { return l.order[len(l.order)-1] }

func genesis(c *call) (_ [][]any, n int64) {
	c.with(func(l *tables) {
		if len(l.rows) == 0 && l.snapshot.parts == 0 {
			l.put(0, c.bytes(0))
			n = 1
		}
	})
	return nil, n
}

func appendRow(c *call) (_ [][]any, n int64) {
	c.with(func(l *tables) {
		if len(l.order) > 0 && l.newest() == c.int(2) && c.marked(l.newest(), l) {
			l.put(c.int(0), c.bytes(1))
			n = 1
		}
	})
	return nil, n
}

// marked reports whether there is a row at idx that ends with the mark, which is the last value of a statement.
func (c *call) marked(idx int64, l *tables) bool {
	payload, there := l.rows[idx]
	return there && bytes.HasSuffix(payload, c.bytes(len(c.args)-1))
}

// ending is the last 8 bytes of a payload.
func ending(payload []byte) []byte { return payload[max(0, len(payload)-8):] }

func read(c *call) (found [][]any, _ int64) {
	c.with(func(l *tables) {
		at, _ := slices.BinarySearch(l.order, c.int(0)+1)
		for _, idx := range l.order[at:] {
			if int64(len(found)) == c.int(1) {
				return
			}
			found = append(found, []any{idx, l.rows[idx]})
		}
	})
	return found, 0
}

func newest(c *call) (found [][]any, _ int64) {
	c.with(func(l *tables) {
		found = [][]any{{nil}}
		if len(l.order) > 0 {
			found[0][0] = l.newest()
		}
	})
	return found, 0
}

func bounds(c *call) (found [][]any, _ int64) {
	c.with(func(l *tables) {
		s := l.snapshot
		found = [][]any{{nil, nil, nil, s.idx, s.parts, s.size, true}}
		if len(l.order) > 0 {
			found[0][0], found[0][1], found[0][2] = l.oldest(), l.newest(), ending(l.rows[l.newest()])
		}
	})
	return found, 0
}

func snapshot(c *call) (found [][]any, _ int64) {
	c.with(func(l *tables) {
		s := l.snapshot
		found = [][]any{{s.idx, []byte(s.token), s.parts, s.size}}
	})
	return found, 0
}

func insertPart(c *call) (_ [][]any, n int64) {
	c.with(func(l *tables) {
		l.parts[partKey{string(c.bytes(0)), c.int(1)}] = part{c.int(2), append([]byte{}, c.bytes(3)...)}
		n = 1
	})
	return nil, n
}

func readPart(c *call) (found [][]any, _ int64) {
	c.with(func(l *tables) {
		if p, ok := l.parts[partKey{string(c.bytes(0)), c.int(1)}]; ok {
			found = [][]any{{p.data}}
		}
	})
	return found, 0
}

func commit(c *call) (_ [][]any, n int64) {
	c.with(func(l *tables) {
		s := &l.snapshot
		idx, token := c.int(0), string(c.bytes(1))
		var parts int64
		for k := range l.parts {
			if k.token == token {
				parts++
			}
		}
		if (s.parts == 0 || s.idx < idx) && parts == c.int(2) && (len(l.order) == 0 || c.marked(idx, l)) {
			s.idx, s.token, s.parts, s.size = idx, token, parts, c.int(3)
			n = 1
		}
	})
	return nil, n
}

func sweep(c *call) (_ [][]any, n int64) {
	c.with(func(l *tables) {
		for k, p := range l.parts {
			if n < c.int(0) && l.snapshot.parts > 0 && p.idx <= l.snapshot.idx && k.token != l.snapshot.token {
				delete(l.parts, k)
				n++
			}
		}
	})
	return nil, n
}

func abort(c *call) (_ [][]any, n int64) {
	c.with(func(l *tables) {
		for k := range l.parts {
			if token := string(c.bytes(0)); n < c.int(1) && k.token == token && token != l.snapshot.token {
				delete(l.parts, k)
				n++
			}
		}
	})
	return nil, n
}

// truncate is filled with bounds below which rows may be deleted, and last with the limit.
func truncate(c *call) (_ [][]any, n int64) {
	limit := len(c.args) - 1
	c.with(func(l *tables) {
		for l.snapshot.parts > 0 && len(l.order) > 1 && n < c.int(limit) {
			idx := l.oldest()
			for i := range limit {
				if idx >= c.int(i) {
					return
				}
			}
			if idx > l.snapshot.idx {
				return
			}
			l.drop(idx)
			n++
		}
	})
	return nil, n
}

func version(*call) ([][]any, int64) { return [][]any{{int64(1)}}, 0 }
func one(*call) ([][]any, int64)     { return [][]any{{int64(1)}}, 0 }
func zero(*call) ([][]any, int64)    { return [][]any{{int64(0)}}, 0 }
func nothing(*call) ([][]any, int64) { return nil, 0 }

// present counts the tables that are there, of those named.
func present(c *call) ([][]any, int64) {
	var n int64
	for _, a := range c.args {
		name, _ := a.(string)
		for _, suffix := range []string{"_log", "_snapshot", "_snapshot_part"} {
			if prefix, ok := strings.CutSuffix(name, suffix); ok && c.tables.has(prefix) {
				n++
			}
		}
	}
	return [][]any{{n}}, 0
}

func postgresLook(c *call) ([][]any, int64) {
	server, version := c.server.version, "PostgreSQL "+c.server.version+" on a machine that is not there"
	if strings.HasPrefix(server, "CockroachDB") { // which has two versions
		server, version = "13.0.0", server
	}
	return [][]any{{server, int64(c.conn), false, "off", "on", "on", "on", "", "notice", version}}, 0
}

// packet is the largest packet in bytes that the server takes, unless its variables say otherwise.
const packet = 64 << 20

// mysqlVariables are those of a server that is fit; one that is asked for and not here, the server does not have.
func mysqlVariables(c *call) (found [][]any, _ int64) {
	values := map[string]string{"version": c.server.version, "autocommit": "ON", "transaction_isolation": "READ-COMMITTED",
		"sql_mode": "STRICT_TRANS_TABLES", "max_allowed_packet": strconv.Itoa(packet), "read_only": "OFF", "innodb_read_only": "OFF"}
	for name, value := range c.server.variables {
		values[name] = value
	}
	for name, value := range values {
		if strings.Contains(c.text, "'"+name+"'") {
			found = append(found, []any{name, value})
		}
	}
	return found, 0
}

func maxPacket(c *call) ([][]any, int64) {
	n := int64(packet)
	if v, err := strconv.ParseInt(c.server.variables["max_allowed_packet"], 10, 64); err == nil {
		n = v
	}
	return [][]any{{n}}, 0
}
