package mysql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// schemaVersion is the version of the tables, kept in the one row of the snapshot table. Versions:
//
//	1  the first
const schemaVersion = 1

// schema creates the tables. Each statement commits by itself (there is no transaction around CREATE TABLE), and does
// nothing where another process was quicker, so any number may run it at once, and one that is killed is followed by one
// that goes on. The row of the snapshot table comes last: where it stands, everything does.
//
// The engine must be InnoDB: another one has no transactions, or no row locks. Columns are binary, so that no character
// set and no comparison rule touches them, and indexes are 64 bits.
var schema = []string{`CREATE TABLE IF NOT EXISTS {log} (
	idx BIGINT NOT NULL PRIMARY KEY,
	payload LONGBLOB NOT NULL
) ENGINE=InnoDB`, `CREATE TABLE IF NOT EXISTS {snapshot_part} (
	token VARBINARY(16) NOT NULL,
	part INT NOT NULL,
	idx BIGINT NOT NULL,
	data LONGBLOB NOT NULL,
	PRIMARY KEY (token, part),
	KEY idx (idx)
) ENGINE=InnoDB`, `CREATE TABLE IF NOT EXISTS {snapshot} (
	id TINYINT NOT NULL PRIMARY KEY,
	version INT NOT NULL,
	idx BIGINT NOT NULL,
	token VARBINARY(16) NOT NULL,
	parts INT NOT NULL,
	size BIGINT NOT NULL
) ENGINE=InnoDB`, `INSERT IGNORE INTO {snapshot} (id, version, idx, token, parts, size) VALUES (1, {version}, 0, '', 0, 0)`}

// statements are the texts of the log. Each is one statement that commits by itself.
//
// # Append
//
// The invariant of the log table is that its committed rows are a run without holes: rows are only added above the
// newest one, and a truncation deletes, in one transaction and in ascending order, a run that begins at the oldest row
// and ends below the newest that it saw. So where a row is present, every row above it that was ever committed is
// present too.
//
// Append inserts row n from row n-1 itself, which it locks (FOR UPDATE) before it inserts; a truncation must have the
// same lock to delete it. A locking read of InnoDB reads the newest committed version at every isolation level, never
// the one of a read view, so:
//
//   - a truncation that is not committed holds the lock: the append waits, and then finds no row n-1 and inserts nothing;
//   - an append that has the lock holds it until it has committed: row n-1 is there in that instant, so row n was never
//     truncated, and the primary key tells whether it is there (1062).
//
// What row n-1 ends with is read under its lock too, so no row is appended after another one than its writer saw.
//
// The look for a row above (NOT EXISTS) answers most late appends at once, since the newest row is never truncated, and
// keeps an append out of a hole that somebody tore into the table by hand. The argument does not need it: the look may
// have been made before there was a row above. So it does not matter that at READ COMMITTED it reads without a lock.
// There, the append locks exactly one record and no gap, so two appends wait for each other at most at row n-1. At
// REPEATABLE READ and SERIALIZABLE the look locks the gap above, which only adds deadlocks (1213): safe, but slow, so
// sessions are set to READ COMMITTED. With innodb_snapshot_isolation a locking read of what has changed since the read
// view is refused (1020).
//
// # Galera
//
// Row locks stay on their member. There, an append at member A holds the lock on row n-1 until its write set has an order
// in the whole cluster (number a); the last write set that A had applied by then is s < a, and a member refuses what
// touches a key that a write set numbered in (s, a) has touched. Suppose row n was written and truncated before a. Row
// n-1 was deleted in a write set d, in which or after which row n was deleted (d ≤ d', since truncation ascends), and
// d' < a. Applying d at A would take the lock from the append, which is then aborted (1213); so if the append got as far
// as its order, d was not applied, s < d ≤ d' < a, and d' has touched the key of row n: refused at every member (1213).
// Without the lock on row n-1, s may be above d' and the row goes in.
//
// # Others
//
// Genesis locks the snapshot's row while there is none, so it excludes the first commit of a snapshot, and so the first
// truncation; then row 0 is missing only if it was never written. Commit locks the same row, so of several the order of
// commits is that of the locks. Truncate is told the newest row instead of asking for it: what a DELETE asks for it locks
// at every level, and then appends would wait for the whole truncation. Of the snapshot's row it only keeps commits
// waiting. At READ COMMITTED a single SELECT has one read view for all it reads, so Bounds sees one moment.
func statements(prefix string) sqllog.Statements {
	s := func(text string, params ...sqllog.Param) sqllog.Statement {
		return sqllog.Statement{Text: fill(prefix, text), Params: params}
	}
	return sqllog.Statements{
		Genesis: s(`INSERT INTO {log} (idx, payload) SELECT 0, ? FROM {snapshot} s
			WHERE s.id = 1 AND s.parts = 0 AND NOT EXISTS (SELECT 1 FROM {log} l WHERE l.idx >= 0) FOR UPDATE`, sqllog.Payload),
		Append: s(`INSERT INTO {log} (idx, payload) SELECT ?, ? FROM {log} p
			WHERE p.idx = ? AND NOT EXISTS (SELECT 1 FROM {log} n WHERE n.idx > ?) AND RIGHT(p.payload, LENGTH(?)) = ? FOR UPDATE`,
			sqllog.At, sqllog.Payload, sqllog.Before, sqllog.Before, sqllog.Mark, sqllog.Mark),
		Read:   s(`SELECT idx, payload FROM {log} WHERE idx > ? ORDER BY idx LIMIT ?`, sqllog.After, sqllog.Limit),
		Newest: s(`SELECT MAX(idx) FROM {log}`),
		// A server that is read-only, for ordinary users or altogether, follows another one. The values are numbers or words.
		Bounds: s(`SELECT (SELECT MIN(idx) FROM {log}), (SELECT MAX(idx) FROM {log}),
			(SELECT RIGHT(payload, {mark}) FROM {log} ORDER BY idx DESC LIMIT 1), idx, parts, size,
			@@global.read_only IN ('0', 'OFF') AND @@global.innodb_read_only IN ('0', 'OFF')
			FROM {snapshot} WHERE id = 1`),
		Snapshot:   s(`SELECT idx, token, parts, size FROM {snapshot} WHERE id = 1`),
		InsertPart: s(`INSERT INTO {snapshot_part} (token, part, idx, data) VALUES (?, ?, ?, ?)`, sqllog.Token, sqllog.Part, sqllog.At, sqllog.Payload),
		ReadPart:   s(`SELECT data FROM {snapshot_part} WHERE token = ? AND part = ?`, sqllog.Token, sqllog.Part),
		Commit: s(`UPDATE {snapshot} SET idx = ?, token = ?, parts = ?, size = ?
			WHERE id = 1 AND (parts = 0 OR idx < ?)
			AND (SELECT COUNT(*) FROM {snapshot_part} p WHERE p.token = ?) = ?
			AND (NOT EXISTS (SELECT 1 FROM {log} l) OR EXISTS (SELECT 1 FROM {log} l WHERE l.idx = ? AND RIGHT(l.payload, LENGTH(?)) = ?))`,
			sqllog.At, sqllog.Token, sqllog.Parts, sqllog.Size, sqllog.At, sqllog.Token, sqllog.Parts, sqllog.At, sqllog.Mark, sqllog.Mark),
		// A DELETE with a condition and ORDER BY sorts all rows that fit, and reads their data for it: what goes is chosen in the index first.
		Sweep: s(`DELETE p FROM {snapshot_part} p JOIN (SELECT q.token, q.part FROM {snapshot_part} q
			JOIN {snapshot} s ON s.id = 1 AND s.parts > 0 AND q.idx <= s.idx AND q.token <> s.token
			ORDER BY q.idx, q.token, q.part LIMIT ?) d ON d.token = p.token AND d.part = p.part`, sqllog.Limit),
		Abort: s(`DELETE p FROM {snapshot_part} p JOIN (SELECT q.token, q.part FROM {snapshot_part} q
			JOIN {snapshot} s ON s.id = 1 AND q.token <> s.token WHERE q.token = ?
			ORDER BY q.part LIMIT ?) d ON d.token = p.token AND d.part = p.part`, sqllog.Token, sqllog.Limit),
		Truncate: s(`DELETE FROM {log} WHERE idx < ? AND idx < ?
			AND idx <= (SELECT s.idx FROM {snapshot} s WHERE s.id = 1 AND s.parts > 0) ORDER BY idx LIMIT ?`, sqllog.Below, sqllog.Newest, sqllog.Limit),
	}
}

// fill puts the names of the tables of prefix into a text.
func fill(prefix, text string) string {
	return strings.NewReplacer("{log}", prefix+"_log", "{snapshot}", prefix+"_snapshot",
		"{snapshot_part}", prefix+"_snapshot_part", "{version}", strconv.Itoa(schemaVersion), "{mark}", strconv.Itoa(oplog.MarkSize)).Replace(text)
}

// PrintSQL returns the statements that a database administrator runs once in the database, so that no program needs the
// right to create tables: the tables under Prefix, and the grants for the user of the nodes and for one that only reads,
// both of which must exist. A user may be written with a host (name@host); without one it is name@%. Init, as the nodes'
// user, then finds the tables and writes the first row. Of o only Prefix is looked at.
func PrintSQL(o Options, nodeUser, readerUser string) (string, error) {
	o = o.withDefaults()
	if err := sqllog.CheckName("prefix", o.Prefix); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("-- The tables of a Headwater cluster, in the database that is selected.\n")
	for _, s := range schema {
		fmt.Fprintf(&b, "%s;\n", fill(o.Prefix, s))
	}
	b.WriteString("\n-- A node, which reads, appends, truncates and stores snapshots.\n")
	grant := func(rights, table, user string) {
		fmt.Fprintf(&b, "GRANT %s ON %s TO %s;\n", rights, fill(o.Prefix, table), quoteUser(user))
	}
	grant("SELECT, INSERT, DELETE", "{log}", nodeUser)
	grant("SELECT, UPDATE", "{snapshot}", nodeUser)
	grant("SELECT, INSERT, DELETE", "{snapshot_part}", nodeUser)
	b.WriteString("\n-- A process that only reads.\n")
	for _, table := range []string{"{log}", "{snapshot}", "{snapshot_part}"} {
		grant("SELECT", table, readerUser)
	}
	return b.String(), nil
}

// quoteUser writes a user as an account.
func quoteUser(user string) string {
	name, host := user, "%"
	if i := strings.LastIndex(user, "@"); i >= 0 {
		name, host = user[:i], user[i+1:]
	}
	quote := func(s string) string {
		return "'" + strings.NewReplacer("\\", "\\\\", "'", "''").Replace(s) + "'"
	}
	return quote(name) + "@" + quote(host)
}
