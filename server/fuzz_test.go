package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/headwaterdb/headwater/api"
	_ "github.com/headwaterdb/headwater/api/headwater/v1" // registers the messages
	"github.com/headwaterdb/headwater/internal/gen"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/server"
)

// fuzzServer is a server on a store with something in it, which fails the test when a handler panics.
func fuzzServer(f *testing.F) http.Handler {
	f.Helper()
	store := openStore(f)
	id := meta.Identity{NodeID: 1, NodeEpoch: 1}
	for _, c := range []meta.Command{
		meta.RegisterNode{NodeID: 1, Instance: [16]byte{1}}, meta.CreateStream{Identity: id, Name: "s"},
		meta.OpenStream{Identity: id, StreamID: 1}, meta.PutKey{Key: "k", Value: []byte("v")}, meta.PutKey{Key: "l"},
	} {
		if a := store.Propose(f.Context(), meta.Proposal{Command: c})[0]; a.Err != nil {
			f.Fatal(a.Err)
		}
	}
	s := server.New(store, server.Options{Timeout: 5 * time.Millisecond, Logger: slog.New(panics{f})})
	f.Cleanup(func() { _ = s.Close() })
	return s.Handler()
}

// panics is a logger that fails a test at the first panic.
type panics struct{ tb testing.TB }

func (p panics) Enabled(context.Context, slog.Level) bool { return true }
func (p panics) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p panics) WithGroup(string) slog.Handler            { return p }

func (p panics) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic") {
		r.Attrs(func(a slog.Attr) bool { p.tb.Errorf("%s: %s", a.Key, a.Value); return true })
	}
	return nil
}

// procedure is one method as a caller sees it. What streams for ever is cut off by the deadline of the call.
type procedure struct {
	path    string
	request protoreflect.MessageDescriptor
	stream  bool
}

func fuzzMethods(f *testing.F) (all []procedure) {
	f.Helper()
	for _, service := range []protoreflect.FullName{"headwater.v1.Headwater", "grpc.health.v1.Health"} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(service)
		if err != nil {
			f.Fatal(err)
		}
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			m := methods.Get(i)
			all = append(all, procedure{"/" + string(service) + "/" + string(m.Name()), m.Input(), m.IsStreamingServer()})
		}
	}
	return all
}

// framed is a body as the protocols send it that know streams.
func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// call sends one body to a handler, as a server for HTTP would.
func call(t *testing.T, h http.Handler, path, contentType string, body []byte) *recorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://h:1"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0" // gRPC asks for it
	w := newRecorder()
	h.ServeHTTP(w, r)
	return w
}

// FuzzJSONRequest: whatever is posted to whichever method, the answer is JSON, none is an internal error, and no handler
// panics.
func FuzzJSONRequest(f *testing.F) {
	h := fuzzServer(f)
	methods := fuzzMethods(f)
	for i := range methods {
		f.Add(byte(i), []byte(`{}`))
	}
	r := rand.New(rand.NewPCG(3, 0))
	for _, k := range meta.Kinds() {
		b, err := api.MarshalJSON(api.FromProposal(gen.Proposal(r, k)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(0), []byte(`{"commands":[`+string(b)+`]}`))
		f.Add(byte(1), []byte(`{"commands":[`+string(b)+`]}`))
	}
	for i, body := range []string{
		`{"read":{"atLeastIndex":"99999"}}`, `{"read":{"linearizable":true}}`, `{"read":{"incarnation":"x"}}`,
		`{"page":{"limit":1,"cursor":"AAAA"}}`, `{"page":{"limit":1001}}`, `{"streamId":1,"startOffset":"1","endOffset":"9"}`,
		`{"name":"s"}`, `{"key":"k"}`, `{"fromIndex":"1","limit":3}`, `{"service":"x"}`, `{"state":"PREPARED","expiredAt":"5"}`,
	} {
		for m := range methods {
			if (m+i)%3 == 0 {
				f.Add(byte(m), []byte(body))
			}
		}
	}
	f.Fuzz(func(t *testing.T, method byte, body []byte) {
		m := methods[int(method)%len(methods)]
		name := m.path
		var w *recorder
		if m.stream {
			w = call(t, h, name, "application/connect+json", framed(body))
		} else {
			w = call(t, h, name, "application/json", body)
		}
		if w.code == http.StatusInternalServerError || w.body.Len() == 0 || strings.Contains(w.body.String(), `"code":"internal"`) {
			t.Fatalf("%s %q: status %d, %.300q", name, body, w.code, w.body.String())
		}
		if strings.HasPrefix(w.header.Get("Content-Type"), "application/json") && !json.Valid([]byte(w.body.String())) {
			t.Fatalf("%s %q: status %d, no JSON: %.300q", name, body, w.code, w.body.String())
		}
	})
}

// FuzzProtoRequest: the same for the binary form, by Connect, gRPC and gRPC-Web.
func FuzzProtoRequest(f *testing.F) {
	h := fuzzServer(f)
	methods := fuzzMethods(f)
	for i, p := range methods {
		m, err := protoregistry.GlobalTypes.FindMessageByName(p.request.FullName())
		if err != nil {
			f.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(i), 0))
		for range 2 {
			b, err := proto.Marshal(randomMessage(r, m.New(), 0).Interface())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(byte(i), byte(r.IntN(3)), b)
		}
	}
	f.Fuzz(func(t *testing.T, method, protocol byte, body []byte) {
		m := methods[int(method)%len(methods)]
		name := m.path
		var w *recorder
		switch {
		case protocol%3 == 1:
			w = call(t, h, name, "application/grpc+proto", framed(body))
		case protocol%3 == 2:
			w = call(t, h, name, "application/grpc-web+proto", framed(body))
		case m.stream:
			w = call(t, h, name, "application/connect+proto", framed(body))
		default:
			w = call(t, h, name, "application/proto", body)
		}
		const internal = "13"
		trailer := w.header.Get("Grpc-Status") + w.header.Get(http.TrailerPrefix+"Grpc-Status")
		if w.code == http.StatusInternalServerError || trailer == internal {
			t.Fatalf("%s %x by protocol %d: status %d, %v, %.300q", name, body, protocol%3, w.code, w.header, w.body.String())
		}
	})
}

// randomMessage fills a message at random, so that the fuzzer begins with fields that mean something.
func randomMessage(r *rand.Rand, m protoreflect.Message, depth int) protoreflect.Message {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.IsMap() || r.IntN(2) == 0 {
			continue
		}
		value := func() (v protoreflect.Value, ok bool) {
			switch fd.Kind() {
			case protoreflect.MessageKind:
				if depth > 3 {
					return v, false
				}
				sub := m.NewField(fd)
				if fd.IsList() {
					sub = sub.List().NewElement()
				}
				return protoreflect.ValueOfMessage(randomMessage(r, sub.Message(), depth+1)), true
			case protoreflect.StringKind:
				return protoreflect.ValueOfString([]string{"", "k", "s", "zone"}[r.IntN(4)]), true
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes(make([]byte, r.IntN(18))), true
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true), true
			case protoreflect.EnumKind:
				return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(4))), true
			case protoreflect.Uint64Kind:
				return protoreflect.ValueOfUint64(r.Uint64N(5)), true
			case protoreflect.Int64Kind:
				return protoreflect.ValueOfInt64(r.Int64N(5)), true
			case protoreflect.Uint32Kind:
				return protoreflect.ValueOfUint32(r.Uint32N(5)), true
			case protoreflect.Int32Kind:
				return protoreflect.ValueOfInt32(r.Int32N(5)), true
			}
			return v, false
		}
		v, ok := value()
		switch {
		case !ok:
		case fd.IsList():
			m.Mutable(fd).List().Append(v)
		default:
			m.Set(fd, v)
		}
	}
	return m
}
