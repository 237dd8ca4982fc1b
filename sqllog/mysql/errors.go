package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

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

// notReady is Galera's number of a member that is not in the primary component: it refuses everything.
const notReady = 1047

// verdicts says what an error number of a server means. A statement that InnoDB answers with an error has been rolled
// back, and each of ours is a whole transaction, so a number that can only come before the commit vouches for "not
// applied". Not those of a session or statement that was ended from outside, nor those of a failed commit: they may come
// when the row is in the binary log, or in the group's order, already. What stands here under no number is uncertain,
// which is always safe: the log is read to see.
var verdicts = map[uint16]sqllog.Verdict{
	// Transactions that were rolled back because of others.
	1213: tryAgain, // ER_LOCK_DEADLOCK; Galera: certification failed or aborted by a write set that was ordered before
	1205: afresh,   // ER_LOCK_WAIT_TIMEOUT: only the statement was rolled back, so nothing may follow on this session; Galera: no causality within its timeout
	1020: tryAgain, // ER_CHECKREAD: the row has changed since the read view (innodb_snapshot_isolation)
	1206: tryAgain, // ER_LOCK_TABLE_FULL
	1412: tryAgain, // ER_TABLE_DEF_CHANGED
	1637: tryAgain, // ER_TOO_MANY_CONCURRENT_TRXS
	3101: tryAgain, // ER_TRANSACTION_ROLLBACK_DURING_COMMIT: certification of MySQL's group replication failed
	3572: tryAgain, // ER_LOCK_NOWAIT
	1062: conflict, // ER_DUP_ENTRY
	1586: conflict, // ER_DUP_ENTRY_WITH_KEY_NAME
	1022: conflict, // ER_DUP_KEY
	1615: afresh,   // ER_NEED_REPREPARE
	1243: afresh,   // ER_UNKNOWN_STMT_HANDLER: something between us and the server has changed the session

	// Sessions and statements that were ended from outside, and commits that failed.
	1053: uncertain, // ER_SERVER_SHUTDOWN
	1077: uncertain, // ER_NORMAL_SHUTDOWN
	1079: uncertain, // ER_SHUTDOWN_COMPLETE
	1080: uncertain, // ER_FORCING_CLOSE
	1317: uncertain, // ER_QUERY_INTERRUPTED: KILL QUERY
	1927: uncertain, // ER_CONNECTION_KILLED
	1969: uncertain, // ER_STATEMENT_TIMEOUT: max_statement_time
	3024: uncertain, // ER_QUERY_TIMEOUT: MySQL's max_execution_time
	1180: uncertain, // ER_ERROR_DURING_COMMIT; Galera: replication failed at the commit
	1026: uncertain, // ER_ERROR_ON_WRITE: also of the binary log
	1030: uncertain, // ER_GET_ERRNO: an error of the engine that has no number of its own
	1105: uncertain, // ER_UNKNOWN_ERROR
	3100: uncertain, // ER_RUN_HOOK_ERROR: of group replication, at the commit
	1158: uncertain, // ER_NET_READ_ERROR
	1159: uncertain, // ER_NET_READ_INTERRUPTED
	1160: uncertain, // ER_NET_ERROR_ON_WRITE
	1161: uncertain, // ER_NET_WRITE_INTERRUPTED
	1152: uncertain, // ER_ABORTING_CONNECTION
	1184: uncertain, // ER_NEW_ABORTING_CONNECTION
	4031: uncertain, // ER_CLIENT_INTERACTION_TIMEOUT: MySQL ended an idle session
	// The server does not let anybody in, or not now; the statement has not run.
	notReady: afresh, // Galera: not in the primary component, or about to join
	1040:     away,   // ER_CON_COUNT_ERROR: too many connections
	1203:     away,   // ER_TOO_MANY_USER_CONNECTIONS
	1226:     away,   // ER_USER_LIMIT_REACHED
	1129:     away,   // ER_HOST_IS_BLOCKED
	1135:     away,   // ER_CANT_CREATE_THREAD
	1042:     away,   // ER_BAD_HOST_ERROR
	1043:     away,   // ER_HANDSHAKE_ERROR
	1461:     away,   // ER_MAX_PREPARED_STMT_COUNT_REACHED
	1223:     busy,   // ER_CANT_UPDATE_WITH_READLOCK
	1037:     busy,   // ER_OUTOFMEMORY
	1038:     busy,   // ER_OUT_OF_SORTMEMORY
	1041:     busy,   // ER_OUT_OF_RESOURCES
	1192:     busy,   // ER_LOCK_OR_ACTIVE_TRANSACTION

	// Room, sizes.
	1021: full,                                 // ER_DISK_FULL
	1114: full,                                 // ER_RECORD_FILE_FULL
	1153: {Err: oplog.ErrTooLarge, Drop: true}, // ER_NET_PACKET_TOO_LARGE: the server ends the session
	1162: tooLarge,                             // ER_TOO_LONG_STRING
	1301: tooLarge,                             // ER_WARN_ALLOWED_PACKET_OVERFLOWED
	1406: tooLarge,                             // ER_DATA_TOO_LONG
	1118: tooLarge,                             // ER_TOO_BIG_ROWSIZE; MySQL 5: above a tenth of the redo log
	1197: tooLarge,                             // ER_TRANS_CACHE_FULL: max_binlog_cache_size
	1705: tooLarge,                             // ER_STMT_CACHE_FULL

	// Who and where.
	1290: readOnly, // ER_OPTION_PREVENTS_STATEMENT: read_only
	1792: readOnly, // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
	1836: readOnly, // ER_READ_ONLY_MODE
	1874: readOnly, // ER_INNODB_READ_ONLY
	1036: readOnly, // ER_OPEN_AS_READONLY
	1044: denied,   // ER_DBACCESS_DENIED_ERROR
	1045: denied,   // ER_ACCESS_DENIED_ERROR
	1130: denied,   // ER_HOST_NOT_PRIVILEGED
	1142: denied,   // ER_TABLEACCESS_DENIED_ERROR
	1143: denied,   // ER_COLUMNACCESS_DENIED_ERROR
	1227: denied,   // ER_SPECIFIC_ACCESS_DENIED_ERROR
	1251: denied,   // ER_NOT_SUPPORTED_AUTH_MODE
	1698: denied,   // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
	1820: denied,   // ER_MUST_CHANGE_PASSWORD
	1862: denied,   // ER_MUST_CHANGE_PASSWORD_LOGIN
	3118: denied,   // ER_ACCOUNT_HAS_BEEN_LOCKED
	3159: denied,   // ER_SECURE_TRANSPORT_REQUIRED
	4151: denied,   // MariaDB's ER_ACCOUNT_HAS_BEEN_LOCKED
	1046: absent,   // ER_NO_DB_ERROR
	1049: absent,   // ER_BAD_DB_ERROR
	1146: absent,   // ER_NO_SUCH_TABLE
	1051: absent,   // ER_BAD_TABLE_ERROR
	1054: notOurs,  // ER_BAD_FIELD_ERROR
	1048: notOurs,  // ER_BAD_NULL_ERROR
	1136: notOurs,  // ER_WRONG_VALUE_COUNT_ON_ROW
	1264: notOurs,  // ER_WARN_DATA_OUT_OF_RANGE
	1364: notOurs,  // ER_NO_DEFAULT_FOR_FIELD
	1366: notOurs,  // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
	4025: notOurs,  // MariaDB's ER_CONSTRAINT_FAILED
	1665: refused,  // ER_BINLOG_STMT_MODE_AND_ROW_ENGINE: binlog_format=STATEMENT
	1598: refused,  // ER_BINLOG_LOGGING_IMPOSSIBLE
	1193: refused,  // ER_UNKNOWN_SYSTEM_VARIABLE
	1231: refused,  // ER_WRONG_VALUE_FOR_VAR
	1064: refused,  // ER_PARSE_ERROR: the server does not speak our SQL
	1235: refused,  // ER_NOT_SUPPORTED_YET
	1286: refused,  // ER_UNKNOWN_STORAGE_ENGINE

	// Damage.
	1034: corrupt, // ER_NOT_KEYFILE
	1035: corrupt, // ER_OLD_KEYFILE
	1194: corrupt, // ER_CRASHED_ON_USAGE
	1195: corrupt, // ER_CRASHED_ON_REPAIR
	1712: corrupt, // ER_INDEX_CORRUPT
	1877: corrupt, // ER_TABLE_CORRUPT
	1932: corrupt, // MariaDB's ER_NO_SUCH_TABLE_IN_ENGINE
	1812: corrupt, // ER_TABLESPACE_MISSING
	1814: corrupt, // ER_TABLESPACE_DISCARDED

	// TiDB, from its documentation.
	8001: busy,      // memory above the quota of a statement
	8002: tryAgain,  // conflict in a transaction with SELECT … FOR UPDATE, rolled back
	8004: tooLarge,  // transaction too large
	8005: tryAgain,  // write conflict
	8020: busy,      // table locked
	8022: tryAgain,  // the commit failed and has been rolled back
	8025: tooLarge,  // a single value too large
	8027: afresh,    // schema out of date on this server
	8028: tryAgain,  // schema changed during the statement
	8048: refused,   // isolation level not supported
	8501: uncertain, // outcome undetermined
	9001: uncertain, // PD timed out
	9002: uncertain, // TiKV timed out
	9003: uncertain, // TiKV busy
	9004: uncertain, // too many conflicts; its page does not say that it was rolled back
	9005: uncertain, // region unavailable
	9007: tryAgain,  // write conflict in TiKV
	9500: tooLarge,  // transaction too large
}

// notSent is the error of a statement that never reached the server, so it has not been applied for certain. It hides
// driver.ErrBadConn, which elsewhere says too little.
type notSent struct{ text string }

func (e notSent) Error() string { return "not sent: " + e.text }

// classify is the dialect's error table.
func classify(err error) sqllog.Verdict {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		if v, ok := verdicts[e.Number]; ok {
			return v
		}
		return uncertain
	}
	var unsent notSent
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	switch {
	case errors.As(err, &unsent):
		return afresh
	case errors.Is(err, mysql.ErrPktTooLarge): // the driver refuses to send it
		return tooLarge
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &hostname), errors.Is(err, mysql.ErrNoTLS):
		return refused
	case errors.Is(err, mysql.ErrCleartextPassword), errors.Is(err, mysql.ErrNativePassword), errors.Is(err, mysql.ErrOldPassword),
		errors.Is(err, mysql.ErrUnknownPlugin):
		return denied
	}
	return uncertain // among others mysql.ErrInvalidConn: the connection broke after something was sent
}

// unsent marks err as that of a statement that did not reach the server, where that is so.
func unsent(err error) error {
	if errors.Is(err, driver.ErrBadConn) {
		return notSent{text: "the connection was closed"}
	}
	return err
}

// unprepared marks err as that of a statement that was not executed because it could not be prepared.
func unprepared(err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) || isContext(err) {
		return err
	}
	return fmt.Errorf("prepare: %w", notSent{text: err.Error()})
}
