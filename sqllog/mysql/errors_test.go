package mysql_test

import (
	"context"
	"crypto/x509"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// classes are the error numbers by what they mean: error, tried again, connection dropped.
var classes = map[sqllog.Verdict][]uint16{
	{Err: oplog.ErrUnavailable, Retry: true}:             {1213, 1020, 1206, 1412, 1637, 3101, 3572, 8002, 8005, 8022, 8028, 9007},
	{Err: oplog.ErrUnavailable, Retry: true, Drop: true}: {1205, 1615, 1243, 1047, 8027},
	{Err: oplog.ErrConflict}:                             {1062, 1586, 1022},
	{Err: oplog.ErrUnknown, Drop: true}: {1053, 1077, 1079, 1080, 1317, 1927, 1969, 3024, 1180, 1026, 1030, 1105, 3100, 1158, 1159,
		1160, 1161, 1152, 1184, 4031, 8501, 9001, 9002, 9003, 9004, 9005},
	{Err: oplog.ErrUnavailable, Drop: true}: {1040, 1203, 1226, 1129, 1135, 1042, 1043, 1461},
	{Err: oplog.ErrUnavailable}:             {1223, 1037, 1038, 1041, 1192, 8001, 8020},
	{Err: oplog.ErrFull}:                    {1021, 1114},
	{Err: oplog.ErrTooLarge, Drop: true}:    {1153},
	{Err: oplog.ErrTooLarge}:                {1162, 1301, 1406, 1118, 1197, 1705, 8004, 8025, 9500},
	{Err: oplog.ErrReadOnly, Drop: true}:    {1290, 1792, 1836, 1874, 1036},
	{Err: oplog.ErrDenied, Drop: true}:      {1044, 1045, 1130, 1142, 1143, 1227, 1251, 1698, 1820, 1862, 3118, 3159, 4151},
	{Err: oplog.ErrNoCluster, Drop: true}:   {1046, 1049, 1146, 1051},
	{Err: oplog.ErrSchema, Drop: true}:      {1054, 1048, 1136, 1264, 1364, 1366, 4025},
	{Err: oplog.ErrSettings, Drop: true}:    {1665, 1598, 1193, 1231, 1064, 1235, 1286, 8048},
	{Err: oplog.ErrCorrupt, Drop: true}:     {1034, 1035, 1194, 1195, 1712, 1877, 1932, 1812, 1814},
}

// TestVerdicts: every number means what it should, whatever the text says, and no number is in the table untested.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	tested := 0
	for want, numbers := range classes {
		for _, n := range numbers {
			tested++
			err := fmt.Errorf("wrapped: %w", &driver.MySQLError{Number: n, Message: "Zduplikowany wpis"})
			if got := mysql.Classify(err); got != want {
				t.Errorf("%d: %+v, want %+v", n, got, want)
			}
		}
	}
	if tested != len(mysql.Verdicts) {
		t.Errorf("%d numbers are tested, the table has %d", tested, len(mysql.Verdicts))
	}
}

// TestUncertain: what the table does not know is of unknown outcome, and so is a broken connection.
func TestUncertain(t *testing.T) {
	t.Parallel()
	want := sqllog.Verdict{Err: oplog.ErrUnknown, Drop: true}
	for _, err := range []error{&driver.MySQLError{Number: 65000}, driver.ErrInvalidConn, driver.ErrMalformPkt, driver.ErrPktSync,
		sqldriver.ErrBadConn, errors.New("what is this")} {
		if got := mysql.Classify(err); got != want {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
}

// TestWithoutNumber: errors of the driver itself, before anything was sent.
func TestWithoutNumber(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]error{driver.ErrPktTooLarge: oplog.ErrTooLarge, driver.ErrNoTLS: oplog.ErrSettings,
		driver.ErrCleartextPassword: oplog.ErrDenied, driver.ErrOldPassword: oplog.ErrDenied, driver.ErrNativePassword: oplog.ErrDenied} {
		if got := mysql.Classify(err); got.Err != want {
			t.Errorf("%v: %v, want %v", err, got.Err, want)
		}
	}
	if got := mysql.Classify(x509.UnknownAuthorityError{}); got.Err != oplog.ErrSettings {
		t.Errorf("unknown authority: %v, want setting refused", got.Err)
	}
}

// TestConnectionStrings: where connection strings lead, and that those that cannot be read are not repeated.
func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string][2]string{
		"mysql://hw:se%40cr%2Fet@db.example:3307/meta?tls=true":      {"mysql://hw@db.example:3307/meta", "se@cr/et"},
		"mysql://hw:a@b@db/meta":                                     {"mysql://hw@db:3306/meta", "a@b"},
		"mysql://hw@a:1,b,[::1]:3/meta":                              {"mysql://hw@a:1,b:3306,[::1]:3/meta", ""},
		"mysql:///meta":                                              {"mysql://@127.0.0.1:3306/meta", ""},
		"hw:se/cr:et@tcp(db.example:3307)/meta?readTimeout=3s":       {"mysql://hw@db.example:3307/meta", "se/cr:et"},
		"hw:pw@unix(/run/mysqld/mysqld.sock)/meta?charset=utf8mb4":   {"mysql://hw@/run/mysqld/mysqld.sock/meta", "pw"},
		"mysql://hw:pw@db/meta?interpolateParams=true&loc=Local":     {"mysql://hw@db:3306/meta", "pw"},
		"mysql://hw:pw@db/na%2Fme?multiStatements=true&timeout=100s": {"mysql://hw@db:3306/na/me", "pw"},
	} {
		where, password, err := mysql.Address(dsn)
		if err != nil || where != want[0] || password != want[1] {
			t.Errorf("%s: %s, %q, %v; want %v", dsn, where, password, err, want)
		}
	}
	for _, dsn := range []string{"", "mysql://", "mysql://hw:s3cret@db", "mysql://hw:s3cret@db/", "hw:s3cret", "hw:s3cret@db/x",
		"mysql://hw:s3cret%zz@db/meta", "mysql://hw:s3cret@db/meta?tls=nosuch", "mysql://hw:s3cret@db/meta?timeout=s3cret",
		"mysql://hw:s3cret@db/meta?ssl-ca=/no/such/file", "mysql://hw:s3cret@db/meta?ssl-cert=/no/such/file"} {
		_, err := mysql.Open(context.Background(), mysql.Options{DSN: dsn})
		if !errors.Is(err, oplog.ErrSettings) || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%s: %v, want setting refused, and no secret", dsn, err)
		}
	}
}

// TestOptionsRefused: options that cannot be.
func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]mysql.Options{
		"prefix":            {Prefix: "Robert'); --"},
		"poll":              {PollInterval: -1},
		"idle poll":         {PollInterval: 2, IdlePollInterval: 1},
		"connect timeout":   {ConnectTimeout: -1},
		"retry timeout":     {RetryTimeout: -1},
		"statement timeout": {StatementTimeout: -1},
		"connections":       {MaxConnections: 1},
		"small values":      {MaxValueBytes: 64<<10 - 1},
		"large values":      {MaxValueBytes: 8<<20 + 1},
	} {
		o.DSN = "mysql://hw@db/meta"
		if _, err := mysql.Open(t.Context(), o); !errors.Is(err, oplog.ErrSettings) {
			t.Errorf("%s: %v, want setting refused", name, err)
		}
		if _, err := mysql.OpenPool(t.Context(), nil, o); !errors.Is(err, oplog.ErrSettings) {
			t.Errorf("%s on a pool: %v, want setting refused", name, err)
		}
	}
}

// TestNoHostAnswers: what became of each host is told in one line.
func TestNoHostAnswers(t *testing.T) {
	t.Parallel()
	hosts := []string{"127.0.0.1:1", "127.0.0.1:2"} // no program is given these ports by chance
	_, err := mysql.Open(t.Context(), mysql.Options{DSN: "mysql://hw:s3cret@" + strings.Join(hosts, ",") + "/meta"})
	text := fmt.Sprint(err)
	if !errors.Is(err, oplog.ErrUnavailable) || strings.ContainsAny(text, "\n\r") || strings.Contains(text, "s3cret") {
		t.Errorf("%q, want unavailable, in one line and without the secret", text)
	}
	for _, h := range hosts {
		if !strings.Contains(text, h) {
			t.Errorf("%q does not name %s", text, h)
		}
	}
}
