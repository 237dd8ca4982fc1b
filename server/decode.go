package server

import (
	"fmt"

	"connectrpc.com/connect"
	"github.com/headwaterdb/headwater/api"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// largeMessage is from how many bytes on messages are decoded one at a time.
//
// Decoded, a message can take fifty times its size: two bytes make an empty command, and compressed, eight kilobytes
// make four million of them. What is too much is refused as soon as it is decoded, so it is enough that few are decoded
// at once. Smaller messages, which are nearly all, do not wait; large ones lose nothing, as one core decodes more
// commands than a log takes.
const largeMessage = 256 << 10

// gate lets one large message at a time be decoded.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// decode calls fn, which decodes a message of size bytes.
func (g gate) decode(size int, fn func() error) error {
	if size >= largeMessage {
		g <- struct{}{}
		defer func() { <-g }() // also where fn panics
	}
	return fn()
}

// codecs returns an option for Connect handlers: the strict JSON form and the binary one, behind the gate.
func (g gate) codecs() connect.HandlerOption {
	json := api.JSONCodec.(stableCodec)
	return connect.WithHandlerOptions(
		connect.WithCodec(gatedCodec{binaryCodec{}, "proto", g}),
		connect.WithCodec(gatedCodec{json, "json", g}),
		connect.WithCodec(gatedCodec{json, "json; charset=utf-8", g}))
}

// gatedCodec is a codec of Connect behind the gate.
type gatedCodec struct {
	stableCodec
	name string
	gate gate
}

// Name is connect.Codec's: the name by which content types ask for it.
func (c gatedCodec) Name() string { return c.name }

// stableCodec is what Connect asks of codecs, the optional part included.
type stableCodec interface {
	connect.Codec
	MarshalStable(any) ([]byte, error)
	IsBinary() bool
}

// Unmarshal is connect.Codec's.
func (c gatedCodec) Unmarshal(b []byte, v any) error {
	return c.gate.decode(len(b), func() error { return c.stableCodec.Unmarshal(b, v) })
}

// MarshalAppend saves Connect a copy.
func (c gatedCodec) MarshalAppend(dst []byte, v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok && c.IsBinary() {
		return proto.MarshalOptions{}.MarshalAppend(dst, m)
	}
	b, err := c.Marshal(v)
	return append(dst, b...), err
}

// binaryCodec is Connect's own binary codec, which it does not give away.
type binaryCodec struct{}

func (binaryCodec) Name() string   { return "proto" }
func (binaryCodec) IsBinary() bool { return true }

func (binaryCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", v)
	}
	return proto.Marshal(m)
}

func (binaryCodec) MarshalStable(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", v)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func (binaryCodec) Unmarshal(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", v)
	}
	return proto.Unmarshal(b, m)
}

// nativeCodec is the gRPC library's codec behind the gate. The library does not contain a panic in it.
type nativeCodec struct {
	encoding.CodecV2
	gate    gate
	service *service
}

// Unmarshal is encoding.CodecV2's.
func (c nativeCodec) Unmarshal(b mem.BufferSlice, v any) (err error) {
	defer c.service.recovered("reading a request", &err)
	return c.gate.decode(b.Len(), func() error { return c.CodecV2.Unmarshal(b, v) })
}

// Marshal is encoding.CodecV2's.
func (c nativeCodec) Marshal(v any) (b mem.BufferSlice, err error) {
	defer c.service.recovered("writing an answer", &err)
	return c.CodecV2.Marshal(v)
}
