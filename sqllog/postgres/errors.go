package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
)

var (
	tryAgain  = sqllog.Verdict{Err: oplog.ErrUnavailable, Retry: true}
	afresh    = sqllog.Verdict{Err: oplog.ErrUnavailable, Retry: true, Drop: true} // not applied; on another connection
	busy      = sqllog.Verdict{Err: oplog.ErrUnavailable}
	away      = sqllog.Verdict{Err: oplog.ErrUnavailable, Drop: true}
	conflict  = sqllog.Verdict{Err: oplog.ErrConflict}
	full      = sqllog.Verdict{Err: oplog.ErrFull}
	readOnly  = sqllog.Verdict{Err: oplog.ErrReadOnly, Drop: true} // a new connection may find the new primary
	denied    = sqllog.Verdict{Err: oplog.ErrDenied, Drop: true}   // a new connection has the rights of now
	tooLarge  = sqllog.Verdict{Err: oplog.ErrTooLarge}
	corrupt   = sqllog.Verdict{Err: oplog.ErrCorrupt, Drop: true}
	notOurs   = sqllog.Verdict{Err: oplog.ErrSchema, Drop: true}
	absent    = sqllog.Verdict{Err: oplog.ErrNoCluster, Drop: true}
	refused   = sqllog.Verdict{Err: oplog.ErrSettings, Drop: true}
	uncertain = sqllog.Verdict{Err: oplog.ErrUnknown, Drop: true}
)

// verdicts says what a SQLSTATE means: first the whole code, then its class (the first two characters), where the class
// stands here. An ERROR of PostgreSQL rolls the statement back, so a code that can only be raised before the commit vouches
// for "not applied". Not those of a session that ends, nor of a cancelled statement: whoever is cancelled while it waits
// for a synchronous standby has committed. What stands here under no code is uncertain, which is always safe: the log is
// read to see. The codes of servers that speak PostgreSQL's protocol are the same where they have the same meaning.
var verdicts = map[string]sqllog.Verdict{
	// Transactions that were rolled back because of others.
	"40001": tryAgain,  // serialization_failure; CockroachDB and YugabyteDB: restart
	"40P01": tryAgain,  // deadlock_detected
	"55P03": tryAgain,  // lock_not_available: lock_timeout
	"40003": uncertain, // statement_completion_unknown; CockroachDB: ambiguous result
	"23505": conflict,  // unique_violation

	// Sessions and connections.
	"08":    uncertain, // connection_exception; in time 08007 transaction_resolution_unknown; of a pooler 08P01
	"57P01": uncertain, // admin_shutdown
	"57P02": uncertain, // crash_shutdown
	"57P04": uncertain, // database_dropped
	"57P05": uncertain, // idle_session_timeout
	"57014": uncertain, // query_canceled: by statement_timeout, or by somebody
	"57P03": away,      // cannot_connect_now: starting up, shutting down, in recovery
	"53300": away,      // too_many_connections
	"25P02": afresh,    // in_failed_sql_transaction: a pooler handed over a session in a transaction
	"25P03": uncertain, // idle_in_transaction_session_timeout
	"26000": afresh,    // invalid_sql_statement_name: a pooler changed the session between two messages
	"42P05": afresh,    // duplicate_prepared_statement: the same
	"3B001": afresh,    // savepoint of a transaction that is not there: the same

	// Resources.
	"53100": full, // disk_full
	"53200": busy, // out_of_memory
	"53400": busy, // configuration_limit_exceeded
	"53":    busy, // insufficient_resources
	"22001": tooLarge,
	"54":    tooLarge, // program_limit_exceeded: 54000 also where a distributed store limits a value

	// Who and where.
	"25006": readOnly, // read_only_sql_transaction: a standby, or default_transaction_read_only
	"42501": denied,   // insufficient_privilege
	"28":    denied,   // invalid_authorization_specification; 28P01 invalid_password
	"3D000": absent,   // invalid_catalog_name: no such database
	"3F000": absent,   // invalid_schema_name
	"42P01": absent,   // undefined_table

	// Not our tables, or not a PostgreSQL that we know.
	"42":    notOurs, // syntax_error_or_access_rule_violation: columns, types, functions
	"23":    notOurs, // a constraint that our tables do not have
	"0A000": notOurs, // feature_not_supported
	"P0001": notOurs, // raise_exception: a trigger
	"22023": refused, // invalid_parameter_value: a setting that the server does not take
	"55P02": refused, // cant_change_runtime_param
	"F0000": refused, // config_file_error

	// Damage. Only where the server says so; a failed read or write (58030) tells nothing of the commit.
	"XX001": corrupt, // data_corrupted
	"XX002": corrupt, // index_corrupted
}

// classify is the dialect's error table. No text is looked at.
func classify(err error) sqllog.Verdict {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return ofState(e.Code)
	}
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	if errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid) {
		return refused
	}
	if pgconn.SafeToRetry(err) { // nothing was sent
		return afresh
	}
	return uncertain
}

func ofState(code string) sqllog.Verdict {
	if v, ok := verdicts[code]; ok {
		return v
	}
	if len(code) == 5 {
		if v, ok := verdicts[code[:2]]; ok {
			return v
		}
	}
	return uncertain
}

// state returns the SQLSTATE of err, or nothing.
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
