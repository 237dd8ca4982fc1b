package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	pbproto "google.golang.org/protobuf/proto"
)

// deaf is a store that nothing reaches.
type deaf struct{ Store }

func (deaf) Status() headwater.Status { return headwater.Status{} }

// TestLargeMessagesAreDecodedOneAtATime holds the gate as a large message does and sends others, in every form that
// there is: small ones pass, large ones wait.
func TestLargeMessagesAreDecodedOneAtATime(t *testing.T) {
	commands := map[string]func(n int) []byte{ // bodies of n empty commands
		"application/proto":               func(n int) []byte { return bytes.Repeat([]byte{0x0a, 0x00}, n) },
		"application/json":                emptyCommandsJSON,
		"application/json; charset=utf-8": emptyCommandsJSON,
	}
	const many = largeMessage / 2
	for contentType, body := range commands {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			s := newService(deaf{}, Options{}.withDefaults())
			web := webHandler(s, s.methods(), g)
			send := func(n int) <-chan string {
				answer := make(chan string, 1)
				go func() {
					r := httptest.NewRequest(http.MethodPost, "/"+serviceName+"/Propose", bytes.NewReader(body(n)))
					r.Header.Set("Content-Type", contentType)
					w := httptest.NewRecorder()
					web.ServeHTTP(w, r)
					answer <- w.Body.String()
				}()
				synctest.Wait()
				return answer
			}
			g <- struct{}{}
			if a := send(api.MaxCommands + 1); len(a) != 1 {
				t.Errorf("%s: a small message waits for a large one", contentType)
			}
			first, second := send(many), send(many)
			if len(first)+len(second) != 0 {
				t.Errorf("%s: a large message does not wait", contentType)
			}
			<-g
			for _, a := range []<-chan string{first, second} {
				if got := <-a; !strings.Contains(got, "TOO_LARGE") {
					t.Errorf("%s: %.200s", contentType, got)
				}
			}
			if len(g) != 0 {
				t.Errorf("%s: the gate stays shut", contentType)
			}
		})
	}
}

func emptyCommandsJSON(n int) []byte {
	return []byte(`{"commands":[` + strings.Repeat(`{},`, n-1) + `{}]}`)
}

// TestNativeCodecIsGated is the same for the gRPC transport's codec.
func TestNativeCodecIsGated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		c := nativeCodec{encoding.GetCodecV2(proto.Name), g, newService(deaf{}, Options{}.withDefaults())}
		decode := func(n int) <-chan error {
			done := make(chan error, 1)
			go func() {
				b := mem.BufferSlice{mem.SliceBuffer(bytes.Repeat([]byte{0x0a, 0x00}, n))}
				done <- c.Unmarshal(b, new(pb.ProposeRequest))
			}()
			synctest.Wait()
			return done
		}
		g <- struct{}{}
		small, large := decode(1), decode(largeMessage/2)
		if len(small) != 1 || len(large) != 0 {
			t.Errorf("small decoded: %d of 1, large: %d of 0", len(small), len(large))
		}
		<-g
		if err := <-large; err != nil {
			t.Error(err)
		}
	})
}

// TestPanicsInTheCodecAreContained: the gRPC library calls the codec outside of the handler.
func TestPanicsInTheCodecAreContained(t *testing.T) {
	t.Parallel()
	o := Options{Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	c := nativeCodec{gate: newGate(), service: newService(deaf{}, o)} // there is no codec in it
	if err := c.Unmarshal(nil, new(pb.ProposeRequest)); connect.CodeOf(err) != connect.CodeInternal {
		t.Errorf("reading: %v", err)
	}
	if _, err := c.Marshal(new(pb.ProposeResponse)); connect.CodeOf(err) != connect.CodeInternal {
		t.Errorf("writing: %v", err)
	}
}

// TestAnswersStayReadable: a call of many refusals, each with a large value, has an answer that clients read.
func TestAnswersStayReadable(t *testing.T) {
	t.Parallel()
	value := make([]byte, meta.MaxValueBytes)
	answers := make([]meta.Answer, api.MaxCommands)
	for i := range answers {
		answers[i] = meta.Answer{Status: meta.Rejected, Err: &meta.Error{Code: meta.CodeKeyExists, Message: "exists", Inner: -1,
			Current: &meta.Key{Key: "k", Value: value}}}
	}
	kept := answers[0].Err
	bound(answers)
	size := 0
	for i, a := range answers {
		if meta.CodeOf(a.Err) != meta.CodeKeyExists {
			t.Fatalf("answer %d: %v", i, a.Err)
		}
		size += pbproto.Size(api.FromAnswer(a))
	}
	if answers[0].Err != kept || size > 4<<20 { // what gRPC libraries read by default
		t.Errorf("%d bytes, the first %v", size, answers[0].Err)
	}
}

func TestClipKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "short", strings.Repeat("n", 64), strings.Repeat("n", 65), strings.Repeat("n", 63) + "éé",
		strings.Repeat("n", 62) + "🌊🌊", strings.Repeat("é", 1000)} {
		got := clip(s)
		if strings.ToValidUTF8(got, "?") != got || len(got) > 64+len("…") || len(s) <= 64 && got != s {
			t.Errorf("clip(%q) = %q", s, got)
		}
	}
}
