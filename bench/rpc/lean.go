package main

import (
	"encoding/binary"
	"io"
	"net/http"

	"google.golang.org/protobuf/proto"

	pb "github.com/headwaterdb/headwater/api/headwater/v1"
)

// leanPropose is the least that a unary gRPC handler on net/http can do: what net/http alone costs.
func leanPropose(w http.ResponseWriter, r *http.Request) {
	var head [5]byte
	if _, err := io.ReadFull(r.Body, head[:]); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := new(pb.ProposeRequest)
	if err := proto.Unmarshal(body, m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 5, 128), echo(m))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	binary.BigEndian.PutUint32(out[1:], uint32(len(out)-5))
	h := w.Header()
	h["Content-Type"] = []string{"application/grpc"}
	_, _ = w.Write(out)
	h[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
}
