package postgres

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// schemaVersion is the version of the tables, kept in the one row of the snapshot table. Versions:
//
//	1  the first
const schemaVersion = 1

// schema creates the tables. It is one message of several statements, which the server runs as one transaction, so it
// passes a pooler of any mode. Of several processes that run it at once one goes on and the others wait for the
// transaction lock; without it CREATE TABLE IF NOT EXISTS fails in the catalogue when raced. The isolation level matters
// because the INSERT must see what the one before has committed.
//
// Values are stored as they are (EXTERNAL): those of the log are written once and soon deleted, parts are compressed
// already. The log is vacuumed by number of rows, not by share: what is deleted at its lower end is otherwise passed
// over again and again by whoever looks for the oldest row.
const schema = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock({lock});
CREATE TABLE IF NOT EXISTS {log} (
	idx BIGINT PRIMARY KEY CHECK (idx >= 0),
	payload BYTEA NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE {log} ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS {snapshot} (
	id SMALLINT PRIMARY KEY CHECK (id = 1),
	version INTEGER NOT NULL,
	idx BIGINT NOT NULL,
	token BYTEA NOT NULL,
	parts INTEGER NOT NULL,
	size BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS {snapshot_part} (
	token BYTEA NOT NULL,
	part INTEGER NOT NULL,
	idx BIGINT NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (token, part)
);
ALTER TABLE {snapshot_part} ALTER COLUMN data SET STORAGE EXTERNAL;
INSERT INTO {snapshot} (id, version, idx, token, parts, size) VALUES (1, {version}, 0, '', 0, 0) ON CONFLICT (id) DO NOTHING;
`

// statements are the texts of the log. Each is one statement that commits by itself.
//
// # Append
//
// The invariant of the log table is that its committed rows are a run without holes: rows are only added above the
// newest one, and a truncation deletes, in one transaction, a run that begins at the oldest row and ends below the
// newest that it saw. So where a row is present, every row above it that was ever committed is present too.
//
// Append inserts row n from the row n-1 itself, which it locks (FOR KEY SHARE) before it inserts. The lock conflicts
// with deleting the row and with nothing else: appends do not wait for each other here, only at the primary key. Once
// the lock is held, row n-1 is present and stays until the append has committed; by the invariant row n, had it ever been
// committed, would be present as well, and the primary key refuses it. So n is taken at most once in the life of the
// log, truncated or not. What happens on the way to the lock:
//
//   - Row n-1 was deleted by a transaction that has committed, it is not the newest one, or it does not end with the mark
//     of the row that the writer saw: nothing is selected, no row is inserted, the answer is 0 rows: a conflict.
//   - It is being deleted by a transaction that has not ended. The append waits. If the deletion is rolled back it has the
//     lock and goes on. If it commits, READ COMMITTED looks at the row again, finds it gone, and selects nothing: 0 rows.
//     REPEATABLE READ and SERIALIZABLE answer 40001 instead; the statement is sent again, with a new snapshot: 0 rows.
//   - Two truncations and an append may lock in a circle where a truncation does not delete in ascending order; one of
//     the three is answered 40P01, was rolled back, and is sent again.
//
// max(idx) is read from the statement's snapshot and may be stale by the time of the insert; nothing rests on it but
// that an append far behind is refused without waiting, and that a hole made by hand is never filled. The check alone, or
// one that row n-1 exists, is not enough: with n-1 and n deleted by a transaction that is about to commit, both pass,
// the primary key waits for that transaction, and then lets row n in a second time. (TestTruncatedSlotWithoutLock.)
//
// SERIALIZABLE adds 40001 for reads that lie on a circle of dependencies, never a success that the lower levels would
// not give. A role or server with another default level therefore changes nothing but the number of repetitions.
//
// In a turn the same statement is the last one of a READ COMMITTED transaction that has written and locked no row before it
// (turn.go), and commits with it. It reads a snapshot of its own, so the argument is the same; and politeText only adds a
// condition.
//
// # Genesis
//
// Row 0 is inserted from the row of the snapshot table, which it locks (FOR SHARE) against being changed: no snapshot can
// become current, hence nothing can be truncated, until row 0 has committed. After a wait for somebody who made a
// snapshot current, READ COMMITTED looks at the row again and finds parts > 0; the other levels answer 40001. So row 0,
// once truncated, never comes back; and of two that race, the primary key refuses one.
//
// # Commit of a snapshot
//
// One UPDATE of the one row. A second one waits for the first and then, at READ COMMITTED, judges the row as the first
// left it, or is answered 40001 and judges it anew: the index never goes down. The parts counted are of its own token;
// a sweep takes only those at or below the current index, and such a commit is refused by its index.
//
// # Truncation
//
// The rows are chosen in ascending order from one snapshot, and deleted through the primary key in that order. Both
// bounds only rise after the statement has read them (the snapshot's index, the newest row), so a stale reading deletes
// less, never more. A second truncation waits for the first row they share and then skips what is gone (or 40001).
func statements(n names) sqllog.Statements {
	s := func(text string, params ...sqllog.Param) sqllog.Statement {
		return sqllog.Statement{Text: n.fill(text), Params: params}
	}
	return sqllog.Statements{
		Genesis: s(`INSERT INTO {log} (idx, payload) SELECT 0, $1::bytea FROM {snapshot} s
			WHERE s.id = 1 AND s.parts = 0 AND NOT EXISTS (SELECT 1 FROM {log})
			FOR SHARE OF s`, sqllog.Payload),
		Append: s(`INSERT INTO {log} (idx, payload) SELECT $1::bigint, $2::bytea FROM {log} p
			WHERE p.idx = $3::bigint AND p.idx = (SELECT max(idx) FROM {log}) AND `+ends("p.payload", "$4::bytea")+`
			FOR KEY SHARE OF p`, sqllog.At, sqllog.Payload, sqllog.Before, sqllog.Mark),
		// The byte budget is kept here, because what the server has begun to send must be received to the end. Lengths
		// are known without fetching the values.
		Read: s(`SELECT idx, payload FROM (
				SELECT idx, payload, sum(octet_length(payload)) OVER w AS total, row_number() OVER w AS place
				FROM (SELECT idx, payload FROM {log} WHERE idx > $1::bigint ORDER BY idx LIMIT $2::bigint) a
				WINDOW w AS (ORDER BY idx ROWS UNBOUNDED PRECEDING)) b
			WHERE total <= $3::bigint OR place = 1 ORDER BY idx`, sqllog.After, sqllog.Limit, sqllog.Bytes),
		Newest: s(`SELECT max(idx) FROM {log}`),
		// A primary that was told to be read-only, as before a switch-over, is no longer where writes are decided.
		Bounds: s(`SELECT (SELECT min(idx) FROM {log}), (SELECT max(idx) FROM {log}),
				(SELECT substring(payload FROM greatest(octet_length(payload) - {mark} + 1, 1)) FROM {log} ORDER BY idx DESC LIMIT 1),
				idx, parts, size,
				NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'
			FROM {snapshot} WHERE id = 1`),
		Snapshot: s(`SELECT idx, token, parts, size FROM {snapshot} WHERE id = 1`),
		InsertPart: s(`INSERT INTO {snapshot_part} (token, part, idx, data) VALUES ($1, $2, $3, $4)`,
			sqllog.Token, sqllog.Part, sqllog.At, sqllog.Payload),
		ReadPart: s(`SELECT data FROM {snapshot_part} WHERE token = $1 AND part = $2`, sqllog.Token, sqllog.Part),
		Commit: s(`UPDATE {snapshot} SET idx = $1, token = $2, parts = $3, size = $4
			WHERE id = 1 AND (parts = 0 OR idx < $1)
			AND (SELECT count(*) FROM {snapshot_part} WHERE token = $2) = $3
			AND (NOT EXISTS (SELECT 1 FROM {log}) OR EXISTS (SELECT 1 FROM {log} l WHERE l.idx = $1 AND `+ends("l.payload", "$5::bytea")+`))`,
			sqllog.At, sqllog.Token, sqllog.Parts, sqllog.Size, sqllog.Mark),
		Sweep: s(`DELETE FROM {snapshot_part} WHERE (token, part) IN (SELECT p.token, p.part FROM {snapshot_part} p
			JOIN {snapshot} s ON s.id = 1 AND s.parts > 0 AND p.idx <= s.idx AND p.token <> s.token LIMIT $1)`, sqllog.Limit),
		Abort: s(`DELETE FROM {snapshot_part} WHERE (token, part) IN (SELECT token, part FROM {snapshot_part} WHERE token = $1
			AND token <> (SELECT token FROM {snapshot} WHERE id = 1) LIMIT $2)`, sqllog.Token, sqllog.Limit),
		Truncate: s(`DELETE FROM {log} WHERE idx = ANY (ARRAY(SELECT l.idx FROM {log} l WHERE l.idx < $1::bigint
			AND l.idx <= (SELECT idx FROM {snapshot} WHERE id = 1 AND parts > 0)
			AND l.idx < (SELECT max(idx) FROM {log}) ORDER BY l.idx LIMIT $2::bigint))`, sqllog.Below, sqllog.Limit),
	}
}

// ends is the condition that a payload ends with a mark. Values are stored so that a part of a large one is read by itself.
func ends(payload, mark string) string {
	return "substring(" + payload + " FROM greatest(octet_length(" + payload + ") - octet_length(" + mark + ") + 1, 1)) = " + mark
}

// politeText is the append that gives way to whoever has the turn: it inserts only if the lock of the turnstile is free,
// and holds it until it has committed. It never waits for it.
func politeText(n names) string {
	return n.fill(`INSERT INTO {log} (idx, payload) SELECT $1::bigint, $2::bytea FROM {log} p
		WHERE p.idx = $3::bigint AND p.idx = (SELECT max(idx) FROM {log}) AND ` + ends("p.payload", "$4::bytea") + `
		AND pg_try_advisory_xact_lock({turn})
		FOR KEY SHARE OF p`)
}

// names are the tables of one cluster.
type names struct{ schema, prefix string }

// qualified returns the name of a table, with its schema where one was given. No part needs quotes: see namePattern.
func (n names) qualified(table string) string {
	if n.schema == "" {
		return n.prefix + "_" + table
	}
	return n.schema + "." + n.prefix + "_" + table
}

// channel is the name under which appended rows are told. Clusters of the same prefix in other schemas of the database
// share it, at the cost of a needless look now and then.
func (n names) channel() string { return n.prefix + "_log" }

// fill puts the names into a text.
func (n names) fill(text string) string {
	key := func(what string) string {
		h := fnv.New64a()
		h.Write([]byte("headwater " + n.qualified(what)))
		return strconv.FormatInt(int64(h.Sum64()), 10)
	}
	return strings.NewReplacer("{log}", n.qualified("log"), "{snapshot}", n.qualified("snapshot"),
		"{snapshot_part}", n.qualified("snapshot_part"), "{version}", strconv.Itoa(schemaVersion),
		"{lock}", key(""), "{turn}", key("turn"), "{mark}", strconv.Itoa(oplog.MarkSize)).Replace(text)
}

// grants are the least permissions of the roles. UPDATE on the log is needed for its row lock only, never used to change
// a row, so one column of it is enough.
const grants = `
-- A node: proposes, takes snapshots, truncates.
GRANT SELECT, INSERT, DELETE, UPDATE (idx) ON {log} TO %[1]s;
GRANT SELECT, UPDATE ON {snapshot} TO %[1]s;
GRANT SELECT, INSERT, DELETE ON {snapshot_part} TO %[1]s;

-- A process that only reads.
GRANT SELECT ON {log}, {snapshot}, {snapshot_part} TO %[2]s;
`

// PrintSQL returns the statements that a database administrator runs once, so that no program needs the right to create
// tables: the tables under Prefix and Schema, and the grants for the role of the nodes and for one that only reads. Init,
// with the node's role, then finds the tables and writes the first row. Of o only Prefix and Schema are looked at.
func PrintSQL(o Options, nodeRole, readerRole string) (string, error) {
	o = o.withDefaults()
	if err := o.validateNames(); err != nil {
		return "", err
	}
	n := names{o.Schema, o.Prefix}
	var b strings.Builder
	b.WriteString("BEGIN;\n")
	b.WriteString(n.fill(schema))
	fmt.Fprintf(&b, n.fill(grants), quote(nodeRole), quote(readerRole))
	if o.Schema != "" {
		fmt.Fprintf(&b, "GRANT USAGE ON SCHEMA %s TO %s, %s;\n", o.Schema, quote(nodeRole), quote(readerRole))
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

// quote makes an identifier of any text.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
