// Inside the package, because the classifier is no part of its face.
package postgres

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headwaterdb/headwater/oplog"
)

// TestClassify has a row for each code that the table names, and for some that it does not. The message of the errors is
// no language: numbers alone decide.
func TestClassify(t *testing.T) {
	type want struct {
		err         error
		retry, drop bool
	}
	var (
		again   = want{oplog.ErrUnavailable, true, false}
		afresh  = want{oplog.ErrUnavailable, true, true}
		busy    = want{oplog.ErrUnavailable, false, false}
		away    = want{oplog.ErrUnavailable, false, true}
		unknown = want{oplog.ErrUnknown, false, true}
		schema  = want{oplog.ErrSchema, false, true}
		large   = want{oplog.ErrTooLarge, false, false}
		refused = want{oplog.ErrSettings, false, true}
		absent  = want{oplog.ErrNoCluster, false, true}
		denied  = want{oplog.ErrDenied, false, true}
		damaged = want{oplog.ErrCorrupt, false, true}
	)
	rows := map[string]want{
		"40001": again, "40P01": again, "55P03": again,
		"40003": unknown, "40000": unknown, "40002": unknown,
		"23505": {oplog.ErrConflict, false, false},
		"08000": unknown, "08001": unknown, "08003": unknown, "08004": unknown, "08006": unknown, "08007": unknown, "08P01": unknown,
		"57P01": unknown, "57P02": unknown, "57P04": unknown, "57P05": unknown, "57014": unknown, "57000": unknown, "25P03": unknown,
		"57P03": away, "53300": away, "25P02": afresh, "26000": afresh, "42P05": afresh, "3B001": afresh,
		"53100": {oplog.ErrFull, false, false}, "53200": busy, "53400": busy, "53000": busy,
		"22001": large, "54000": large, "54001": large, "54023": large,
		"25006": {oplog.ErrReadOnly, false, true},
		"42501": denied, "28000": denied, "28P01": denied,
		"3D000": absent, "3F000": absent, "42P01": absent,
		"42601": schema, "42703": schema, "42804": schema, "42883": schema, "42P07": schema, "23502": schema, "23503": schema,
		"23514": schema, "0A000": schema, "P0001": schema,
		"22023": refused, "55P02": refused, "F0000": refused,
		"58030": unknown, "58P01": unknown, "XX000": unknown, "XX001": damaged, "XX002": damaged,
		"55000": unknown, "55006": unknown, "22003": unknown, "99999": unknown, "": unknown, "X": unknown,
	}
	for code, want := range rows {
		v := classify(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Severity: "BŁĄD", Message: "zduplikowany klucz"}))
		if !errors.Is(v.Err, want.err) || v.Retry != want.retry || v.Drop != want.drop {
			t.Errorf("code %s: %v, retry %v, drop %v; want %v, %v, %v", code, v.Err, v.Retry, v.Drop, want.err, want.retry, want.drop)
		}
	}
	for code := range verdicts {
		if _, ok := rows[code]; !ok && len(code) == 5 {
			t.Errorf("code %s stands in the table but not in this test", code)
		}
		if _, ok := rows[code+"000"]; !ok && len(code) == 2 && code != "23" && code != "42" {
			if _, ok := rows[code+"001"]; !ok {
				t.Errorf("class %s stands in the table but none of it in this test", code)
			}
		}
	}
	for _, err := range []error{errors.New("duplicate key value violates unique constraint"), io.EOF, io.ErrUnexpectedEOF} {
		if v := classify(err); v.Err != oplog.ErrUnknown || !v.Drop {
			t.Errorf("%v: %v, want unknown, on a connection that is not used again", err, v.Err)
		}
	}
	if v := classify(unsentError{}); v.Err != oplog.ErrUnavailable || !v.Retry || !v.Drop {
		t.Errorf("an error from before anything was sent: %+v", v)
	}
}

// unsentError is an error of the driver that vouches that nothing was sent.
type unsentError struct{}

func (unsentError) Error() string     { return "unsent" }
func (unsentError) SafeToRetry() bool { return true }
