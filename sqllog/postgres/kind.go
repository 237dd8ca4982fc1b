package postgres

import "strings"

// kind is who made the server that speaks PostgreSQL's protocol. What differs between them is here, in the texts of the
// tables (schemas), and nowhere else; all of it is from their documentation and source, and was not run.
type kind int

const (
	postgresql kind = iota
	// cockroach: CockroachDB has no LISTEN; its advisory locks are missing, or do nothing, or are younger than this; it
	// refuses default_transaction_deferrable, storage parameters of PostgreSQL's and rights on columns.
	cockroach
	// yugabyte: YugabyteDB shards a primary key by the hash of its first column unless that says ASC, and then each look
	// for the newest row is a look at all of them; statements that create commit one by one, whatever they are sent with.
	yugabyte
)

// kindOf tells the kind by what version() says.
func kindOf(version string) kind {
	switch {
	case strings.Contains(version, "CockroachDB"):
		return cockroach
	case strings.Contains(version, "-YB-"):
		return yugabyte
	}
	return postgresql
}

// notifies reports whether LISTEN and NOTIFY are worth a try.
func (k kind) notifies() bool { return k != cockroach }

// lines reports whether an advisory lock that can be had is one that others wait for.
func (k kind) lines() bool { return k != cockroach }

// piecemeal reports whether tables may be there in part, because another process is creating them or was killed.
func (k kind) piecemeal() bool { return k == yugabyte }

// settings are those that only some kinds have.
func (k kind) settings() []string {
	if k == cockroach {
		return nil
	}
	return []string{"default_transaction_deferrable = off",
		"enable_seqscan = off", // a plan that was made and kept while the log was short must not read all of a long one
		"jit = off"}            // where there is no other way than to read a whole table, that setting makes it look like work worth compiling
}

// schemas are the texts that create the tables. Those of one kind are sent one after the other, each as one message.
var schemas = map[kind][]string{
	postgresql: {schema},
	cockroach:  {plainSchema},
	yugabyte: strings.SplitAfter(strings.NewReplacer("idx BIGINT PRIMARY KEY CHECK (idx >= 0),\n\tpayload BYTEA NOT NULL",
		"idx BIGINT CHECK (idx >= 0),\n\tpayload BYTEA NOT NULL,\n\tPRIMARY KEY (idx ASC)",
		"PRIMARY KEY (token, part)", "PRIMARY KEY (token ASC, part ASC)").Replace(strings.TrimSpace(plainSchema)), ";\n"),
}

// plainSchema is schema without what only PostgreSQL has. The row of the snapshot table comes last: where it stands,
// everything does. Of several processes that run it at once some are told that they were raced, and look again.
const plainSchema = `CREATE TABLE IF NOT EXISTS {log} (
	idx BIGINT PRIMARY KEY CHECK (idx >= 0),
	payload BYTEA NOT NULL
);
CREATE TABLE IF NOT EXISTS {snapshot_part} (
	token BYTEA NOT NULL,
	part INTEGER NOT NULL,
	idx BIGINT NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (token, part)
);
CREATE TABLE IF NOT EXISTS {snapshot} (
	id SMALLINT PRIMARY KEY CHECK (id = 1),
	version INTEGER NOT NULL,
	idx BIGINT NOT NULL,
	token BYTEA NOT NULL,
	parts INTEGER NOT NULL,
	size BIGINT NOT NULL
);
INSERT INTO {snapshot} (id, version, idx, token, parts, size) VALUES (1, {version}, 0, '', 0, 0) ON CONFLICT (id) DO NOTHING;
`

// backend names the server in Info.
func (l look) backend() string {
	switch l.kind() {
	case cockroach: // "CockroachDB CCL v25.1.0 (…)"
		for word := range strings.FieldsSeq(l.version) {
			if strings.HasPrefix(word, "v") {
				return "cockroachdb " + word
			}
		}
		return "cockroachdb"
	case yugabyte:
		return "yugabytedb " + l.server
	}
	return "postgresql " + l.server
}

func (l look) kind() kind { return kindOf(l.version) }
