package replica_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// list is the state of the machine that the tests use: every command that was applied, in order, as a linked list that
// versions share, with a memory of where each stands. It is as simple as can be, so that it can be trusted.
type list struct {
	last   *item
	count  uint64
	index  oplog.Index
	digest uint64 // over all commands in order
}

type item struct {
	before  *item
	command string
	index   oplog.Index
	at      int
}

// answer is the result of a command: how many there were with it, and where it stands.
type answer struct {
	Count  uint64
	Index  oplog.Index
	Recall bool
}

// all returns the commands in order.
func (l list) all() []string {
	out := make([]string, l.count)
	for i, n := l.count, l.last; n != nil; n = n.before {
		i--
		out[i] = n.command
	}
	return out
}

func (l list) add(command string, index oplog.Index, at int) list {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], l.digest)
	binary.LittleEndian.PutUint64(b[8:], xxh3.HashString(command))
	binary.LittleEndian.PutUint64(b[16:], uint64(index)<<8|uint64(at))
	return list{&item{l.last, command, index, at}, l.count + 1, index, xxh3.Hash(b[:])}
}

// errPoison is what the machine refuses to decode.
var errPoison = errors.New("poison")

// machine returns the machine. The command "panic" panics in Apply, "poison" is an error, and "skew" is applied as if it
// were another command where skew says so.
func machine(skew func(index oplog.Index) bool) replica.Machine[list, answer] {
	return replica.Machine[list, answer]{
		Apply: func(l list, index oplog.Index, commands [][]byte) (list, []answer, error) {
			out := make([]answer, len(commands))
			for i, c := range commands {
				switch string(c) {
				case "panic":
					panic("as asked")
				case "poison":
					return list{}, nil, errPoison
				}
				word := string(c)
				if skew != nil && skew(index) {
					word += " askew"
				}
				l = l.add(word, index, i)
				out[i] = answer{Count: l.count, Index: index}
			}
			l.index = index
			return l, out, nil
		},
		Digest: func(l list) (d replica.Digest) {
			binary.LittleEndian.PutUint64(d[:], l.digest)
			binary.LittleEndian.PutUint64(d[8:], uint64(l.index))
			return d
		},
		Encode: func(l list, w io.Writer) error {
			var items []*item
			for n := l.last; n != nil; n = n.before {
				items = append(items, n)
			}
			b := binary.AppendUvarint(nil, uint64(l.index))
			b = binary.AppendUvarint(b, l.count)
			for i := len(items) - 1; i >= 0; i-- {
				n := items[i]
				b = binary.AppendUvarint(b, uint64(n.index))
				b = binary.AppendUvarint(b, uint64(n.at))
				b = binary.AppendUvarint(b, uint64(len(n.command)))
				b = append(b, n.command...)
				if len(b) > 4096 {
					if _, err := w.Write(b); err != nil {
						return err
					}
					b = b[:0]
				}
			}
			_, err := w.Write(b)
			return err
		},
		Decode: func(r io.Reader) (l list, err error) {
			b := bufio.NewReader(r)
			num := func() (v uint64) {
				if err == nil {
					v, err = binary.ReadUvarint(b)
				}
				return v
			}
			index, count := num(), num()
			for i := uint64(0); i < count && err == nil; i++ {
				at, pos, size := num(), num(), num()
				if err == nil && size <= 16<<20 {
					word := make([]byte, size)
					if _, err = io.ReadFull(b, word); err == nil {
						l = l.add(string(word), oplog.Index(at), int(pos))
					}
				}
			}
			l.index = oplog.Index(index)
			return l, err
		},
		Recall: func(l list, command []byte) (answer, bool) {
			count := l.count
			for n := l.last; n != nil; n = n.before {
				if n.command == string(command) && n.command != "forgotten" {
					return answer{Count: count, Index: n.index, Recall: true}, true
				}
				count--
			}
			return answer{}, false
		},
	}
}

type node = replica.Replica[list, answer]

// cluster returns a database in memory with a new cluster in it.
func cluster(t testing.TB) *oplog.Memory {
	t.Helper()
	db := oplog.NewMemory()
	log := db.Open()
	defer log.Close()
	if _, err := replica.Init(t.Context(), log); err != nil {
		t.Fatalf("init: %v", err)
	}
	return db
}

// open opens a node on log and closes it at the end of the test, and checks it then.
func open(t testing.TB, log oplog.Log, o replica.Options) *node {
	t.Helper()
	r, err := tryOpen(t, log, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return r
}

func tryOpen(t testing.TB, log oplog.Log, o replica.Options) (*node, error) {
	t.Helper()
	return openWith(t, log, machine(nil), o)
}

func openWith(t testing.TB, log oplog.Log, m replica.Machine[list, answer], o replica.Options) (*node, error) {
	r, err := replica.Open(t.Context(), log, m, o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { finish(t, r, m) })
	return r, nil
}

// finish closes r and checks what must hold of every replica: it is dense, its state is what the machine makes of the
// same commands, and nothing is left waiting.
func finish(t testing.TB, r *node, m replica.Machine[list, answer]) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	st, v := r.Status(), r.View()
	if st.Condition != replica.Closed || st.Queued != 0 || st.InFlight != 0 {
		t.Errorf("after close: %v, %d queued, %d in flight", st.Condition, st.Queued, st.InFlight)
	}
	if st.Applied != v.Index || v.State.index != v.Index || st.Digest != m.Digest(v.State) {
		t.Errorf("status says index %d digest %v, view has index %d, state %d digest %v",
			st.Applied, st.Digest, v.Index, v.State.index, m.Digest(v.State))
	}
	again, last := list{}, oplog.Index(0)
	var items []*item
	for n := v.State.last; n != nil; n = n.before {
		items = append(items, n)
	}
	for i := len(items) - 1; i >= 0; i-- {
		n := items[i]
		if n.index > last+1 || n.index < last {
			t.Errorf("a command at index %d follows one at %d", n.index, last)
		}
		last = n.index
		again = again.add(n.command, n.index, n.at)
	}
	if again.digest != v.State.digest {
		t.Errorf("digest %x, computed again %x", v.State.digest, again.digest)
	}
	select {
	case <-v.Next():
	default:
		t.Errorf("the last view's channel is open after close")
	}
}

// propose proposes one command and returns its result, which must be a success.
func propose(t testing.TB, r *node, command string) replica.Result[answer] {
	t.Helper()
	res := r.Propose(t.Context(), []byte(command))[0]
	if res.Err != nil {
		t.Fatalf("propose %q: %v", command, res.Err)
	}
	return res
}

// await waits until the replica's status is as want says.
func await(t testing.TB, r *node, want func(replica.Status) bool) replica.Status {
	t.Helper()
	for range 100000 {
		if st := r.Status(); want(st) {
			return st
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("still %+v", r.Status())
	return replica.Status{}
}

// wait waits for an index.
func wait(t testing.TB, r *node, index oplog.Index) *replica.View[list] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := r.Wait(ctx, index)
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return v
}

// noCodec is for machines whose tests take no snapshots.
func noCodec[S any]() (func(S, io.Writer) error, func(io.Reader) (S, error)) {
	err := errors.New("this machine has no codec")
	return func(S, io.Writer) error { return err }, func(io.Reader) (s S, _ error) { return s, err }
}
