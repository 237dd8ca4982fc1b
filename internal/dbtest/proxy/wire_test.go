package proxy_test

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest/proxy"
)

// TestAnswersEnd: each answer has one end, and it is its last message.
func TestAnswersEnd(t *testing.T) {
	both(t, func(t *testing.T, s side, db *sql.DB) {
		var mu sync.Mutex
		var seen strings.Builder // c: of the client, s: of the server, e: the end of an answer
		s.proxy.Add(proxy.Rule{From: proxy.Client, Match: func(m proxy.Message) bool {
			mu.Lock()
			defer mu.Unlock()
			if m.Text != "" {
				seen.WriteByte('c')
			}
			return false
		}})
		s.proxy.Add(proxy.Rule{From: proxy.Server, Match: func(m proxy.Message) bool {
			mu.Lock()
			defer mu.Unlock()
			if m.Last {
				seen.WriteByte('e')
			} else {
				seen.WriteByte('s')
			}
			return false
		}})
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range int64(3) {
			if _, err := c.ExecContext(t.Context(), s.insert, i+1, []byte("x"), i); err != nil {
				t.Fatal(err)
			}
			if err := c.QueryRowContext(t.Context(), newest).Scan(new(int64)); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		got := seen.String()
		if !regexp.MustCompile(`^(c+s*e)+$`).MatchString(got) || strings.Count(got, "e") < 6 {
			t.Errorf("messages %s, want answers that end once each", got)
		}
	})
}

// TestUnasked: what a server sends without being asked is no answer to the last statement.
func TestUnasked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	message := func(typ byte, body string) []byte {
		b := binary.BigEndian.AppendUint32([]byte{typ}, uint32(4+len(body)))
		return append(b, body...)
	}
	p := proxy.New(t, proxy.Postgres, l.Addr().String())
	client, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	say := func(from, to net.Conn, b []byte) {
		t.Helper()
		from.Write(b)
		got := make([]byte, len(b))
		if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%q arrived as %q, %v", b, got, err)
		}
	}
	say(client, server, []byte{0, 0, 0, 8, 0, 3, 0, 0})
	say(client, server, message('Q', "insert into x\x00"))
	say(server, client, message('Z', "I"))
	p.Add(proxy.LoseAnswer("insert"))
	say(server, client, message('A', "a notification"))
	say(client, server, message('Q', "INSERT  into y\x00"))
	server.Write(message('C', "INSERT 0 1\x00"))
	server.Write(message('Z', "I"))
	if b, err := io.ReadAll(client); err == nil || len(b) > 0 {
		t.Errorf("%q arrived, %v, want a reset", b, err)
	}
}

// TestRaw: bytes pass unchanged in both directions, one direction can be muted, and what was sent before an end arrives.
func TestRaw(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan []byte, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			c.Write(b)
			c.Close()
			if len(b) > 0 { // otherwise it is somebody who looks for whoever had the port before
				heard <- b
			}
		}
	}()
	for _, protocol := range []proxy.Protocol{proxy.Raw, proxy.Postgres, proxy.MySQL} { // also nonsense, half messages
		p := proxy.New(t, protocol, l.Addr().String())
		for _, mute := range []bool{false, true} {
			sent := []byte(strings.Repeat("\x00\x00\x01\x02 no protocol at all ", 10_000))
			if mute {
				p.Add(proxy.Rule{From: proxy.Server, Mute: true})
			}
			c, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			c.Write(sent)
			c.(*net.TCPConn).CloseWrite()
			got, err := io.ReadAll(c)
			c.Close()
			if err != nil || mute && len(got) > 0 || !mute && !bytes.Equal(got, sent) {
				t.Errorf("protocol %d, muted %v: %d bytes came back, %v", protocol, mute, len(got), err)
			}
			select {
			case b := <-heard:
				if !bytes.Equal(b, sent) {
					t.Errorf("protocol %d: the server got %d bytes", protocol, len(b))
				}
			case <-time.After(time.Minute):
				t.Fatalf("protocol %d: the server got nothing", protocol)
			}
		}
	}
}

// TestEncrypted: after a request for TLS that is granted, everything passes unseen.
func TestEncrypted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			first := make([]byte, 8)
			io.ReadFull(c, first)
			c.Write([]byte("S"))
			io.Copy(c, c)
			c.Close()
		}
	}()
	request := []byte{0, 0, 0, 8, 4, 210, 22, 47}
	p := proxy.New(t, proxy.Postgres, l.Addr().String())
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write(request)
	answer := make([]byte, 1)
	if _, err := io.ReadFull(c, answer); err != nil || answer[0] != 'S' {
		t.Fatalf("answer %q, %v", answer, err)
	}
	p.Add(proxy.Rule{From: proxy.Client, Text: "select", Drop: true, Times: -1})
	hidden := []byte("Q\xff\xff\xff\xffselect\x00") // as a message it would never be complete
	c.Write(hidden)
	got := make([]byte, len(hidden))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, hidden) {
		t.Errorf("%q came back, %v", got, err)
	}
}
