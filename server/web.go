package server

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/headwaterdb/headwater"
)

// webHandler serves the methods by Connect, gRPC and gRPC-Web over net/http, and the pages for people and probes.
func webHandler(s *service, methods []method, g gate) http.Handler {
	mux := http.NewServeMux()
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxRequestBytes), connect.WithCompressMinBytes(1 << 10),
		g.codecs()}
	for _, m := range methods {
		mux.Handle(m.path(), explained(timedBody(m.web(options...))))
	}
	reflector := grpcreflect.NewStaticReflector(serviceName, healthName)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { probe(w, s.serving()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { probe(w, s.ready()) })
	mux.HandleFunc("GET /{$}", s.frontPage)
	return mux
}

// probe answers 200 or 503 with one line that says why.
func probe(w http.ResponseWriter, why error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if why == nil {
		_, _ = io.WriteString(w, "ok\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintln(w, oneLine(why.Error()))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// frontPage says to whoever opens the address by hand what this is and what to try.
func (s *service) frontPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	st := s.store.Status()
	condition := string(st.Condition)
	if st.Condition != headwater.Ready && st.Reason != "" {
		condition += ": " + oneLine(st.Reason)
	}
	_, _ = fmt.Fprintf(w, frontText, s.o.Version, st.ClusterID, st.AppliedIndex, condition, r.Host)
}

const frontText = `Headwater %[1]s: cluster metadata for stream storage.

cluster %[2]s, applied index %[3]d, %[4]s

The service is headwater.v1.Headwater: gRPC, gRPC-Web and plain JSON over HTTP, all on this port. Try

  curl -s -H 'Content-Type: application/json' -d '{}' http://%[5]s/headwater.v1.Headwater/Status
  curl -s -H 'Content-Type: application/json' -d '{"commands": [{"putKey": {"key": "greeting", "value": "aGVsbG8="}}]}' http://%[5]s/headwater.v1.Headwater/Propose
  curl -s -H 'Content-Type: application/json' -d '{"key": "greeting"}' http://%[5]s/headwater.v1.Headwater/GetKey
  headwater status --server http://%[5]s

Probes: /healthz (the node serves), /readyz (and is up to date), grpc.health.v1.Health. Reflection is on.
`

// explained tells who calls a method in a way that no protocol does what is needed. Connect answers them with a bare
// status, and curl without a content type is the first thing that people try.
func explained(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, fmt.Sprintf("method %q: methods are called by POST", clip(r.Method)), http.StatusMethodNotAllowed)
		case !spoken(r.Header.Get("Content-Type")):
			w.Header().Set("Accept-Post", "application/json, application/proto, application/grpc, application/grpc-web")
			http.Error(w, fmt.Sprintf("content type %q: send application/json, with curl by -H 'Content-Type: application/json'; "+
				"gRPC, gRPC-Web and Connect are spoken too", clip(r.Header.Get("Content-Type"))), http.StatusUnsupportedMediaType)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// contentTypes are how the content types of all protocols begin. Which of those it takes is Connect's to say.
var contentTypes = []string{"application/json", "application/proto", "application/connect+", "application/grpc"}

func spoken(contentType string) bool {
	return slices.ContainsFunc(contentTypes, func(begin string) bool {
		return len(contentType) >= len(begin) && strings.EqualFold(contentType[:len(begin)], begin)
	})
}

// timedBody bounds how long a client may take to send a request's body, but not how long the answer may take: net/http
// lifts the bound itself once the body has ended. Where there is none it never would, and would take the bound for the
// end of the client.
func timedBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not supported: a listener of somebody else
		}
		next.ServeHTTP(w, r)
	})
}
