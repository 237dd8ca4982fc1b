package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/server"
)

const procedures = "/headwater.v1.Headwater/"

// post sends JSON as curl would and returns status and body.
func post(t testing.TB, c *http.Client, addr, method, body string) (int, string) {
	t.Helper()
	r, err := c.Post("http://"+addr+procedures+method, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// field returns what stands at a path in JSON, for example "answers.0.status".
func field(t testing.TB, body, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, step := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(at) {
				return "<absent>"
			}
			v = at[i]
		default:
			return "<absent>"
		}
	}
	if v == nil {
		return "<absent>"
	}
	return fmt.Sprint(v)
}

// TestWrongCallsAreExplained: what no protocol sends is refused with a sentence, not with a bare status.
func TestWrongCallsAreExplained(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{})
	for _, h2 := range []bool{false, true} {
		c := httpClient(t, h2)
		for _, call := range []struct {
			method, contentType string
			status              int
			says                string
		}{
			{"GET", "", 405, "called by POST"},
			{"PUT", "application/json", 405, "called by POST"},
			{"POST", "", 415, "send application/json"},
			{"POST", "application/x-www-form-urlencoded", 415, "send application/json"},
			{"POST", "text/plain; charset=utf-8", 415, `content type "text/plain`},
			{"POST", strings.Repeat("x", 5000), 415, "…"},
			{"POST", "application/json", 200, "READY"},
			{"POST", "Application/JSON; charset=UTF-8", 200, "READY"},
		} {
			r, err := http.NewRequestWithContext(t.Context(), call.method, "http://"+addr+procedures+"Status", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header["Content-Type"] = nil
			if call.contentType != "" {
				r.Header.Set("Content-Type", call.contentType)
			}
			res, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err := errors.Join(err, res.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != call.status || !strings.Contains(string(body), call.says) || len(body) > 1000 {
				t.Errorf("h2 %v, %s %.40s: status %d, %.300q", h2, call.method, call.contentType, res.StatusCode, body)
			}
		}
	}
}

func TestJSONOverHTTP(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{Version: "1.2.3"})
	for _, h2 := range []bool{false, true} {
		c := httpClient(t, h2)
		key := fmt.Sprintf("k%v", h2)
		code, body := post(t, c, addr, "Propose", `{"commands": [{"putKey": {"key": "`+key+`", "value": "d29ybGQ="}}, {"deleteKey": {}},
			{"createStream": {"identity": {"nodeId": 7, "nodeEpoch": "1"}, "name": "x"}}]}`)
		for path, want := range map[string]string{
			"answers.0.status": "APPLIED", "answers.1.status": "REJECTED", "answers.1.code": "INVALID_ARGUMENT",
			"answers.2.status": "REJECTED", "answers.2.code": "NODE_NOT_FOUND", "answers.0.position": "0",
		} {
			if got := field(t, body, path); got != want || code != 200 {
				t.Errorf("h2 %v: status %d, %s = %s, want %s\n%s", h2, code, path, got, want, body)
			}
		}
		if at, index := field(t, body, "at.index"), field(t, body, "answers.0.index"); at != field(t, body, "answers.2.index") || index == "0" {
			t.Errorf("answer of row %s, view of %s", index, at)
		}
		_, body = post(t, c, addr, "GetKey", `{"key": "`+key+`"}`)
		if got := field(t, body, "key.value"); got != "d29ybGQ=" {
			t.Errorf("value %s in %s", got, body)
		}
	}
	_, body := post(t, httpClient(t, false), addr, "Status", `{}`)
	if field(t, body, "condition") != "READY" || field(t, body, "version") != "1.2.3" || field(t, body, "clusterId") == "" ||
		field(t, body, "queued") != "0" {
		t.Errorf("status %s", body)
	}
}

func TestRefusedHTTP(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{})
	c := httpClient(t, false)
	for name, tt := range map[string]struct {
		method, path, contentType, body string
		status                          int
		text                            string
	}{
		"unknown field":       {"POST", procedures + "GetKey", "application/json", `{"key": "a", "kei": 1}`, 400, "kei"},
		"unknown inner field": {"POST", procedures + "Propose", "application/json", `{"commands": [{"putKey": {"key": "a", "valu": ""}}]}`, 400, "valu"},
		"unknown, charset":    {"POST", procedures + "GetKey", "application/json; charset=utf-8", `{"kei": 1}`, 400, "kei"},
		"no JSON":             {"POST", procedures + "GetKey", "application/json", `{`, 400, ""},
		"empty body":          {"POST", procedures + "GetKey", "application/json", ``, 400, ""},
		"two messages":        {"POST", procedures + "GetKey", "application/json", `{}{}`, 400, ""},
		"no commands":         {"POST", procedures + "Propose", "application/json", `{}`, 400, "INVALID_ARGUMENT"},
		"too many commands":   {"POST", procedures + "Propose", "application/json", `{"commands": [{}` + strings.Repeat(`,{}`, 1000) + `]}`, 400, "TOO_LARGE"},
		"too large":           {"POST", procedures + "Propose", "application/json", `{"x": "` + strings.Repeat("a", 9<<20) + `"}`, 429, ""},
		"not found":           {"POST", procedures + "GetStream", "application/json", `{"name": "a"}`, 404, "STREAM_NOT_FOUND"},
		"key not found":       {"POST", procedures + "GetKey", "application/json", `{"key": "a"}`, 404, "KEY_NOT_FOUND"},
		"neither id nor name": {"POST", procedures + "GetStream", "application/json", `{}`, 400, "INVALID_ARGUMENT"},
		"both id and name":    {"POST", procedures + "GetStream", "application/json", `{"streamId": 1, "name": "a"}`, 400, "INVALID_ARGUMENT"},
		"two filters":         {"POST", procedures + "ListStreams", "application/json", `{"owner": 1, "namePrefix": "a"}`, 400, "INVALID_ARGUMENT"},
		"page too large":      {"POST", procedures + "ListKeys", "application/json", `{"page": {"limit": 1001}}`, 400, "TOO_LARGE"},
		"bad cursor":          {"POST", procedures + "ListKeys", "application/json", `{"page": {"cursor": "?"}}`, 400, "INVALID_ARGUMENT"},
		"other incarnation":   {"POST", procedures + "Counts", "application/json", `{"read": {"incarnation": "1"}}`, 400, "incarnation"},
		"expiredAt alone":     {"POST", procedures + "ListObjects", "application/json", `{"expiredAt": 5}`, 400, "PREPARED"},
		"unknown state":       {"POST", procedures + "ListObjects", "application/json", `{"state": 77}`, 400, "state"},
		"unknown method":      {"POST", procedures + "Nope", "application/json", `{}`, 404, ""},
		"unknown path":        {"GET", "/nope", "", ``, 404, ""},
		"GET":                 {"GET", procedures + "Status", "", ``, 405, ""},
		"PUT":                 {"PUT", procedures + "Status", "application/json", `{}`, 405, ""},
		"POST to a page":      {"POST", "/healthz", "application/json", `{}`, 405, ""},
		"form":                {"POST", procedures + "Status", "application/x-www-form-urlencoded", `{}`, 415, ""},
		"no content type":     {"POST", procedures + "Status", "", `{}`, 415, ""},
	} {
		req, err := http.NewRequest(tt.method, "http://"+addr+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if tt.contentType != "" {
			req.Header.Set("Content-Type", tt.contentType)
		}
		r, err := c.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode != tt.status || !strings.Contains(string(b), tt.text) {
			t.Errorf("%s: status %d, want %d with %q in %s", name, r.StatusCode, tt.status, tt.text, b)
		}
	}
}

func TestRefusalDetail(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, openStore(t), server.Options{})
	code, body := post(t, httpClient(t, false), addr, "GetObject", `{"objectId": 9}`)
	if code != 404 || field(t, body, "code") != "not_found" || field(t, body, "details.0.type") != "headwater.v1.Refusal" ||
		field(t, body, "details.0.debug.code") != "OBJECT_NOT_FOUND" {
		t.Errorf("status %d, %s", code, body)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	st := headwater.Status{Condition: headwater.Ready}
	f := &fake{status: func() headwater.Status { return st }}
	s := server.New(f, server.Options{Version: "9.8.7"})
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://h:1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		w := newRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.code, w.body.String()
	}
	for _, tt := range []struct {
		condition      headwater.Condition
		reason         string
		healthz, ready int
	}{
		{headwater.Ready, "", 200, 200},
		{headwater.CatchingUp, "at 5 of 9", 200, 503},
		{headwater.Gap, "row 7 is missing", 503, 503},
		{headwater.Halted, "row 7:\nbad checksum", 503, 503},
		{headwater.Diverged, "digest", 503, 503},
		{headwater.Rewound, "", 503, 503},
		{headwater.Closed, "", 503, 503},
	} {
		st = headwater.Status{Condition: tt.condition, Reason: tt.reason}
		for path, want := range map[string]int{"/healthz": tt.healthz, "/readyz": tt.ready} {
			code, body := get(path)
			if code != want || strings.Count(body, "\n") != 1 {
				t.Errorf("%s, %s: status %d with %q, want %d and one line", tt.condition, path, code, body, want)
			}
			if code == 503 && (!strings.Contains(body, string(tt.condition)) || !strings.Contains(body, strings.ReplaceAll(tt.reason, "\n", " "))) {
				t.Errorf("%s, %s: %q does not say why", tt.condition, path, body)
			}
		}
	}
	st = headwater.Status{Condition: headwater.Halted, Reason: "row 7", ClusterID: "abc"}
	if code, body := get("/"); code != 200 || !strings.Contains(body, "9.8.7") || !strings.Contains(body, "halted: row 7") ||
		!strings.Contains(body, "http://h:1/headwater.v1.Headwater/Status") {
		t.Errorf("front page: status %d\n%s", code, body)
	}
	st = headwater.Status{Condition: headwater.Ready}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if code, body := get("/healthz"); code != 503 || !strings.Contains(body, "closing") {
		t.Errorf("closing: status %d, %q", code, body)
	}
}

func TestPanicIsInternal(t *testing.T) {
	t.Parallel()
	f := &fake{propose: func(context.Context, ...meta.Proposal) []meta.Answer { panic("at the disco") }}
	_, addr := serve(t, f, server.Options{})
	c := httpClient(t, false)
	if code, body := post(t, c, addr, "Propose", `{"commands": [{"putKey": {"key": "a"}}]}`); code != 500 || strings.Contains(body, "disco") {
		t.Errorf("status %d, %s", code, body)
	}
	if code, _ := post(t, c, addr, "Status", `{}`); code != 200 {
		t.Errorf("the next call: status %d", code)
	}
}

type recorder struct {
	code   int
	header http.Header
	body   strings.Builder
}

func newRecorder() *recorder { return &recorder{code: 200, header: http.Header{}} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) Flush()                      {}
