package fakedb

import (
	"regexp"
	"strings"
)

// kind is the type of a value.
type kind int

const (
	int8Kind kind = iota
	int4Kind
	boolKind
	textKind
	bytesKind
)

// column is one of a result.
type column struct {
	name string
	kind kind
}

// plan is what is known of a statement.
type plan struct {
	text    string // normalized
	prefix  string // of its tables
	log     bool   // it belongs to the log's tables
	params  []kind // of the values that it is filled with, as far as they are looked at
	columns []column
	tag     string // PostgreSQL's, without the count; of a SELECT empty
	run     operation
}

// operation runs a statement: the values that it returns, or the number of rows that it affected.
type operation func(c *call) ([][]any, int64)

// call is one statement with its values: int64, []byte or string.
type call struct {
	server *Server
	tables *Tables
	prefix string
	text   string
	args   []any
	conn   uint32
}

func (c *call) int(i int) int64 {
	n, _ := c.args[i].(int64)
	return n
}

func (c *call) bytes(i int) []byte {
	b, _ := c.args[i].([]byte)
	return b
}

// known are the statements, by what they begin with; {x} is the name of a table. The first that fits decides.
var known = compile([]pattern{
	// The log's own.
	{`insert into {log} \(idx, payload\) select 0,`, plan{log: true, tag: "INSERT 0 ", params: []kind{bytesKind}, run: genesis}},
	{`insert into {log} \(idx, payload\) select`, plan{log: true, tag: "INSERT 0 ", params: []kind{int8Kind, bytesKind, int8Kind, bytesKind}, run: appendRow}},
	{`select idx, payload from {log} where idx < 0$`, plan{columns: rowColumns, run: nothing}},
	{`select idx, payload from .*{log}`, plan{log: true, params: []kind{int8Kind, int8Kind, int8Kind}, columns: rowColumns, run: read}},
	{`select max\(idx\) from {log}$`, plan{log: true, columns: []column{{"max", int8Kind}}, run: newest}},
	{`select \(select min\(idx\) from {log}\)`, plan{log: true, columns: []column{{"min", int8Kind}, {"max", int8Kind}, {"mark", bytesKind},
		{"idx", int8Kind}, {"parts", int4Kind}, {"size", int8Kind}, {"authoritative", boolKind}}, run: bounds}},
	{`select idx, token, parts, size from {snapshot} `, plan{log: true, columns: []column{{"idx", int8Kind},
		{"token", bytesKind}, {"parts", int4Kind}, {"size", int8Kind}}, run: snapshot}},
	{`insert into {snapshot_part} `, plan{log: true, tag: "INSERT 0 ", params: []kind{bytesKind, int4Kind, int8Kind, bytesKind}, run: insertPart}},
	{`select data from {snapshot_part} `, plan{log: true, params: []kind{bytesKind, int4Kind}, columns: []column{{"data", bytesKind}}, run: readPart}},
	{`update {snapshot} set`, plan{log: true, tag: "UPDATE ", params: []kind{int8Kind, bytesKind, int4Kind, int8Kind, bytesKind}, run: commit}},
	{`delete (?:p )?from {snapshot_part} .*token = (?:\$1|\?)`, plan{log: true, tag: "DELETE ", params: []kind{bytesKind, int8Kind}, run: abort}},
	{`delete (?:p )?from {snapshot_part} `, plan{log: true, tag: "DELETE ", params: []kind{int8Kind}, run: sweep}},
	{`delete from {log} `, plan{log: true, tag: "DELETE ", params: []kind{int8Kind, int8Kind}, run: truncate}},
	{`select version from {snapshot} `, plan{columns: []column{{"version", int4Kind}}, run: version}},
	{`select token, part, idx, data from {snapshot_part} where idx < 0$`, plan{columns: []column{{"token", bytesKind}, {"part", int4Kind},
		{"idx", int8Kind}, {"data", bytesKind}}, run: nothing}},
	{`select id, version, idx, token, parts, size from {snapshot} `, plan{columns: []column{{"id", int4Kind}, {"version", int4Kind},
		{"idx", int8Kind}, {"token", bytesKind}, {"parts", int4Kind}, {"size", int8Kind}}, run: nothing}},
	{`create table if not exists {any}`, plan{tag: "CREATE TABLE", run: create}},
	{`insert ignore into {snapshot} `, plan{run: create}},
	{`insert into {snapshot} `, plan{tag: "INSERT 0 1", run: create}},
	{`set transaction isolation level read committed; .*create table if not exists {log}`, plan{tag: "INSERT 0 1", run: create}},

	// The talk with PostgreSQL.
	{`select current_setting\('server_version'\), pg_backend_pid\(\)`, plan{columns: []column{{"server", textKind}, {"pid", int4Kind},
		{"recovery", boolKind}, {"read_only", textKind}, {"fsync", textKind}, {"full_page_writes", textKind}, {"commit", textKind},
		{"standbys", textKind}, {"messages", textKind}, {"version", textKind}}, run: postgresLook}},
	{`select count\(to_regclass\(t\)\)`, plan{params: []kind{textKind, textKind, textKind}, columns: []column{{"count", int8Kind}}, run: present}},
	{`select 1 from set_config\('synchronous_commit', 'off', true\), pg_notify\(`, plan{params: []kind{textKind, textKind}, columns: []column{{"one", int4Kind}}, run: one}},
	{`listen `, plan{tag: "LISTEN", run: nothing}},

	// The talk with MySQL.
	{`show session variables`, plan{columns: []column{{"Variable_name", textKind}, {"Value", textKind}}, run: mysqlVariables}},
	{`show status`, plan{columns: []column{{"Variable_name", textKind}, {"Value", textKind}}, run: nothing}},
	{`select @@max_allowed_packet$`, plan{columns: []column{{"@@max_allowed_packet", int8Kind}}, run: maxPacket}},
	{`select count\(\*\) from information_schema\.tables`, plan{columns: []column{{"count", int8Kind}}, run: zero}},

	{`set `, plan{tag: "SET", run: nothing}},
	{`select 1$`, plan{columns: []column{{"one", int4Kind}}, run: one}},
})

var rowColumns = []column{{"idx", int8Kind}, {"payload", bytesKind}}

type pattern struct {
	text string
	plan plan
}

type compiled struct {
	re   *regexp.Regexp
	plan plan
}

// compile makes expressions of the patterns. The name of a table is its prefix, in the first group, and what follows.
func compile(patterns []pattern) []compiled {
	names := strings.NewReplacer("{log}", `([a-z0-9_.]+)_log`, "{snapshot}", `([a-z0-9_.]+)_snapshot`,
		"{snapshot_part}", `([a-z0-9_.]+)_snapshot_part`, "{any}", `([a-z0-9_.]+)_(?:log|snapshot_part|snapshot)`)
	all := make([]compiled, len(patterns))
	for i, p := range patterns {
		all[i] = compiled{regexp.MustCompile(`(?i)^` + names.Replace(p.text)), p.plan}
	}
	return all
}

// planOf looks a statement up.
func planOf(text string) (plan, bool) {
	text = normalize(text)
	for _, k := range known {
		if found := k.re.FindStringSubmatch(text); found != nil {
			p := k.plan
			p.text = text
			if len(found) > 1 {
				p.prefix = strings.ToLower(found[1])
			}
			return p, true
		}
	}
	return plan{text: text}, false
}

// bare reports whether a statement needs tables and these are not there.
func (p plan) bare(t *Tables) bool {
	return (p.log || p.prefix != "" && len(p.columns) > 0) && !t.has(p.prefix)
}

// execute runs a statement on the tables of s.
func (s *Server) execute(p plan, args []any, conn uint32) ([][]any, int64) {
	return p.run(&call{server: s, tables: s.tables, prefix: p.prefix, text: p.text, args: args, conn: conn})
}
