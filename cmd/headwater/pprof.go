package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// profiler serves profiles of this process to this machine.
type profiler struct {
	server *http.Server
	done   chan struct{} // closed when it has ended
}

// listenPprof listens for whoever wants profiles. They tell much of what the process does and holds, and cost it time, so
// only addresses of this machine are taken.
func listenPprof(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !ofThisMachine(host) {
		return nil, usagef("--pprof takes an address of this machine alone, for example 127.0.0.1:6060, not %q", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, unavailable(fmt.Errorf("listen on %s for profiles: %w", address, cause(err)), "--pprof takes another address, and port 0 a free one")
	}
	return l, nil
}

// ofThisMachine reports whether only this machine reaches a host.
func ofThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// servePprof serves profiles until close.
func servePprof(l net.Listener) *profiler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	// No /debug/pprof/cmdline: the password of --db stands there.
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	p := &profiler{done: make(chan struct{}), server: &http.Server{Handler: onlyThisMachine(mux), ReadHeaderTimeout: time.Minute}}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(l) // ends with close
	}()
	return p
}

// onlyThisMachine refuses what a browser on this machine was tricked into asking: its Host names somebody else.
func onlyThisMachine(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !ofThisMachine(host) {
			http.Error(w, "profiles are for this machine", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// close ends at once, profiles under way too.
func (p *profiler) close() error {
	err := p.server.Close()
	<-p.done
	return err
}
