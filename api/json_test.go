package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/api/headwater/v1/headwaterv1connect"
	"github.com/headwaterdb/headwater/meta"
)

func TestJSONShowsZerosAndExactNumbers(t *testing.T) {
	t.Parallel()
	m := api.FromAnswer(meta.Answer{Status: meta.Applied, Index: 1<<53 + 1, FirstIndex: 1<<53 + 1,
		Result: meta.OpenStreamResult{Epoch: 1}})
	got, err := api.MarshalJSON(m)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"status":"APPLIED","index":"9007199254740993","position":0,"firstIndex":"9007199254740993",` +
		`"firstPosition":0,"result":{"openStream":{"epoch":"1","startOffset":"0","endOffset":"0"}},"code":"","message":""}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnmarshalCommandTakes(t *testing.T) {
	t.Parallel()
	put := func(version uint64) meta.Command { return meta.PutKey{Key: "k", IfVersion: version} }
	for line, want := range map[string]meta.Command{
		`{"putKey":{"key":"k","ifVersion":7}}`:                               put(7),
		`{"putKey":{"key":"k","ifVersion":"7"}}`:                             put(7),
		`{"putKey":{"key":"k","ifVersion":9007199254740993}}`:                put(1<<53 + 1),
		`{"putKey":{"key":"k","ifVersion":18446744073709551615}}`:            put(1<<64 - 1),
		`{"putKey":{"key":"k","ifVersion":1e3}}`:                             put(1000),
		`{"putKey":{"key":"k","if_version":7}}`:                              put(7), // the name in the .proto file
		"  {\"putKey\" : {\"key\" : \"k\", \"ifVersion\":null } }\r\n":       put(0),
		`{"putKey":{"key":"k\u0000\ud83c\udf0a"}}`:                           meta.PutKey{Key: "k\x00\U0001f30a"},
		`{"putKey":{"key":"k","value":"-_8"}}`:                               meta.PutKey{Key: "k", Value: []byte{0xfb, 0xff}}, // base64url, unpadded
		`{"labelStream":{"streamId":1,"labels":{"b":"2","a":"1"}}}`:          meta.LabelStream{StreamID: 1, Labels: []meta.Label{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}},
		`{"reclaimObjects":{"time":-5,"limit":1}}`:                           meta.ReclaimObjects{Time: -5, Limit: 1},
		`{"fenceNode":{"nodeId":1,"epoch":2,"rescuer":{}}}`:                  meta.FenceNode{NodeID: 1, Epoch: 2},
		`{"atomic":{"commands":[{"checkKey":{"key":"k","ifAbsent":true}}]}}`: meta.Atomic{Commands: []meta.Command{meta.CheckKey{Key: "k", IfAbsent: true}}},
	} {
		p, err := api.UnmarshalCommand([]byte(line))
		if d := cmp.Diff(want, p.Command); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", line, err, d)
		}
	}
}

func TestUnmarshalCommandRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"atomic":{"commands":[`, 5000) + strings.Repeat(`]}}`, 5000)
	for line, want := range map[string]string{
		``:                                      `there is no JSON`,
		"   \n":                                 `there is no JSON`,
		`{}`:                                    `command is missing`,
		`null`:                                  `unexpected token null`,
		`[]`:                                    `unexpected token [`,
		`{"putKey":null}`:                       `command is missing`,
		`{"putKey":{"key":"k"}`:                 `unexpected`,
		`{"putKey":{"key":"k"}} {}`:             `unexpected token {`,
		`{"putKey":{"key":"k"},}`:               `unexpected token }`,
		`{"putKeys":{}}`:                        `column 2: unknown field "putKeys"`,
		`{"putKey":{"key":"k","colour":1}}`:     `unknown field "colour"`,
		`{"putKey":{"key":"a","key":"b"}}`:      `duplicate field "key"`,
		`{"putKey":{"key":"a"},"setFormat":{}}`: `oneof`,
		`{"labelStream":{"labels":{"a":"1","a":"2"}}}`:                             `duplicate map key "a"`,
		`{"putKey":{"key":7}}`:                                                     `invalid value for string field key: 7`,
		`{"putKey":{"key":"k","ifVersion":-1}}`:                                    `invalid value for uint64 field ifVersion: -1`,
		`{"putKey":{"key":"k","ifVersion":1.5}}`:                                   `field ifVersion: 1.5`,
		`{"putKey":{"key":"k","ifVersion":18446744073709551616}}`:                  `field ifVersion: 18446744073709551616`,
		`{"putKey":{"key":"k","value":"%%"}}`:                                      `field value: "%%"`,
		`{"putKey":{"key":"k","ifAbsent":"yes"}}`:                                  `field ifAbsent: "yes"`,
		`{"putKey":{"key":"` + "\xff" + `"}}`:                                      `invalid UTF-8`,
		`{"registerNode":{"instance":"AQI="}}`:                                     `instance has 2 bytes, must have 16`,
		`{"request":{"client":"AQI="},"putKey":{"key":"k"}}`:                       `request.client has 2 bytes, must have 16`,
		`{"atomic":{"commands":[{"putKey":{"key":"a"}},{"stamp":5,"putKey":{}}]}}`: `stamp may not stand inside atomic`,
		`{"atomic":{"commands":[{"atomic":{}}]}}`:                                  `atomic may not stand inside atomic`,
		deep: `max recursion depth`,
	} {
		_, err := api.UnmarshalCommand([]byte(line))
		if meta.CodeOf(err) != meta.CodeInvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want INVALID_ARGUMENT with %q", line, err, want)
		}
		if err != nil && (strings.ContainsRune(err.Error(), '\u00a0') || strings.Contains(err.Error(), "proto:")) {
			t.Errorf("%.80s: the text is protojson's own: %q", line, err)
		}
	}
}

// TestErrorsOfJSONAreFitToBeShown sends megabytes, and what cannot be seen, in every place that a complaint repeats.
func TestErrorsOfJSONAreFitToBeShown(t *testing.T) {
	t.Parallel()
	for _, long := range []string{strings.Repeat("x", 1<<20), strings.Repeat("9", 1<<20), strings.Repeat("é", 1<<19), strings.Repeat(`\u0001`, 1<<17)} {
		for _, line := range []string{
			`{"putKey":{"key":"k","ifVersion":"` + long + `"}}`, `{"putKey":{"key":"k","ifVersion":` + long + `}}`,
			`{"putKey":{"key":"k","` + long + `":1}}`, `{"` + long + `":1}`, `"` + long + `"`, long,
			`{"putKey":{"key":"k","value":"%` + long + `"}}`, `{"labelStream":{"labels":{"` + long + `":"1","` + long + `":"2"}}}`,
		} {
			_, err := api.UnmarshalCommand([]byte(line))
			if meta.CodeOf(err) != meta.CodeInvalidArgument || len(err.Error()) > 400 {
				t.Errorf("%.60s…: a complaint of %d bytes: %.80v", line, len(err.Error()), err)
			}
		}
	}
	for line, want := range map[string]string{
		"\ufeff{}": `invalid value \ufeff`, "\x00": `invalid value \x00`, "{\"a\u200bb\":1}": `unknown field "a\u200bb"`,
	} {
		if _, err := api.UnmarshalCommand([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s in it", line, err, want)
		}
	}
}

func TestErrorNamesTheLineInLongerJSON(t *testing.T) {
	t.Parallel()
	err := api.UnmarshalJSON([]byte("{\n \"commands\": [\n  {\"colour\": 1}]}"), new(pb.ProposeRequest))
	if want := `line 3, column 4: unknown field "colour"`; err == nil || err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// TestTour applies the sample, a row for each line, and finds all that is expected in the JSON of the answers.
func TestTour(t *testing.T) {
	t.Parallel()
	state := meta.NewState()
	commands := lines(t, "../testdata/tour/tour.jsonl")
	answers := lines(t, "../testdata/tour/tour.expected.jsonl")
	if len(commands) != len(answers) || len(commands) == 0 {
		t.Fatalf("%d commands, %d answers", len(commands), len(answers))
	}
	for i, line := range commands {
		p, err := api.UnmarshalCommand(line)
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
			continue
		}
		again, err := api.MarshalJSON(api.FromProposal(p))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := api.UnmarshalCommand(again); err != nil || !cmp.Equal(p, got) {
			t.Errorf("line %d came back otherwise: %v\n%s\n%s", i+1, err, line, again)
		}
		row, err := meta.AppendProposal(nil, p)
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
			continue
		}
		next, given, err := state.Apply(state.Index()+1, [][]byte{row})
		if err != nil {
			t.Fatal(err)
		}
		state = next
		got, err := api.MarshalJSON(api.FromAnswer(given[0]))
		if err != nil {
			t.Fatal(err)
		}
		var want, have any
		if err := errors.Join(json.Unmarshal(answers[i], &want), json.Unmarshal(got, &have)); err != nil {
			t.Fatal(err)
		}
		if !contains(have, want) {
			t.Errorf("line %d: %s\nanswered %s\nwant     %s", i+1, line, got, answers[i])
		}
	}
}

// contains reports whether all of want is in have.
func contains(have, want any) bool {
	fields, ok := want.(map[string]any)
	if !ok {
		return cmp.Equal(have, want)
	}
	object, _ := have.(map[string]any)
	for name, v := range fields {
		if got, there := object[name]; !there || !contains(got, v) {
			return false
		}
	}
	return true
}

func lines(t *testing.T, name string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		out = append(out, bytes.Clone(s.Bytes()))
	}
	return out
}

// proposing answers every command with the same answer.
type proposing struct {
	headwaterv1connect.UnimplementedHeadwaterHandler
	got chan *pb.ProposeRequest
}

func (p proposing) Propose(_ context.Context, r *connect.Request[pb.ProposeRequest]) (*connect.Response[pb.ProposeResponse], error) {
	p.got <- r.Msg
	return connect.NewResponse(&pb.ProposeResponse{Answers: []*pb.Answer{api.FromAnswer(meta.Answer{Status: meta.Applied})}}), nil
}

func TestCodecOverHTTP(t *testing.T) {
	t.Parallel()
	got := make(chan *pb.ProposeRequest, 1)
	mux := http.NewServeMux()
	mux.Handle(headwaterv1connect.NewHeadwaterHandler(proposing{got: got}, api.JSONCodecs()))
	server := httptest.NewServer(mux)
	defer server.Close()
	post := func(contentType, body string) (int, string) {
		t.Helper()
		resp, err := http.Post(server.URL+headwaterv1connect.HeadwaterProposeProcedure, contentType, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
		status, body := post(contentType, `{"commands":[{"putKey":{"key":"k"}}]}`)
		if status != http.StatusOK || !strings.Contains(body, `"index":"0"`) {
			t.Errorf("%s: %d %s", contentType, status, body)
		}
		if n := len(arrived(got).GetCommands()); n != 1 {
			t.Errorf("%s: %d commands arrived", contentType, n)
		}
		status, body = post(contentType, `{"commands":[{"putKey":{"key":"k","ifVersoin":3}}]}`)
		var e struct{ Code, Message string }
		if err := json.Unmarshal([]byte(body), &e); err != nil || status != http.StatusBadRequest ||
			e.Code != "invalid_argument" || !strings.Contains(e.Message, `unknown field "ifVersoin"`) {
			t.Errorf("%s with a field misspelt: %d %s", contentType, status, body)
		}
	}
	client := headwaterv1connect.NewHeadwaterClient(server.Client(), server.URL, connect.WithCodec(api.JSONCodec))
	request := &pb.ProposeRequest{Commands: []*pb.Command{api.FromProposal(meta.Proposal{Command: meta.DeleteKey{Key: "k"}})}}
	resp, err := client.Propose(t.Context(), connect.NewRequest(request))
	if err != nil || api.ToAnswer(resp.Msg.Answers[0]).Status != meta.Applied {
		t.Errorf("%v, %v", resp, err)
	}
	if n := len(arrived(got).GetCommands()); n != 1 {
		t.Errorf("%d commands of the client arrived", n)
	}
}

// arrived returns what the handler was called with, nil where it was not: it sends before the caller has an answer.
func arrived(got chan *pb.ProposeRequest) *pb.ProposeRequest {
	select {
	case r := <-got:
		return r
	default:
		return nil
	}
}
