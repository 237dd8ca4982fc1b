package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/protobuf/proto"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// FileName is the file of a history in the folder that Save writes.
const FileName = "history.jsonl"

// line is one line of a file: the seed, an operation, or a row.
type line struct {
	Seed *uint64  `json:"seed,omitempty"`
	Op   *opLine  `json:"op,omitempty"`
	Row  *rowLine `json:"row,omitempty"`
}

// opLine is an operation; times are in nanoseconds, a return of -1 is none.
type opLine struct {
	ID      uint64          `json:"id"`
	Session int             `json:"session"`
	Call    int64           `json:"call"`
	Return  int64           `json:"return"`
	Outcome Outcome         `json:"outcome"`
	Error   string          `json:"error,omitempty"`
	Command json.RawMessage `json:"command,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Read    *readLine       `json:"read,omitempty"`
}

type readLine struct {
	Freshness   Freshness         `json:"freshness"`
	AtLeast     uint64            `json:"atLeast,omitempty"`
	Keys        string            `json:"keys,omitempty"`
	Streams     string            `json:"streams,omitempty"`
	Slices      uint64            `json:"slices,omitempty"`
	Nodes       bool              `json:"nodes,omitempty"`
	Status      bool              `json:"status,omitempty"`
	Index       uint64            `json:"index"`
	Incarnation string            `json:"incarnation,omitempty"`
	Got         []json.RawMessage `json:"got,omitempty"`
}

type rowLine struct {
	headwater.LogRow
	Proposals []json.RawMessage // in place of the row's own
}

// Save writes a history and Porcupine's pictures of what is not linearizable to a folder, which it makes.
func Save(dir string, h *History, r *Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save history: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, FileName))
	if err != nil {
		return fmt.Errorf("save history: %w", err)
	}
	if err := errors.Join(Write(f, h), f.Close()); err != nil {
		return err
	}
	for name, p := range r.pictures {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".html")
		if err := porcupine.VisualizePath(p.model, p.info, file); err != nil {
			return fmt.Errorf("save picture of %s: %w", name, err)
		}
	}
	return nil
}

// Write writes a history as JSON lines.
func Write(w io.Writer, h *History) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	errs := []error{enc.Encode(line{Seed: &h.Seed})}
	for i := range h.Ops {
		l, err := fromOp(&h.Ops[i])
		errs = append(errs, err, enc.Encode(line{Op: l}))
	}
	for _, row := range h.Rows {
		l := &rowLine{LogRow: row}
		for _, p := range row.Proposals {
			m, err := api.MarshalJSON(api.FromProposal(p))
			l.Proposals, errs = append(l.Proposals, m), append(errs, err)
		}
		errs = append(errs, enc.Encode(line{Row: l}))
	}
	if err := errors.Join(append(errs, b.Flush())...); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

func fromOp(op *Op) (*opLine, error) {
	l := &opLine{ID: op.ID, Session: op.Session, Call: int64(op.Call), Return: int64(op.Return), Outcome: op.Outcome, Error: op.Error}
	if op.Return == Forever {
		l.Return = -1
	}
	var errs []error
	write := func(m proto.Message) json.RawMessage {
		b, err := api.MarshalJSON(m)
		errs = append(errs, err)
		return b
	}
	if op.Command != nil {
		l.Command = write(api.FromProposal(meta.Proposal{Command: op.Command}))
	}
	if op.Command != nil && op.Outcome == Answered {
		l.Answer = write(api.FromAnswer(op.Answer))
	}
	if r := op.Read; r != nil {
		l.Read = &readLine{Freshness: r.Freshness, AtLeast: r.AtLeast, Keys: r.Keys, Streams: r.Streams, Slices: r.Slices,
			Nodes: r.Nodes, Status: r.Status, Index: r.Index, Incarnation: r.Incarnation}
		for _, rec := range r.Got {
			l.Read.Got = append(l.Read.Got, write(api.FromRecord(rec)))
		}
	}
	return l, errors.Join(errs...)
}

// Load reads the history that Save wrote to a folder.
func Load(dir string) (*History, error) {
	f, err := os.Open(filepath.Join(dir, FileName))
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	defer f.Close()
	return ReadFrom(f)
}

// ReadFrom reads what Write wrote.
func ReadFrom(r io.Reader) (*History, error) {
	h := &History{}
	dec := json.NewDecoder(bufio.NewReader(r))
	for n := 1; ; n++ {
		var l line
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		switch {
		case err != nil:
		case l.Seed != nil:
			h.Seed = *l.Seed
		case l.Op != nil:
			var op Op
			op, err = toOp(l.Op)
			h.Ops = append(h.Ops, op)
		case l.Row != nil:
			row := l.Row.LogRow
			row.Proposals = nil
			for _, b := range l.Row.Proposals {
				p, bad := api.UnmarshalCommand(b)
				row.Proposals, err = append(row.Proposals, p), errors.Join(err, bad)
			}
			h.Rows = append(h.Rows, row)
		default:
			err = errors.New("it is neither a seed, nor an operation, nor a row")
		}
		if err == nil && len(h.Ops) > 0 && h.Ops[len(h.Ops)-1].ID != uint64(len(h.Ops)) {
			err = fmt.Errorf("operation %d is the %dth", h.Ops[len(h.Ops)-1].ID, len(h.Ops))
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d of a history: %w", n, err)
		}
	}
}

func toOp(l *opLine) (Op, error) {
	op := Op{ID: l.ID, Session: l.Session, Call: time.Duration(l.Call), Return: time.Duration(l.Return), Outcome: l.Outcome, Error: l.Error}
	if l.Return < 0 {
		op.Return = Forever
	}
	if l.Command != nil {
		p, err := api.UnmarshalCommand(l.Command)
		if err != nil {
			return op, err
		}
		op.Command = p.Command
	}
	if l.Answer != nil {
		var m pb.Answer
		if err := api.UnmarshalJSON(l.Answer, &m); err != nil {
			return op, err
		}
		op.Answer = api.ToAnswer(&m)
	}
	if (op.Command == nil) == (l.Read == nil) {
		return op, errors.New("an operation is a command or a read")
	}
	if r := l.Read; r != nil {
		op.Read = &Read{Freshness: r.Freshness, AtLeast: r.AtLeast, Keys: r.Keys, Streams: r.Streams, Slices: r.Slices,
			Nodes: r.Nodes, Status: r.Status, Index: r.Index, Incarnation: r.Incarnation}
		for _, b := range r.Got {
			var m pb.Record
			if err := api.UnmarshalJSON(b, &m); err != nil {
				return op, err
			}
			rec, err := api.ToRecord(&m)
			if err != nil {
				return op, err
			}
			op.Read.Got = append(op.Read.Got, rec)
		}
	}
	return op, nil
}
