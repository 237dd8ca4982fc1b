package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// LogRow is a decoded row of the log, with the fields of headwater.LogRow.
type LogRow struct {
	Index         uint64
	Incarnation   string
	Writer        string // the process that wrote it, hexadecimal
	Batch         uint64
	WriterApplied uint64 // what the writer had applied, and the digest of that state
	WriterDigest  string
	Bytes         int
	Proposals     []meta.Proposal
	ClusterID     string // set for row 0
	Undecodable   string // why the row cannot be decoded, where it cannot
}

// ReadLog gives the rows from an index on (0: the oldest one there is) to fn, up to the newest one at the time of the
// call and at most limit of them (0: all). An error of fn ends it and is returned. When a server fails on the way, it
// goes on with the next.
func (c *Client) ReadLog(ctx context.Context, from uint64, limit int, fn func(LogRow) error) error {
	left := uint64(max(limit, 0))
	var own error
	for r := (round{c: c, ctx: ctx}); ; {
		e := c.endpoint()
		a := receive(ctx, c, e, "ReadLog", &pb.ReadLogRequest{FromIndex: from, Limit: left}, func(m *pb.ReadLogResponse) error {
			row, err := toRow(m.GetRow())
			if err == nil {
				err = fn(row)
			}
			if err != nil {
				own = err
				return err
			}
			r.pause, r.halted = 0, 0 // there is progress
			if from = row.Index + 1; limit > 0 {
				left--
			}
			return nil
		})
		switch {
		case own != nil:
			return own
		case a.err == nil || limit > 0 && left == 0:
			return nil
		case !r.next(e, a):
			return ended(ctx.Err(), a.err)
		}
	}
}

// Export gives every record of one view to fn, in a fixed order that begins with the meta.ClusterRecord. An error of fn
// ends it and is returned. It is not resumed: another server's view is another one.
func (r Reader) Export(ctx context.Context, fn func(meta.Record) error) error {
	m, _ := r.message()
	var own error
	begun := false
	for round := (round{c: r.c, ctx: ctx}); ; {
		e := r.c.endpoint()
		a := receive(ctx, r.c, e, "Export", &pb.ExportRequest{Read: m}, func(m *pb.ExportResponse) error {
			begun = true
			rec, err := api.ToRecord(m.GetRecord())
			if err == nil {
				err = fn(rec)
			}
			own = err
			return err
		})
		switch {
		case own != nil:
			return own
		case a.err == nil:
			return nil
		case begun:
			return fmt.Errorf("export was cut off: %w", ended(ctx.Err(), a.err))
		case !round.next(e, a):
			return ended(ctx.Err(), a.err)
		}
	}
}

// receive calls a method that sends a stream, once, and gives each message to fn.
func receive[Res any, M interface {
	*Res
	proto.Message
}](ctx context.Context, c *Client, e *endpoint, name string, req proto.Message, fn func(M) error) attempt {
	if c.closed() {
		return attempt{err: fmt.Errorf("call %s: %w", name, meta.ErrClosed)}
	}
	sctx, cancel := context.WithCancel(ctx) // lets go of the stream where fn ends it
	defer cancel()
	s, err := e.conn.NewStream(sctx, &grpc.StreamDesc{StreamName: name, ServerStreams: true}, servicePath+name)
	if err == nil {
		if err = s.SendMsg(req); err == io.EOF { // the reason comes with the answer
			err = nil
		}
	}
	if err == nil {
		err = s.CloseSend()
	}
	for err == nil {
		m := M(new(Res))
		if err = s.RecvMsg(m); err != nil {
			break
		}
		if err = fn(m); err != nil {
			return attempt{err: err}
		}
	}
	if errors.Is(err, io.EOF) {
		return attempt{}
	}
	return c.judge(ctx.Err(), err)
}

func toRow(m *pb.Row) (LogRow, error) {
	r := LogRow{Index: m.GetIndex(), Incarnation: m.GetIncarnation(), Writer: m.GetWriter(),
		Batch: m.GetBatch(), WriterApplied: m.GetWriterApplied(), WriterDigest: m.GetWriterDigest(), Bytes: int(m.GetBytes()),
		ClusterID: m.GetClusterId(), Undecodable: m.GetUndecodable()}
	for i, c := range m.GetCommands() {
		p, err := api.ToProposal(c)
		if err != nil {
			return LogRow{}, fmt.Errorf("row %d, command %d: %w", m.GetIndex(), i, err)
		}
		r.Proposals = append(r.Proposals, p)
	}
	return r, nil
}
