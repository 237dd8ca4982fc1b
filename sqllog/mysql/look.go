package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	"github.com/headwaterdb/headwater/oplog"
)

// look is what was found about a server and a session when it was opened.
type look struct {
	version string
	values  map[string]string // of the variables below that the server has
}

// variables are those that are looked at. A server has some of them: MariaDB, MySQL, Galera and TiDB differ.
var variables = []string{"version", "version_comment", "autocommit", "transaction_isolation", "tx_isolation", "sql_mode",
	"max_allowed_packet", "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_doublewrite", "innodb_lock_wait_timeout", "max_statement_time",
	"log_bin", "sync_binlog", "sql_log_bin", "binlog_format", "read_only", "innodb_read_only", "server_uuid", "hostname", "port", "datadir",
	"wsrep_on", "wsrep_provider", "wsrep_sync_wait", "wsrep_dirty_reads", "wsrep_retry_autocommit", "wsrep_cluster_name"}

// packetMargin is how many bytes of a packet, and of the event in the binary log, are not the value that it carries.
const packetMargin = 1 << 10

// settle looks at a new session and sets what is not as it must be.
func (s *session) settle(ctx context.Context, c driver.Conn) (look, error) {
	l := look{values: map[string]string{}}
	rows, err := query(ctx, c, "SHOW SESSION VARIABLES WHERE Variable_name IN ('"+strings.Join(variables, "', '")+"')")
	if err != nil {
		return l, fmt.Errorf("look at the settings: %w", err)
	}
	for _, r := range rows {
		l.values[strings.ToLower(fmt.Sprint(r[0]))] = fmt.Sprint(r[1])
	}
	l.version = l.values["version"]
	if err := l.fit(s.o); err != nil {
		return l, err
	}
	if l.galera() {
		if err := ready(ctx, c); err != nil {
			return l, err
		}
	}
	for _, text := range l.corrections(s.o) {
		if err := exec(ctx, c, text); err != nil {
			return l, fmt.Errorf("make the settings: %w", err)
		}
	}
	return l, nil
}

// ready refuses a member that is not part of its cluster at the moment: whatever it has may be old.
func ready(ctx context.Context, c driver.Conn) error {
	rows, err := query(ctx, c, "SHOW STATUS LIKE 'wsrep_ready'")
	if err != nil {
		return fmt.Errorf("look at the member's state: %w", err)
	}
	if len(rows) == 1 && !on(fmt.Sprint(rows[0][1])) {
		return fmt.Errorf("the member is not ready: it is not connected to the primary component: %w", oplog.ErrUnavailable)
	}
	return nil
}

// on reads a switch.
func on(value string) bool { return strings.EqualFold(value, "ON") || value == "1" }

// fit refuses a server or a session whose settings are wrong and not ours to change.
func (l look) fit(o Options) error {
	mode := strings.ToUpper(l.values["sql_mode"])
	switch {
	case !strings.Contains(mode, "STRICT_TRANS_TABLES") && !strings.Contains(mode, "STRICT_ALL_TABLES"):
		return fmt.Errorf("the server is not in strict mode (sql_mode has neither STRICT_TRANS_TABLES nor STRICT_ALL_TABLES), so values may be cut short: %w", oplog.ErrSettings)
	case strings.Contains(mode, "EMPTY_STRING_IS_NULL"):
		return fmt.Errorf("sql_mode has EMPTY_STRING_IS_NULL, which changes values: %w", oplog.ErrSettings)
	case l.tidb() && !o.ReadOnly && !o.TiDBPessimistic:
		return fmt.Errorf("TiDB runs a statement that commits by itself optimistically, so that an append and a truncation may not exclude each other: set pessimistic-txn.pessimistic-auto-commit = true on every server, and say so with the option TiDBPessimistic (headwater_tidb_pessimistic=true): %w", oplog.ErrSettings)
	case on(l.values["log_bin"]) && l.values["binlog_format"] == "STATEMENT":
		return fmt.Errorf("binlog_format is STATEMENT, with which the server refuses statements at READ COMMITTED: set ROW or MIXED: %w", oplog.ErrSettings)
	case l.has("sql_log_bin") && !on(l.values["sql_log_bin"]) && on(l.values["log_bin"]):
		return fmt.Errorf("sql_log_bin is off, so rows would not reach the replicas: %w", oplog.ErrSettings)
	case l.provider() && !on(l.values["wsrep_on"]):
		return fmt.Errorf("wsrep_on is off on a member of a Galera cluster, so rows would not reach the others: %w", oplog.ErrSettings)
	case l.packet()+packetMargin < 64<<10:
		return fmt.Errorf("max_allowed_packet is %s: 64 KiB or more are needed: %w", l.values["max_allowed_packet"], oplog.ErrSettings)
	}
	if w := l.weak(); o.RequireDurable && !o.ReadOnly && len(w) > 0 {
		return fmt.Errorf("%s: %w", strings.Join(w, "; "), oplog.ErrSettings)
	}
	return nil
}

func (l look) has(name string) bool { _, ok := l.values[name]; return ok }

// provider reports whether the server is set up as a member of a Galera cluster.
func (l look) provider() bool {
	p := l.values["wsrep_provider"]
	return p != "" && p != "none"
}

func (l look) tidb() bool { return strings.Contains(l.version, "TiDB") }

func (l look) galera() bool { return l.provider() && on(l.values["wsrep_on"]) }

// corrections are the statements that set what is wrong, once for each connection, which costs no append anything.
func (l look) corrections(o Options) (texts []string) {
	var set []string
	want := func(name, value, text string) {
		if l.has(name) && !strings.EqualFold(l.values[name], value) {
			set = append(set, text)
		}
	}
	if !on(l.values["autocommit"]) {
		set = append(set, "SESSION autocommit = 1")
	}
	// The lock wait ends on the server before the statement does here, as far as whole seconds can say it.
	wait := strconv.Itoa(max(1, int(o.StatementTimeout.Seconds()/2)))
	want("innodb_lock_wait_timeout", wait, "SESSION innodb_lock_wait_timeout = "+wait)
	if v, err := strconv.ParseFloat(l.values["max_statement_time"], 64); err == nil && v != 0 {
		set = append(set, "SESSION max_statement_time = 0") // a statement that the server breaks off is of unknown outcome
	}
	if l.galera() {
		// A read waits until what was committed anywhere before it is here; a conflict is told, not tried again by the server.
		if bits, _ := strconv.Atoi(l.values["wsrep_sync_wait"]); bits&1 == 0 {
			set = append(set, "SESSION wsrep_sync_wait = "+strconv.Itoa(bits|1))
		}
		want("wsrep_retry_autocommit", "0", "SESSION wsrep_retry_autocommit = 0")
		want("wsrep_dirty_reads", "OFF", "SESSION wsrep_dirty_reads = OFF")
	}
	if len(set) > 0 {
		texts = append(texts, "SET "+strings.Join(set, ", "))
	}
	if l.values["transaction_isolation"] != "READ-COMMITTED" && l.values["tx_isolation"] != "READ-COMMITTED" {
		texts = append(texts, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
	}
	if o.ReadOnly {
		texts = append(texts, "SET SESSION TRANSACTION READ ONLY")
	}
	return texts
}

// readOnly reports whether the server refuses the writes of ordinary users.
func (l look) readOnly() bool {
	no := func(name string) bool { v := l.values[name]; return v == "" || v == "0" || strings.EqualFold(v, "OFF") }
	return !no("read_only") || !no("innodb_read_only")
}

// weak names the settings with which acknowledged rows may be lost.
func (l look) weak() (w []string) {
	if v := l.values["innodb_flush_log_at_trx_commit"]; v != "" && v != "1" {
		w = append(w, "backend may lose acknowledged rows: innodb_flush_log_at_trx_commit = "+v)
	}
	if v := l.values["innodb_flush_method"]; strings.EqualFold(v, "nosync") {
		w = append(w, "backend may lose acknowledged rows: innodb_flush_method = "+v)
	}
	return w
}

// early reports whether the server shows a commit to other sessions before it is on the disk. InnoDB does: a transaction
// is visible, and its locks are gone, once its commit stands in the log buffer; then the buffer is flushed, and then the
// session is answered. Where there is a binary log the commit is in it, and so is found again, before it is visible; where
// the flush is switched off there is nothing to wait for; and what a member of a Galera cluster shows, the others have.
func (l look) early() bool {
	return l.values["innodb_flush_log_at_trx_commit"] == "1" && !on(l.values["log_bin"]) && !l.galera()
}

// warnings are what people should know of the server, also those who only read: they ask for others.
func (l look) warnings(o Options) []string {
	w := l.weak()
	if v := l.values["sync_binlog"]; on(l.values["log_bin"]) && v != "" && v != "1" {
		w = append(w, "a replica may miss acknowledged rows after a crash of the server: sync_binlog = "+v)
	}
	if v := l.values["innodb_doublewrite"]; strings.EqualFold(v, "OFF") {
		w = append(w, "backend may be damaged when its machine fails: innodb_doublewrite = OFF")
	}
	if l.tidb() && !o.TiDBPessimistic {
		w = append(w, "TiDB is refused for writing without the option TiDBPessimistic (headwater_tidb_pessimistic=true)")
	}
	if l.readOnly() {
		w = append(w, "the server is read-only: nothing can be written until that is changed, or another one is found")
	}
	return w
}

// backend names the server.
func (l look) backend() string {
	name := "mysql "
	switch {
	case strings.Contains(l.version, "MariaDB") && l.galera():
		name = "mariadb galera "
	case strings.Contains(l.version, "MariaDB"):
		name = "mariadb "
	case l.tidb():
		name = "tidb "
	}
	return name + l.version
}

// place tells servers apart however they are reached, as far as that can be told.
func (l look) place(location string) string {
	if l.values["hostname"] == "" {
		return location
	}
	_, database, _ := strings.Cut(strings.TrimPrefix(location, "mysql://"), "/")
	return strings.Join([]string{l.values["hostname"], l.values["port"], l.values["datadir"], database}, "\x00")
}
