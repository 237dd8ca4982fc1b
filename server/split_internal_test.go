package server

// Inside the package: which of the two servers gets a connection cannot be told from outside, since both answer.

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// hello is what an HTTP/2 client sends first: preface, SETTINGS, WINDOW_UPDATE, and a request with these fields.
func hello(fields ...string) []byte {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&b, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	_ = f.WriteWindowUpdate(0, 1<<20)
	if len(fields) > 0 {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(fields...), EndHeaders: true})
	}
	return b.Bytes()
}

func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

func headers(p http2.HeadersFrameParam) []byte {
	var b bytes.Buffer
	p.StreamID = 1
	_ = http2.NewFramer(&b, nil).WriteHeaders(p)
	return append(hello(), b.Bytes()...)
}

// split starts a splitter and returns its address.
func split(t *testing.T) (*splitter, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSplitter(l, 10*time.Second, 10*time.Second)
	done := make(chan error, 1)
	go func() { done <- s.serve() }()
	t.Cleanup(func() {
		s.close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// accept returns the next connection of either server, and whether it is the native one.
func accept(t *testing.T, s *splitter) (net.Conn, bool) {
	t.Helper()
	select {
	case c := <-s.native.conns:
		t.Cleanup(func() { _ = c.Close() })
		return c, true
	case c := <-s.web.conns:
		t.Cleanup(func() { _ = c.Close() })
		return c, false
	case <-t.Context().Done():
		t.Fatal("no connection")
		return nil, false
	}
}

func connectTo(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestWhoGetsAConnection(t *testing.T) {
	t.Parallel()
	const grpcGo = "grpc-go/1.85.0"
	padded := http2.HeadersFrameParam{BlockFragment: block("content-type", "application/grpc", "user-agent", grpcGo),
		EndHeaders: true, PadLength: 7, Priority: http2.PriorityParam{StreamDep: 3, Weight: 9}}
	unfinished := http2.HeadersFrameParam{BlockFragment: block("content-type", "application/grpc", "user-agent", grpcGo)}
	for name, tt := range map[string]struct {
		sent   []byte
		native bool
	}{
		"HTTP/1":            {[]byte("POST / HTTP/1.1\r\nContent-Type: application/grpc\r\n"), false},
		"PRI of HTTP/1":     {[]byte("PRIX * HTTP/1.1\r\n\r\n0123456789012345"), false},
		"noise":             {[]byte{0x16, 3, 1, 0, 0}, false},
		"grpc-go":           {hello("content-type", "application/grpc", "user-agent", grpcGo, "te", "trailers"), true},
		"with a codec":      {hello("user-agent", "grpc-java-netty/1.60", "content-type", "application/grpc+proto"), true},
		"tonic":             {hello("user-agent", "tonic/0.12", "content-type", "application/grpc"), true},
		"padded, priority":  {headers(padded), true},
		"connect-go":        {hello("content-type", "application/grpc", "user-agent", "grpc-go-connect/1.21.1 (go1.26)"), false},
		"gRPC-Web":          {hello("content-type", "application/grpc-web+proto", "user-agent", grpcGo), false},
		"JSON":              {hello("content-type", "application/json", "user-agent", grpcGo), false},
		"a browser":         {hello(":method", "GET", "user-agent", "Mozilla/5.0"), false},
		"no agent":          {hello("content-type", "application/grpc"), false},
		"via":               {hello("content-type", "application/grpc", "user-agent", grpcGo, "via", "2 proxy"), false},
		"forwarded":         {hello("content-type", "application/grpc", "user-agent", grpcGo, "forwarded", "for=a"), false},
		"x-forwarded-for":   {hello("x-forwarded-for", "a", "content-type", "application/grpc", "user-agent", grpcGo), false},
		"envoy":             {hello("content-type", "application/grpc", "user-agent", grpcGo, "x-envoy-internal", "true"), false},
		"continued headers": {headers(unfinished), false},
		"bad header block":  {headers(http2.HeadersFrameParam{BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true}), false},
		"huge frame":        {append(hello(), 1, 0, 0, 1, 4, 0, 0, 0, 1), false},
		"only frames":       {append(hello(), bytes.Repeat([]byte{0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 6000)...), false},
	} {
		s, addr := split(t)
		c := connectTo(t, addr)
		go func() { _, _ = c.Write(tt.sent) }()
		got, native := accept(t, s)
		if native != tt.native {
			t.Errorf("%s: native is %v", name, native)
		}
		b := make([]byte, len(tt.sent))
		if _, err := io.ReadFull(got, b); err != nil || !bytes.Equal(b, tt.sent) {
			t.Errorf("%s: the server behind reads %q (%v), want what was sent, %q", name, b, err, tt.sent)
		}
	}
}

// TestIdleBeforeTheFirstRequest plays a client that connects, waits for SETTINGS, pings, and calls only then.
func TestIdleBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{true, false} {
		s, addr := split(t)
		c := connectTo(t, addr)
		if _, err := c.Write(hello()); err != nil {
			t.Fatal(err)
		}
		f := http2.NewFramer(c, c)
		settings, err := f.ReadFrame()
		if sf, ok := settings.(*http2.SettingsFrame); err != nil || !ok || sf.IsAck() {
			t.Fatalf("first frame %v, %v: want SETTINGS", settings, err)
		}
		if err := f.WriteSettingsAck(); err != nil {
			t.Fatal(err)
		}
		for i := range byte(3) {
			if err := f.WritePing(false, [8]byte{i}); err != nil {
				t.Fatal(err)
			}
			pong, err := f.ReadFrame()
			if p, ok := pong.(*http2.PingFrame); err != nil || !ok || !p.IsAck() || p.Data[0] != i {
				t.Fatalf("ping %d was answered by %v, %v", i, pong, err)
			}
		}
		agent := "curl/8"
		if native {
			agent = "grpc-go/1"
		}
		request := hello("content-type", "application/grpc", "user-agent", agent)
		if _, err := c.Write(request[len(hello()):]); err != nil {
			t.Fatal(err)
		}
		got, toNative := accept(t, s)
		if toNative != native {
			t.Errorf("native is %v, want %v", toNative, native)
		}
		b := make([]byte, len(request))
		if _, err := io.ReadFull(got, b); err != nil || !bytes.Equal(b, request) {
			t.Errorf("the server behind reads %q (%v), want neither pings nor the acknowledgement", b, err)
		}
	}
}

// TestAcklessLeavesOneAckOut reads a connection in pieces of every size.
func TestAcklessLeavesOneAckOut(t *testing.T) {
	t.Parallel()
	var in bytes.Buffer
	in.Write(hello(":method", "GET"))
	f := http2.NewFramer(&in, nil)
	_ = f.WriteData(1, true, []byte("before"))
	want := bytes.Clone(in.Bytes())
	_ = f.WriteSettingsAck()
	rest := in.Len()
	_ = f.WriteSettingsAck() // of the server's own SETTINGS
	_ = f.WritePing(true, [8]byte{1})
	want = append(want, in.Bytes()[rest:]...)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(in.Bytes()), "halves": iotest.HalfReader(bytes.NewReader(in.Bytes())),
		"bytes": iotest.OneByteReader(bytes.NewReader(in.Bytes())), "data with EOF": iotest.DataErrReader(bytes.NewReader(in.Bytes())),
	} {
		for _, size := range []int{1, 2, 5, 9, 24, 4096} {
			a := &ackless{Conn: readConn{r: r}, pass: len(preface)}
			if name != "whole" && size != 5 {
				continue
			}
			if name == "whole" {
				a.Conn = readConn{r: bytes.NewReader(in.Bytes())}
			}
			var got []byte
			for b := make([]byte, size); ; {
				n, err := a.Read(b)
				got = append(got, b[:n]...)
				if err != nil {
					break
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s, reads of %d: got %q, want %q", name, size, got, want)
			}
		}
	}
}

type readConn struct {
	net.Conn
	r io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func TestCloseLetsGoOfTheUndecided(t *testing.T) {
	t.Parallel()
	s, addr := split(t)
	silent, greeted, waiting := connectTo(t, addr), connectTo(t, addr), connectTo(t, addr)
	for c, b := range map[net.Conn][]byte{greeted: hello(), waiting: []byte("GET / HTTP/1.1\r\n\r\n")} {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(greeted, make([]byte, frameHead)); err != nil {
		t.Fatalf("SETTINGS: %v", err)
	}
	s.close()
	for name, c := range map[string]net.Conn{"silent": silent, "greeted": greeted, "waiting": waiting} {
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: read %d bytes of a closed splitter", name, n)
		}
	}
	if _, err := s.native.Accept(); err == nil {
		t.Error("accept after close")
	}
}

func TestTimeBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSplitter(l, time.Millisecond, time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- s.serve() }()
	for _, b := range []string{"", http2.ClientPreface} {
		c := connectTo(t, l.Addr().String())
		if _, err := c.Write([]byte(b)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Logf("cut off: %v", err) // by a reset, where something was unread
		}
	}
	s.close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
