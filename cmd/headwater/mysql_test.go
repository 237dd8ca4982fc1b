package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// TestTourOnMariaDB deals the lines of the tour out over three servers, processes of their own, on one MariaDB database,
// which only init makes a cluster.
func TestTourOnMariaDB(t *testing.T) {
	t.Parallel()
	db := dbtest.SharedMySQL(t) + "?headwater_prefix=" + dbtest.Prefix()
	tourOverThree(t, [3]string{db, db, db})
}

// TestTourOnGalera is the same with each server on another member of a Galera cluster.
func TestTourOnGalera(t *testing.T) {
	t.Parallel()
	g := dbtest.NewGalera(t, 3)
	var dbs [3]string
	for i := range dbs {
		dbs[i] = g.Members[i].DSN("root")
	}
	tourOverThree(t, dbs)
}

// TestMySQLAddress: the parameters that are ours, and no others, are taken out of an address.
func TestMySQLAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]mysql.Options{
		"//h/d":                  {DSN: "mysql://h/d"},
		"//u:p%20q@h/d?tls=true": {DSN: "mysql://u:p%20q@h/d?tls=true"},
		"//h/d?headwater_prefix=a&tls=true&headwater_require_durable=true": {DSN: "mysql://h/d?tls=true", Prefix: "a", RequireDurable: true},
		"//h/d?headwater_poll_interval=1s&headwater_idle_poll_interval=2s&headwater_statement_timeout=3s&headwater_connect_timeout=4s&headwater_retry_timeout=5s&headwater_max_connections=6&headwater_max_value_bytes=7": {
			DSN: "mysql://h/d", PollInterval: 1e9, IdlePollInterval: 2e9, StatementTimeout: 3e9, ConnectTimeout: 4e9, RetryTimeout: 5e9, MaxConnections: 6, MaxValueBytes: 7},
	} {
		got, err := mysqlOptions(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
	}
	for _, bad := range []string{"headwater_prefx=a", "headwater_max_connections=hunter2", "headwater_require_durable=hunter2", "headwater_poll_interval=%zzhunter2"} {
		_, err := mysqlOptions("//u:hunter2@h/d?" + bad)
		if name, _, _ := strings.Cut(bad, "="); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestPrintMySQL: what an administrator is given has everything that was asked for, and needs no server.
func TestPrintMySQL(t *testing.T) {
	t.Parallel()
	got := run(t, nil, "init", "--db", "mysql://127.0.0.1:1/d?headwater_prefix=pre", "--print-sql", "--node-role", "no'de@10.0.%")
	for _, want := range []string{"CREATE TABLE IF NOT EXISTS pre_log", `TO 'no''de'@'10.0.%'`, `TO 'headwater_reader'@'%'`} {
		if got.code != exitDone || !strings.Contains(got.out, want) {
			t.Errorf("exit code %d, said %q, printed no %s:\n%s", got.code, got.err, want, got.out)
		}
	}
}
