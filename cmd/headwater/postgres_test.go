package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestTourOnPostgres deals the lines of the tour out over three servers, processes of their own, on one PostgreSQL
// database, which only init makes a cluster.
func TestTourOnPostgres(t *testing.T) {
	t.Parallel()
	db := dbtest.SharedPostgres(t) + "&headwater_prefix=" + dbtest.Prefix()
	tourOverThree(t, [3]string{db, db, db})
}

// TestPostgresAddress: the parameters that are ours, and no others, are taken out of an address.
func TestPostgresAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]postgres.Options{
		"//h/d": {DSN: "postgres://h/d"},
		"//u:p%20q@h/d?sslmode=disable&host=%2Ftmp": {DSN: "postgres://u:p%20q@h/d?sslmode=disable&host=%2Ftmp"},
		"//h/d?headwater_prefix=a&sslmode=disable&headwater_schema=b&headwater_notify=false&headwater_turnstile=true": {
			DSN: "postgres://h/d?sslmode=disable", Prefix: "a", Schema: "b", NoNotify: true, Turnstile: true},
		"//h/d?headwater_poll_interval=1s&headwater_idle_poll_interval=2s&headwater_statement_timeout=3s&headwater_connect_timeout=4s&headwater_retry_timeout=5s&headwater_max_connections=6&headwater_max_value_bytes=7&headwater_allow_fsync_off=true": {
			DSN: "postgres://h/d", PollInterval: 1e9, IdlePollInterval: 2e9, StatementTimeout: 3e9, ConnectTimeout: 4e9, RetryTimeout: 5e9,
			MaxConnections: 6, MaxValueBytes: 7, AllowFsyncOff: true},
	} {
		got, err := postgresOptions(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
	}
	for _, bad := range []string{"headwater_prefx=a", "headwater_max_connections=hunter2", "headwater_notify=hunter2", "headwater_poll_interval=%zzhunter2"} {
		_, err := postgresOptions("//u:hunter2@h/d?" + bad)
		if name, _, _ := strings.Cut(bad, "="); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestPrintSQL: what an administrator is given has everything that was asked for, and needs no server.
func TestPrintSQL(t *testing.T) {
	t.Parallel()
	got := run(t, nil, "init", "--db", "postgresql://127.0.0.1:1/d?headwater_prefix=pre&headwater_schema=sch", "--print-sql", "--node-role", "no de")
	for _, want := range []string{"CREATE TABLE IF NOT EXISTS sch.pre_log", `TO "no de"`, `TO "headwater_reader"`, "COMMIT"} {
		if got.code != exitDone || !strings.Contains(got.out, want) {
			t.Errorf("exit code %d, said %q, printed no %s:\n%s", got.code, got.err, want, got.out)
		}
	}
	if got := run(t, nil, "init", "--db", "sqlite:x.db", "--print-sql"); got.code != exitUsage {
		t.Errorf("for a file: exit code %d", got.code)
	}
}
