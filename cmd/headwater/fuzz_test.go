package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/session"
)

// FuzzApplyInput: whatever a file holds, each of its lines that is not blank is a command with a request that nothing else
// in the file has, or a refusal that names the line; reading the file again gives the same.
func FuzzApplyInput(f *testing.F) {
	tour, err := os.ReadFile("../../testdata/tour/tour.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(tour, []byte("\n"))
	for i := 0; i+3 < len(lines); i += 3 {
		f.Add(bytes.Join(lines[i:i+3], nil))
	}
	f.Add([]byte("\n\r\n{}\n\xff\n" + put))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, again := fuzzLines(t, b), fuzzLines(t, b)
		requests := map[meta.Request]int{}
		number, own := 0, 0
		for raw := range bytes.Lines(b) {
			number++
			if len(bytes.TrimSpace(raw)) == 0 {
				continue
			}
			if len(first) == 0 {
				t.Fatalf("line %d was left out: %q", number, raw)
			}
			l, l2 := first[0], again[0]
			first, again = first[1:], again[1:]
			if l.number != number || (l.refused == nil) == (l.proposal.Command == nil) {
				t.Fatalf("line %d: %+v", number, l)
			}
			if l.refused != nil {
				if s := l.refused.Error(); !strings.Contains(s, "line ") || !utf8.ValidString(s) || len(s) > 800 {
					t.Fatalf("line %d: %q", number, s)
				}
				continue
			}
			r := l.proposal.Request
			if r == nil && session.Numbered(l.proposal) || r != nil && *r != *l2.proposal.Request {
				t.Fatalf("line %d: request %+v, and when it is read again %+v", number, r, l2.proposal.Request)
			}
			if r != nil && r.Oldest == 1 && r.Sequence == uint64((number-1)%blockLines)+1 {
				requests[*r]++
				own++
			}
		}
		if len(first) > 0 {
			t.Fatalf("%d lines too many", len(first))
		}
		if len(requests) < own && !bytes.Contains(b, []byte("request")) {
			t.Fatalf("%d lines share %d requests", own, len(requests))
		}
	})
}

func fuzzLines(t *testing.T, b []byte) (out []inputLine) {
	t.Helper()
	in := newLineReader(bytes.NewReader(b), [32]byte{7})
	for {
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
}

// Two words that stand in a password, and so may stand in nothing that is shown.
const secretHead, secretTail = "Qx7headSecret", "tailSecretZ9w"

// FuzzDatabaseAddress: nothing of a password, whatever its characters, is in any complaint about --db, nor in the text
// that is printed for an administrator. The fuzzer chooses what stands before it, within it and after it.
func FuzzDatabaseAddress(f *testing.F) {
	for _, scheme := range []string{"postgres", "mysql", "sqlite", "oracle"} {
		f.Add(scheme, "://u:", "", "@h:1/d?headwater_prefix=p")
		f.Add(scheme, "://u:", "/", "@h:1/d")
		f.Add(scheme, "://u:", "@", "@h/d?headwater_notify=perhaps")
	}
	f.Add("postgres", ":user=u password='", "' host=", "' host=h dbname=d")
	f.Add("postgres", "://u@h/d?password=", "&headwater_x=", "")
	f.Add("mysql", ":u:", ")(", "@tcp(h:1)/d?tls=perhaps")
	f.Fuzz(func(t *testing.T, scheme, before, within, after string) {
		db := scheme + before + secretHead + within + secretTail + after
		kind, address, err := backendOf(db)
		hidden(t, db, err)
		if err != nil || kind.scheme == "sqlite" { // a file's name is no secret, and is not touched here
			return
		}
		text, err := printSQL(db, "node", "reader")
		hidden(t, db, err)
		if strings.Contains(text, secretHead) || strings.Contains(text, secretTail) {
			t.Fatalf("%q is printed:\n%s", db, text)
		}
		switch kind.scheme {
		case "mysql":
			_, err = mysqlOptions(address)
		default:
			_, err = postgresOptions(address)
		}
		hidden(t, db, err)
	})
}

// hidden checks that an error holds nothing of the password in db.
func hidden(t *testing.T, db string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if s := err.Error(); strings.Contains(s, secretHead) || strings.Contains(s, secretTail) {
		t.Fatalf("%q: the complaint tells the password: %s", db, s)
	}
}
