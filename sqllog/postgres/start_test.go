package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// TestStartElsewhere: a node that has been there before starts where its cluster cannot be looked at, or is not: the server is
// away, the database is another, the search path leads to another schema, the role may not read. It says which, with the place
// and without the password, and creates nothing. Field case 15.4.
func TestStartElsewhere(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	admin := session(t, p.DSN("postgres", "postgres"))
	for _, text := range []string{"CREATE ROLE secretive LOGIN PASSWORD 'hunter2'", "GRANT CREATE ON SCHEMA public TO secretive",
		"CREATE DATABASE elsewhere", "CREATE SCHEMA wrong AUTHORIZATION secretive"} {
		mustExec(t, admin, text)
	}
	mustExec(t, session(t, p.DSN("postgres", "elsewhere")), "GRANT CREATE ON SCHEMA public TO secretive")
	o := postgres.Options{DSN: strings.Replace(p.DSN("secretive", "postgres"), "secretive@", "secretive:hunter2@", 1), Prefix: dbtest.Prefix(), MustExist: true}
	first := o
	first.MustExist = false
	mustPut(t, nodes(t, 1, first, headwater.Options{})[0], "joined")

	start := func(name string, o postgres.Options, want error) {
		t.Helper()
		postgres.Apart()
		l, err := postgres.Open(t.Context(), o)
		if err == nil {
			_, err = headwater.Open(t.Context(), l, headwater.Options{})
			_ = l.Close()
		}
		switch {
		case !errors.Is(err, want):
			t.Errorf("%s: %v, want %v", name, err, want)
		case !strings.Contains(err.Error(), p.Addr()) || strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: %v: want it to say where, and no password", name, err)
		}
	}
	elsewhere, path := o, o
	elsewhere.DSN = strings.Replace(o.DSN, "/postgres?", "/elsewhere?", 1)
	start("another database", elsewhere, oplog.ErrNoCluster)
	path.DSN += "&search_path=wrong"
	start("another search path", path, oplog.ErrNoCluster)
	mustExec(t, admin, "CREATE ROLE blind LOGIN PASSWORD 'hunter2'")
	blind := o
	blind.DSN = strings.Replace(o.DSN, "secretive:", "blind:", 1)
	start("a role that may not read", blind, oplog.ErrDenied)
	if n := scan[int](t, admin, "SELECT count(*) FROM pg_tables WHERE tablename LIKE $1 AND schemaname <> 'public'", o.Prefix+"%"); n != 0 {
		t.Errorf("%d tables were created in another schema", n)
	}
	if n := scan[int](t, session(t, p.DSN("postgres", "elsewhere")), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); n != 0 {
		t.Errorf("%d tables were created in another database", n)
	}
	before := scan[int](t, admin, "SELECT count(*) FROM "+o.Prefix+"_log")
	p.Stop(t)
	o.ConnectTimeout, o.StatementTimeout = time.Second, time.Second
	start("a server that is away", o, oplog.ErrUnavailable)
	p.Start(t)
	if n := scan[int](t, session(t, p.DSN("postgres", "postgres")), "SELECT count(*) FROM "+o.Prefix+"_log"); n != before {
		t.Errorf("%d rows are there, %d were", n, before)
	}
	l := openNode(t, o)
	defer l.Close()
	var wrong *meta.Error
	if s, err := headwater.Open(t.Context(), l, headwater.Options{ClusterID: strings.Repeat("ab", 16)}); err == nil || errors.As(err, &wrong) || !strings.Contains(err.Error(), "abab") {
		t.Errorf("a node of another cluster: %v, want that both ids are named", err)
		if err == nil {
			s.Close()
		}
	}
}

// TestStandbyNobody: the synchronous standby that is asked for does not exist. A proposal with a deadline of a second ends there as
// of unknown outcome, none is a success for as long as the setting stands (2 s, or 10 at full size), and the same request
// is redundant when it is gone. Field case 07.3.
func TestStandbyNobody(t *testing.T) {
	t.Parallel()
	p := dbtest.NewPostgres(t)
	s := nodes(t, 1, on(p), headwater.Options{})[0]
	mustPut(t, s, "before")
	p.Configure(t, "synchronous_standby_names = 'nobody'")
	awaitSync(t, p)
	proposal := meta.Proposal{Request: &meta.Request{Client: [16]byte{1}, Sequence: 1, Oldest: 1}, Command: meta.PutKey{Key: "k", Value: []byte("v"), IfAbsent: true}}
	try := func() meta.Answer {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.Propose(ctx, proposal)[0]
	}
	if a := try(); !errors.Is(a.Err, meta.ErrOutcomeUnknown) {
		t.Errorf("at the deadline: %v, %v, want outcome unknown", a.Status, a.Err)
	}
	stands := 2 * time.Second
	if full {
		stands = 10 * time.Second
	}
	for end := time.Now().Add(stands); time.Now().Before(end); {
		if a := try(); a.Err == nil {
			t.Fatalf("a success without a standby: %+v", a)
		}
	}
	p.Configure(t, "synchronous_standby_names = ''")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if a := s.Propose(ctx, proposal)[0]; a.Err != nil {
		t.Errorf("the same request without the setting: %v, %v", a.Status, a.Err)
	}
	rows := 0
	if err := s.ReadLog(t.Context(), 0, 0, func(r headwater.LogRow) error {
		for _, c := range r.Proposals {
			if put, ok := c.Command.(meta.PutKey); ok && put.Key == "k" {
				rows++
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if k, ok := s.View().State.Key("k"); !ok || k.Version == 0 || rows == 0 {
		t.Errorf("the key: %+v, %v, in %d commands", k, ok, rows)
	}
}
