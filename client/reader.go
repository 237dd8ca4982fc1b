package client

import (
	"context"
	"errors"
	"time"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
	"google.golang.org/protobuf/proto"
)

// Read says how fresh a view must be that answers queries. The zero Read is the default: at least as new as everything
// that the client has seen.
type Read struct {
	// Local takes whatever view the server has.
	Local bool
	// AtLeast waits for this index; Incarnation, where not empty, is the one that it belongs to. They may come from
	// another client, or another process.
	AtLeast     uint64
	Incarnation string
	// Linearizable waits for everything that was answered to anybody before the call.
	Linearizable bool
}

// At says which view answered a query.
type At struct {
	Index       uint64
	Incarnation string        // 16 hexadecimal digits; an index of another means nothing
	Age         time.Duration // since the view was last known to hold the newest row
}

// Reader answers queries, all of them equally fresh. It may be copied, and used by many goroutines at once.
//
// Every method fails with an *meta.Error where the state has a reason, for example NODE_NOT_FOUND, otherwise with an
// error that wraps an operational sentinel of package meta, the context's error, or that of the transport. The records
// are the caller's.
type Reader struct {
	c *Client
	r Read
}

// Reading returns a Reader of the given freshness.
func (c *Client) Reading(r Read) Reader { return Reader{c: c, r: r} }

// message returns the Read to send, and the incarnation if it is the client's memory that is asked for.
func (r Reader) message() (m *pb.Read, remembered string) {
	m = &pb.Read{AtLeastIndex: r.r.AtLeast, Incarnation: r.r.Incarnation, Linearizable: r.r.Linearizable}
	if r.r.AtLeast > 0 || r.r.Local || r.c.o.LocalReads {
		return m, ""
	}
	if seen := r.c.Seen(); seen.Index > 0 {
		m.AtLeastIndex, m.Incarnation = seen.Index, seen.Incarnation
		return m, seen.Incarnation
	}
	return m, ""
}

// answered is a response that says which view it is from.
type answered interface {
	proto.Message
	GetAt() *pb.At
}

// query calls a method for the Reader; set puts the Read into the request.
func query[Res answered](ctx context.Context, r Reader, method string, req proto.Message, set func(*pb.Read), res Res) (At, error) {
	m, remembered := r.message()
	set(m)
	if _, err := r.c.call(ctx, method, req, res); err != nil {
		// The servers have gone on to another history. That is told once; then the client begins anew.
		if remembered != "" && errors.Is(err, meta.ErrIncarnation) {
			r.c.forget(remembered)
		}
		return At{}, err
	}
	at := atOf(res.GetAt())
	r.c.see(at.Index, at.Incarnation)
	return at, nil
}

func atOf(m *pb.At) At {
	return At{Index: m.GetIndex(), Incarnation: m.GetIncarnation(), Age: time.Duration(m.GetAgeMs()) * time.Millisecond}
}

// Page is one page of a list. It may hold fewer items than asked for, even none, and yet not be the last.
type Page[T any] struct {
	Items []T
	Next  string // the cursor of the next page; empty: this was the last
	At    At
}

func page(cursor string, limit int) *pb.Page {
	return &pb.Page{Cursor: cursor, Limit: uint32(min(max(limit, 0), 1<<30))}
}

func pageOf[T, M any](items []M, translate func(M) T, next string, at At, err error) (Page[T], error) {
	if err != nil {
		return Page[T]{}, err
	}
	return Page[T]{Items: api.Each(items, translate), Next: next, At: at}, nil
}

// All goes through the pages of a list from its begin; list is called with one cursor after another. Pages may come
// from views of different indexes.
//
//	err := client.All(func(cursor string) (client.Page[meta.Stream], error) {
//		return c.Streams(ctx, cursor, 1000)
//	}, func(s meta.Stream) error { … })
func All[T any](list func(cursor string) (Page[T], error), fn func(T) error) error {
	for cursor := ""; ; {
		p, err := list(cursor)
		if err != nil {
			return err
		}
		for _, item := range p.Items {
			if err := fn(item); err != nil {
				return err
			}
		}
		if p.Next == "" {
			return nil
		}
		cursor = p.Next
	}
}
