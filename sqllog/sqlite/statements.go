package sqlite

import (
	"strconv"
	"strings"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

// schemaVersion is the version of the tables, kept in the one row of the snapshot table. Versions:
//
//	1  the first
const schemaVersion = 1

// applicationID marks a file as ours in its header: "Hdwr".
const applicationID = 0x48647772

// schema creates the tables. All are STRICT, so that a value of another type is refused instead of converted; INTEGER
// is 64 bits. The index of the log is the rowid, so that the newest row is found and appended at the right edge.
const schema = `
CREATE TABLE IF NOT EXISTS {log} (
	idx INTEGER PRIMARY KEY CHECK (idx >= 0),
	payload BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS {snapshot} (
	id INTEGER PRIMARY KEY CHECK (id = 1),
	version INTEGER NOT NULL,
	idx INTEGER NOT NULL,
	token BLOB NOT NULL,
	parts INTEGER NOT NULL,
	size INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS {snapshot_part} (
	token BLOB NOT NULL,
	part INTEGER NOT NULL,
	idx INTEGER NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (token, part)
) STRICT;
INSERT INTO {snapshot} (id, version, idx, token, parts, size) SELECT 1, {version}, 0, x'', 0, 0
	WHERE NOT EXISTS (SELECT 1 FROM {snapshot});
`

// ends is the condition that a row's payload ends with a mark, which is given twice. (substr of no bytes is NULL.)
const ends = `coalesce(substr(payload, length(payload) - length(?) + 1), x'') = ?`

// statements are the texts of the log.
//
// Append and truncation exclude each other because each is one statement, and SQLite takes the file's only write lock
// before a writing statement reads anything: what the statement sees is the newest committed state, and stays so until
// it has committed. So when Append finds that Before is the newest row and ends with Mark, that holds at the instant of the insert; a row
// that was truncated in the meantime is no longer the newest, and its successor's slot is refused, because truncation
// keeps the newest row. (A statement whose snapshot is stale when it asks for the lock cannot get it: it is answered
// SQLITE_BUSY_SNAPSHOT and starts again from the newest state.) The primary key stands behind it. No row lock is needed.
func statements(prefix string) sqllog.Statements {
	t := tables(prefix)
	s := func(text string, params ...sqllog.Param) sqllog.Statement {
		return sqllog.Statement{Text: t.Replace(text), Params: params}
	}
	return sqllog.Statements{
		Genesis: s(`INSERT INTO {log} (idx, payload) SELECT 0, ?
			WHERE NOT EXISTS (SELECT 1 FROM {log}) AND NOT EXISTS (SELECT 1 FROM {snapshot} WHERE parts > 0)`, sqllog.Payload),
		Append: s(`INSERT INTO {log} (idx, payload) SELECT ?, ? FROM {log}
			WHERE idx = ? AND idx = (SELECT max(idx) FROM {log}) AND `+ends, sqllog.At, sqllog.Payload, sqllog.Before, sqllog.Mark, sqllog.Mark),
		Read:   s(`SELECT idx, payload FROM {log} WHERE idx > ? ORDER BY idx LIMIT ?`, sqllog.After, sqllog.Limit),
		Newest: s(`SELECT max(idx) FROM {log}`),
		Bounds: s(`SELECT (SELECT min(idx) FROM {log}), (SELECT max(idx) FROM {log}),
			(SELECT coalesce(substr(payload, -{mark}), x'') FROM {log} ORDER BY idx DESC LIMIT 1), idx, parts, size, 1
			FROM {snapshot} WHERE id = 1`),
		Snapshot:   s(`SELECT idx, token, parts, size FROM {snapshot} WHERE id = 1`),
		InsertPart: s(`INSERT INTO {snapshot_part} (token, part, idx, data) VALUES (?, ?, ?, ?)`, sqllog.Token, sqllog.Part, sqllog.At, sqllog.Payload),
		ReadPart:   s(`SELECT data FROM {snapshot_part} WHERE token = ? AND part = ?`, sqllog.Token, sqllog.Part),
		Commit: s(`UPDATE {snapshot} SET idx = ?, token = ?, parts = ?, size = ?
			WHERE id = 1 AND (parts = 0 OR idx < ?)
			AND (SELECT count(*) FROM {snapshot_part} WHERE token = ?) = ?
			AND (NOT EXISTS (SELECT 1 FROM {log}) OR EXISTS (SELECT 1 FROM {log} WHERE idx = ? AND `+ends+`))`,
			sqllog.At, sqllog.Token, sqllog.Parts, sqllog.Size, sqllog.At, sqllog.Token, sqllog.Parts, sqllog.At, sqllog.Mark, sqllog.Mark),
		Sweep: s(`DELETE FROM {snapshot_part} WHERE rowid IN (SELECT p.rowid FROM {snapshot_part} p
			JOIN {snapshot} s ON s.id = 1 AND s.parts > 0 AND p.idx <= s.idx AND p.token <> s.token LIMIT ?)`, sqllog.Limit),
		Abort: s(`DELETE FROM {snapshot_part} WHERE rowid IN (SELECT rowid FROM {snapshot_part} WHERE token = ?
			AND token <> (SELECT token FROM {snapshot} WHERE id = 1) LIMIT ?)`, sqllog.Token, sqllog.Limit),
		Truncate: s(`DELETE FROM {log} WHERE idx IN (SELECT l.idx FROM {log} l WHERE l.idx < ?
			AND l.idx <= (SELECT idx FROM {snapshot} WHERE id = 1 AND parts > 0)
			AND l.idx < (SELECT max(idx) FROM {log}) ORDER BY l.idx LIMIT ?)`, sqllog.Below, sqllog.Limit),
	}
}

// tables puts the names of the tables of prefix into a text.
func tables(prefix string) *strings.Replacer {
	return strings.NewReplacer("{log}", prefix+"_log", "{snapshot}", prefix+"_snapshot",
		"{snapshot_part}", prefix+"_snapshot_part", "{version}", strconv.Itoa(schemaVersion), "{mark}", strconv.Itoa(oplog.MarkSize))
}
