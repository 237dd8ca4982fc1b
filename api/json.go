package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"connectrpc.com/connect"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The JSON form of messages is that of protobuf: field names in camelCase, 64-bit integers as strings (numbers are taken
// too, exactly), bytes in base64. It is strict where the stock form is not: unknown fields are refused. Fields are
// written also where they are zero, so that an offset of 0 is not missing.

// maxJSONDepth bounds how deep messages may stand in each other; the deepest one that means something has 7 levels.
const maxJSONDepth = 32

var (
	marshal   = protojson.MarshalOptions{EmitDefaultValues: true}
	unmarshal = protojson.UnmarshalOptions{RecursionLimit: maxJSONDepth}
)

// MarshalJSON returns m as JSON in one line without spaces. The same message gives the same bytes in every build.
func MarshalJSON(m proto.Message) ([]byte, error) {
	b, err := marshal.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), plainError(err))
	}
	// protojson puts in spaces at random, one build like this and the next like that.
	out := bytes.NewBuffer(b[:0])
	if err := json.Compact(out, b); err != nil {
		return nil, fmt.Errorf("compact JSON: %w", err)
	}
	return out.Bytes(), nil
}

// UnmarshalJSON reads m from JSON, which must be one whole message. Unknown and repeated fields, numbers that do not fit
// and anything after the message are errors; their texts name the field or the place.
func UnmarshalJSON(b []byte, m proto.Message) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return errors.New("there is no JSON")
	}
	if err := unmarshal.Unmarshal(b, m); err != nil {
		return plainError(err)
	}
	return nil
}

// UnmarshalCommand reads a command from one line of JSON. Every error is an *meta.Error INVALID_ARGUMENT, whether the line is
// no JSON, no Command or stands for no command. Limits are meta.Validate's to judge.
func UnmarshalCommand(line []byte) (meta.Proposal, error) {
	var m pb.Command
	if err := UnmarshalJSON(line, &m); err != nil {
		return meta.Proposal{}, invalid("%s", strings.Replace(err.Error(), "line 1, ", "", 1))
	}
	return ToProposal(&m)
}

// place is how protojson says where: "(line 1:2): " before the text or " (line 1:2)" in it.
var place = regexp.MustCompile(`^\(line (\d+):(\d+)\): |^syntax error \(line (\d+):(\d+)\): `)

// plainError gives an error of protojson a text that is the same in every build, which protojson takes care not to do, and
// that begins with the place.
func plainError(err error) error {
	s := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	s = strings.TrimPrefix(s, "proto: ")
	if m := place.FindStringSubmatch(s); m != nil {
		line, column := m[1]+m[3], m[2]+m[4]
		s = fmt.Sprintf("line %s, column %s: %s", line, column, s[len(m[0]):])
	}
	return errors.New(shown(s))
}

// maxComplaint bounds the text of an error in bytes. It repeats what was sent, which may be megabytes.
const maxComplaint = 256

// shown makes a text fit to be shown: not longer than maxComplaint, and with escapes for what cannot be seen, as a byte
// order mark.
func shown(s string) string {
	var b strings.Builder
	for i, r := range s {
		if b.Len() >= maxComplaint {
			fmt.Fprintf(&b, "… (%d bytes more)", len(s)-i)
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// jsonCodec is the JSON form for Connect, under one of the names by which content types ask for it.
type jsonCodec struct{ name string }

// JSONCodec is the strict JSON form under the name "json", for clients: connect.WithCodec(api.JSONCodec).
var JSONCodec connect.Codec = jsonCodec{"json"}

// JSONCodecs returns an option for handlers that makes them write and read the strict JSON form instead of the stock one,
// which drops unknown fields silently and leaves zero fields out.
func JSONCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(JSONCodec), connect.WithCodec(jsonCodec{"json; charset=utf-8"}))
}

// Name returns the name by which content types ask for the codec.
func (c jsonCodec) Name() string { return c.name }

// Marshal returns a message as JSON.
func (jsonCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", v)
	}
	return MarshalJSON(m)
}

// MarshalStable is Marshal, whose output is stable.
func (c jsonCodec) MarshalStable(v any) ([]byte, error) { return c.Marshal(v) }

// IsBinary says that the output is text.
func (jsonCodec) IsBinary() bool { return false }

// Unmarshal reads a message from JSON.
func (jsonCodec) Unmarshal(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no protobuf message", v)
	}
	return UnmarshalJSON(b, m)
}
