package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/server"
)

func viewAt(index uint64) *headwater.View {
	return &headwater.View{State: meta.NewState(), Index: oplog.Index(index)}
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	halted := fmt.Errorf("row 9: %w", meta.ErrHalted)
	for name, tt := range map[string]struct {
		read      string
		wait      func(context.Context, uint64) (*headwater.View, error)
		linearize func(context.Context) (*headwater.View, error)
		status    int
		want      string // the index of the answer, or a part of the error
	}{
		"none":    {`null`, nil, nil, 200, "5"},
		"empty":   {`{}`, nil, nil, 200, "5"},
		"reached": {`{"atLeastIndex": "5", "incarnation": "` + fakeIncarnation + `"}`, nil, nil, 200, "5"},
		"waits": {`{"atLeastIndex": "8"}`, func(_ context.Context, i uint64) (*headwater.View, error) { return viewAt(i + 1), nil },
			nil, 200, "9"},
		"linearizable": {`{"linearizable": true}`, nil, func(context.Context) (*headwater.View, error) { return viewAt(7), nil }, 200, "7"},
		"linearizable and waits": {`{"linearizable": true, "atLeastIndex": "8"}`,
			func(_ context.Context, i uint64) (*headwater.View, error) { return viewAt(i), nil },
			func(context.Context) (*headwater.View, error) { return viewAt(7), nil }, 200, "8"},
		"linearizable and reached": {`{"linearizable": true, "atLeastIndex": "6"}`, nil,
			func(context.Context) (*headwater.View, error) { return viewAt(7), nil }, 200, "7"},
		"other incarnation": {`{"atLeastIndex": "1", "incarnation": "00000000000000ab"}`, nil, nil, 400, "another incarnation"},
		"halts": {`{"atLeastIndex": "8"}`, func(context.Context, uint64) (*headwater.View, error) { return nil, halted },
			nil, 503, "row 9: halted"},
		"not in time": {`{"atLeastIndex": "8"}`, func(ctx context.Context, _ uint64) (*headwater.View, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, nil, 504, "wait for index 8, view at 5"},
		"database away": {`{"linearizable": true}`, nil, func(ctx context.Context) (*headwater.View, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, 504, "look up the newest index"},
	} {
		f := &fake{index: 5, wait: tt.wait, linearize: tt.linearize}
		_, addr := serve(t, f, server.Options{Timeout: 20 * time.Millisecond}) // far below the client's own patience
		code, body := post(t, httpClient(t, false), addr, "Counts", `{"read": `+tt.read+`}`)
		if code != tt.status {
			t.Errorf("%s: status %d, want %d: %s", name, code, tt.status, body)
			continue
		}
		if code == 200 {
			body = field(t, body, "at.index")
		}
		if code == 200 && body != tt.want || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %s, want %s", name, body, tt.want)
		}
	}
}

func TestAgeOfTheView(t *testing.T) {
	t.Parallel()
	f := &fake{index: 5, status: func() headwater.Status {
		return headwater.Status{Condition: headwater.CatchingUp, Behind: 1500 * time.Millisecond}
	}}
	_, addr := serve(t, f, server.Options{})
	_, body := post(t, httpClient(t, false), addr, "Counts", `{}`)
	if got := field(t, body, "at.ageMs"); got != "1500" {
		t.Errorf("age %s in %s", got, body)
	}
	if got := field(t, body, "at.incarnation"); got != fakeIncarnation {
		t.Errorf("incarnation %s", got)
	}
}

// TestAnswersKeepTheirPlaces proposes commands of which some never reach the store.
func TestAnswersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	f := &fake{propose: func(_ context.Context, ps ...meta.Proposal) []meta.Answer {
		var out []meta.Answer
		for i, p := range ps {
			key := p.Command.(meta.PutKey).Key
			switch key {
			case "unknown":
				out = append(out, meta.Answer{Err: fmt.Errorf("cut off: %w", meta.ErrOutcomeUnknown)})
			case "short":
				return out
			default:
				out = append(out, meta.Answer{Status: meta.Applied, Index: 3, FirstIndex: 3, Position: i, FirstPosition: i,
					Result: meta.PutKeyResult{Version: uint64(len(key))}})
			}
		}
		return out
	}}
	_, addr := serve(t, f, server.Options{})
	_, body := post(t, httpClient(t, false), addr, "Propose", `{"commands": [{}, {"putKey": {"key": "a"}}, {"request": {"client": "AQ=="}, "putKey": {"key": "b"}},
		{"putKey": {"key": "unknown"}}, {"putKey": {"key": "ccc"}}, {"putKey": {"key": "short"}}]}`)
	for path, want := range map[string]string{
		"answers.0.status": "REJECTED", "answers.0.code": "INVALID_ARGUMENT", "answers.1.status": "APPLIED",
		"answers.1.result.putKey.version": "1", "answers.2.code": "INVALID_ARGUMENT", "answers.3.status": "FAILED",
		"answers.3.failure.kind": "OUTCOME_UNKNOWN", "answers.3.message": "cut off: outcome unknown",
		"answers.4.result.putKey.version": "3", "answers.4.position": "2", "answers.5.failure.kind": "OUTCOME_UNKNOWN",
	} {
		if got := field(t, body, path); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	_, addr := serve(t, store, server.Options{})
	_, body := post(t, httpClient(t, false), addr, "DryRun", `{"commands": [{}, {"putKey": {"key": "a", "value": "eA=="}}, {"putKey": {"key": "a", "ifAbsent": true}}]}`)
	for path, want := range map[string]string{
		"answers.0.code": "INVALID_ARGUMENT", "answers.1.status": "APPLIED", "answers.2.code": "KEY_EXISTS",
		"changes.0.command": "1", "changes.0.kind": "key", "changes.0.new.key.value": "eA==", "changes.0.old": "<absent>",
		"changes.1": "<absent>",
	} {
		if got := field(t, body, path); got != want {
			t.Errorf("%s = %s, want %s\n%s", path, got, want, body)
		}
	}
	if _, ok := store.View().State.Key("a"); ok || store.View().Index != 0 {
		t.Error("the dry run was wet")
	}
}

func TestReadLogErrors(t *testing.T) {
	t.Parallel()
	f := &fake{readLog: func(_ context.Context, from uint64, limit int, fn func(headwater.LogRow) error) error {
		if err := fn(headwater.LogRow{Index: from, Undecodable: "bad checksum \xff", Proposals: []meta.Proposal{{Command: meta.PutKey{Key: "a"}}}}); err != nil {
			return err
		}
		return errors.Join(fmt.Errorf("limit %d", limit), meta.ErrUnavailable)
	}}
	_, addr := serve(t, f, server.Options{})
	got, err := readLog(t, addr, 7, 3)
	if len(got) != 1 || got[0].Index != 7 || got[0].Undecodable != "bad checksum \ufffd" || len(got[0].Commands) != 1 {
		t.Errorf("rows %v", got)
	}
	if err == nil || !strings.Contains(err.Error(), "read the log from 7: limit 3") {
		t.Errorf("error %v", err)
	}
}
