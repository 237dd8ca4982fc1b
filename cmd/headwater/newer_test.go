package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
	"github.com/headwaterdb/headwater/sqllog/sqlite"
)

// newerDatabase is a cluster whose format level was raised by a program from this one's future.
func newerDatabase(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "newer.db")
	log, err := sqlite.Open(ctx, sqlite.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := headwater.Init(ctx, log); err != nil {
		t.Fatal(err)
	}
	future, err := replica.Open(ctx, log, replica.Machine[*meta.State, meta.Answer]{
		Empty: meta.NewState(),
		Apply: func(s *meta.State, index oplog.Index, commands [][]byte) (*meta.State, []meta.Answer, error) {
			return s.Apply(uint64(index), commands)
		},
		Digest: func(s *meta.State) replica.Digest { return s.Digest() },
		Encode: (*meta.State).Encode, Decode: meta.Decode, Recall: (*meta.State).Recall,
	}, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer future.Close()
	for _, c := range []meta.Command{
		meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}, FormatLevel: meta.MaxFormat + 1},
		meta.SetFormat{Level: meta.MaxFormat + 1},
	} {
		b, err := meta.AppendProposal(nil, meta.Proposal{Stamp: 1, Command: c})
		if err != nil {
			t.Fatal(err)
		}
		if r := future.Propose(ctx, b)[0]; r.Err != nil || r.Value.Err != nil {
			t.Fatal(r.Err, r.Value.Err)
		}
	}
	return "sqlite:" + file
}

// TestNewerFormat: a program that was missed in an upgrade halts, says what to do, and goes on to answer reads.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	db := newerDatabase(t)
	got := run(t, nil, "status", "--db", db)
	if got.code != exitUnavailable || !strings.Contains(got.err, "must be upgraded") || !strings.Contains(got.out, "reason index    2") {
		t.Errorf("status: exit code %d, said %q\n%s", got.code, got.err, got.out)
	}
	if got := run(t, nil, "node", "list", "--db", db, "-o", "json"); got.code != exitDone || !strings.Contains(got.out, `"id":"1"`) {
		t.Errorf("node list: exit code %d, wrote %q", got.code, got.out)
	}
	if got := run(t, nil, "key", "put", "a", "b", "--db", db); got.code != exitUnavailable || !strings.Contains(got.err, "halted") {
		t.Errorf("key put: exit code %d, said %q", got.code, got.err)
	}
	if got := run(t, nil, "check", "--db", db); got.code != exitRefused || !strings.Contains(got.out, "must be upgraded") {
		t.Errorf("check: exit code %d, wrote %q", got.code, got.out)
	}
}
