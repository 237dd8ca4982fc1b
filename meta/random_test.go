package meta_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headwaterdb/headwater/meta"
)

// absurd makes decodable commands without any sense: every field is drawn by itself, from values at which code breaks
// and from small ones, so that some commands do meet something.
type absurd struct {
	rng   *rand.Rand
	small bool // only small numbers: most commands meet something
}

var everyCommand = []meta.Command{
	meta.RegisterNode{}, meta.RenewNode{}, meta.UnregisterNode{}, meta.FenceNode{}, meta.CreateStream{}, meta.OpenStream{},
	meta.CloseStream{}, meta.TrimStream{}, meta.LabelStream{}, meta.DeleteStream{}, meta.RecordTransfer{}, meta.ForceCloseStream{},
	meta.PrepareObjects{}, meta.CommitObjects{}, meta.CompactObjects{}, meta.ReclaimObjects{}, meta.ForgetObjects{},
	meta.PutKey{}, meta.DeleteKey{}, meta.CheckKey{}, meta.Atomic{}, meta.SetFormat{},
}

// proposal draws a proposal that has an encoding.
func (a absurd) proposal() (meta.Proposal, []byte) {
	for {
		p := meta.Proposal{Command: a.command(), Stamp: int64(a.number())}
		needs := p.Command != nil
		switch p.Command.(type) {
		case meta.PrepareObjects, meta.Atomic:
		case meta.RenewNode:
			needs = a.rng.IntN(20) == 0
		default:
			needs = a.rng.IntN(3) == 0
		}
		if needs {
			p.Request = &meta.Request{Sequence: uint64(a.rng.IntN(300)), Oldest: uint64(a.rng.IntN(20))}
			p.Request.Client[3] = byte(a.rng.IntN(4))
		}
		if b, err := meta.AppendProposal(nil, p); err == nil {
			return p, b
		}
	}
}

func (a absurd) command() meta.Command {
	v := reflect.New(reflect.TypeOf(everyCommand[a.rng.IntN(len(everyCommand))])).Elem()
	a.fill(v)
	return v.Interface().(meta.Command)
}

// fill draws every field of v.
func (a absurd) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			a.fill(v.Field(i))
		}
	case reflect.Uint64:
		v.SetUint(a.number())
	case reflect.Int64:
		v.SetInt(int64(a.number()))
	case reflect.Bool:
		v.SetBool(a.rng.IntN(2) == 0)
	case reflect.String:
		v.SetString(a.text())
	case reflect.Array:
		v.Index(0).SetUint(uint64(a.rng.IntN(4)))
		if a.rng.IntN(2) == 0 { // a new process start, else a node id that used all others never comes back
			v.Index(1).SetUint(uint64(a.rng.IntN(256)))
			v.Index(2).SetUint(uint64(a.rng.IntN(256)))
		}
	case reflect.Interface:
		if c := a.command(); reflect.TypeOf(c) != reflect.TypeFor[meta.Atomic]() {
			v.Set(reflect.ValueOf(c))
		} else {
			v.Set(reflect.ValueOf(meta.CheckKey{Key: "k", IfAbsent: true}))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(a.text()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), a.rng.IntN(4), 4))
		for i := range v.Len() {
			a.fill(v.Index(i))
		}
	default:
		panic("a command has a field of a kind that the test does not fill: " + v.Kind().String())
	}
}

func (a absurd) number() uint64 {
	if !a.small && a.rng.IntN(3) == 0 {
		edges := []uint64{0, 1, 2, 255, 256, 1000, 1001, 1 << 32, 1<<55 - 1, 1 << 55, 1<<62 + 1, 1<<63 - 2, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 2, 1<<64 - 1}
		return edges[a.rng.IntN(len(edges))]
	}
	return uint64(a.rng.IntN(6))
}

func (a absurd) text() string {
	texts := []string{"a", "b", "c", "a", "b", "orders-0", ""}
	if !a.small {
		texts = append(texts, "\x00", "\u0085", "\xff\xfe", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("y", 1025))
	}
	return texts[a.rng.IntN(len(texts))]
}

// mixed draws rows of commands that make sense, by churn, and of those that do not.
func mixed(t testing.TB, seed uint64, rows int) [][][]byte {
	c := newChurn(t, seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	for i := range rows {
		if i%3 > 0 {
			c.run(1)
			continue
		}
		var row [][]byte
		for range 1 + rng.IntN(4) {
			_, b := absurd{rng: rng, small: rng.IntN(2) == 0}.proposal()
			row = append(row, b)
		}
		c.apply(row)
	}
	return c.rows
}

// TestAbsurdCommands is field case 09.3: whatever decodes is answered, what is refused changes nothing but index and
// request memory, and two nodes agree.
func TestAbsurdCommands(t *testing.T) {
	t.Parallel()
	const seed, commands = 1, 30_000
	rng := rand.New(rand.NewPCG(seed, 0))
	s := meta.NewState()
	ended := map[string]int{}
	for i := range commands {
		p, b := absurd{rng: rng, small: i%4 > 0}.proposal()
		before, digest := meta.RuleDigest(s), s.Digest()
		next, answers, err := s.Apply(s.Index()+1, [][]byte{b})
		if err != nil {
			t.Fatalf("seed %d, command %d, %+v: %v", seed, i, p.Command, err)
		}
		a := answers[0]
		checkRefusal(t, a)
		if same := meta.RuleDigest(next) == before; !same && a.Status != meta.Applied {
			t.Fatalf("seed %d, command %d, %+v ends as %s and changes the state", seed, i, p.Command, ending(a))
		}
		other, _, _ := s.Apply(s.Index()+1, [][]byte{b})
		if s.Digest() != digest || other.Digest() != next.Digest() {
			t.Fatalf("seed %d, command %d, %+v: applied twice to one state it differs, or changes that state", seed, i, p.Command)
		}
		ended[fmt.Sprintf("%T %s", p.Command, ending(a))]++
		s = next
		if i%1000 == 0 || i == commands-1 {
			if err := s.Verify(); err != nil {
				t.Fatalf("seed %d, after command %d: %v", seed, i, err)
			}
		}
	}
	for _, c := range everyCommand {
		n := 0
		for how, times := range ended {
			if strings.HasPrefix(how, fmt.Sprintf("%T ", c)) && !strings.HasSuffix(how, "INVALID_ARGUMENT") && !strings.HasSuffix(how, "TOO_LARGE") {
				n += times
			}
		}
		if n == 0 {
			t.Errorf("no %T got past the limits", c)
		}
	}
}

// TestApplyKeepsNothingOfItsRow: neither state nor answers nor changes share memory with the commands, which are overwritten
// as soon as they were applied.
func TestApplyKeepsNothingOfItsRow(t *testing.T) {
	t.Parallel()
	s, want := meta.NewState(), meta.NewState()
	for i, row := range mixed(t, 7, 900) {
		next, answers, changes, err := want.ApplyWithChanges(uint64(i+1), row)
		if err != nil {
			t.Fatal(err)
		}
		borrowed := make([][]byte, len(row))
		for k := range row {
			borrowed[k] = bytes.Clone(row[k])
		}
		got, gotAnswers, gotChanges, err := s.ApplyWithChanges(uint64(i+1), borrowed)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range borrowed {
			for k := range b {
				b[k] = 0xff
			}
		}
		if d := cmp.Diff(answers, gotAnswers) + cmp.Diff(changes, gotChanges); d != "" {
			t.Fatalf("row %d: answers or changes are others once its bytes are overwritten:\n%s", i+1, d)
		}
		s, want = got, next
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(encodeState(t, want), encodeState(t, s)); d != "" {
		t.Errorf("the state is another one once the bytes of its rows are overwritten:\n%s", d)
	}
}

// TestReplay is field case 09.4: the same rows give the same states, whatever the machine does meanwhile, and from a
// snapshot too.
func TestReplay(t *testing.T) {
	const seed, rows, every = 2, 900, 50
	log := mixed(t, seed, rows)
	want := make([][16]byte, 0, rows)
	s := meta.NewState()
	for i, row := range log {
		next, _, err := s.Apply(uint64(i+1), row)
		if err != nil {
			t.Fatal(err)
		}
		s, want = next, append(want, next.Digest())
	}
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	replay := func(round int) error {
		s := meta.NewState()
		for i, row := range log {
			next, _, err := s.Apply(uint64(i+1), row)
			if err != nil {
				return err
			}
			if i%every == 0 && next.Digest() != want[i] {
				return fmt.Errorf("seed %d, round %d: another digest at %d", seed, round, i+1)
			}
			s = next
			if i == (round+1)*rows/21 {
				if s, err = throughSnapshot(s); err != nil {
					return err
				}
			}
		}
		if s.Digest() != want[rows-1] {
			return fmt.Errorf("seed %d, round %d: another digest at the end", seed, round)
		}
		return nil
	}
	for batch := range 5 {
		runtime.GOMAXPROCS([]int{1, 2, 8, 3, procs}[batch])
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				if err := replay(4*batch + i); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func throughSnapshot(s *meta.State) (*meta.State, error) {
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		return nil, err
	}
	return meta.Decode(&b)
}

// TestHeldStates: a state that is held stays as it was, byte for byte, while others read it and later rows are applied.
func TestHeldStates(t *testing.T) {
	t.Parallel()
	const seed, rows = 3, 600
	log := mixed(t, seed, rows)
	type held struct {
		s     *meta.State
		bytes []byte
	}
	export := func(s *meta.State) []byte {
		var b bytes.Buffer
		if err := s.Encode(&b); err != nil {
			t.Error(err)
		}
		return b.Bytes()
	}
	var kept []held
	var wg sync.WaitGroup
	s := meta.NewState()
	for i, row := range log {
		next, _, err := s.Apply(uint64(i+1), row)
		if err != nil {
			t.Fatal(err)
		}
		s = next
		if i%20 == 0 {
			h := held{s, export(s)}
			kept = append(kept, h)
			wg.Go(func() { // while the rows after it are applied
				if !bytes.Equal(export(h.s), h.bytes) {
					t.Errorf("seed %d: the state at %d changed while it was held", seed, h.s.Index())
				}
			})
		}
	}
	wg.Wait()
	for _, h := range kept {
		if !bytes.Equal(export(h.s), h.bytes) {
			t.Errorf("seed %d: the state at %d is not what it was", seed, h.s.Index())
		}
		if err := h.s.Verify(); err != nil {
			t.Errorf("seed %d: the state at %d: %v", seed, h.s.Index(), err)
		}
	}
}

// TestEpochsFence is invariant 6 and field case 10.1: once a node is registered at an epoch, nothing that carries its
// identity from below changes anything, whatever it is and whatever came in between.
func TestEpochsFence(t *testing.T) {
	t.Parallel()
	const seed, commands = 4, 50_000
	rng := rand.New(rand.NewPCG(seed, 0))
	s := meta.NewState()
	stale, current := 0, 0
	for i := range commands {
		p, _ := absurd{rng: rng, small: true}.proposal()
		if rng.IntN(2) == 0 {
			p.Command = up(s, p.Command)
		}
		b := encoded(t, p)
		acting, ok := identityOf(p.Command)
		n, known := s.Node(acting.NodeID)
		fenced := ok && known && acting.NodeEpoch < n.Epoch
		before := meta.RuleDigest(s)
		next, answers, err := s.Apply(s.Index()+1, [][]byte{b})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case fenced && (answers[0].Status == meta.Applied || meta.RuleDigest(next) != before):
			t.Fatalf("seed %d, command %d: node %d is at epoch %d, yet %+v ends as %s", seed, i, n.ID, n.Epoch, p.Command, ending(answers[0]))
		case fenced:
			stale++
		case ok && answers[0].Status == meta.Applied:
			current++
		}
		s = next
	}
	if stale < 1000 || current < 1000 {
		t.Fatalf("only %d commands of fenced and %d of living nodes were tried", stale, current)
	}
}

// up returns the command with the epochs at which its node and stream are by now.
func up(s *meta.State, c meta.Command) meta.Command {
	v := reflect.New(reflect.TypeOf(c)).Elem()
	v.Set(reflect.ValueOf(c))
	if id, ok := identityOf(c); ok && v.FieldByName("Identity").IsValid() {
		n, _ := s.Node(id.NodeID)
		v.FieldByName("Identity").Set(reflect.ValueOf(meta.Identity{NodeID: id.NodeID, NodeEpoch: n.Epoch}))
	}
	if id := v.FieldByName("StreamID"); id.IsValid() && v.FieldByName("Epoch").IsValid() {
		st, _ := s.Stream(id.Uint())
		v.FieldByName("Epoch").SetUint(st.Epoch)
	}
	return v.Interface().(meta.Command)
}

// identityOf returns who acts by a command, and whether anybody does.
func identityOf(c meta.Command) (meta.Identity, bool) {
	v := reflect.ValueOf(c)
	f := v.FieldByName("Identity")
	if !f.IsValid() {
		f = v.FieldByName("Rescuer")
	}
	if !f.IsValid() {
		return meta.Identity{}, false
	}
	id := f.Interface().(meta.Identity)
	return id, id != meta.Identity{}
}

// TestApplyRefusesRows: a row that cannot be passed leaves everything as it was and says why.
func TestApplyRefusesRows(t *testing.T) {
	t.Parallel()
	good := encoded(t, meta.Proposal{Command: putKey("k", "v")})
	many := make([][]byte, 257)
	for i := range many {
		many[i] = good
	}
	s, _, err := meta.NewState().Apply(1, many[:256])
	if err != nil {
		t.Fatal(err)
	}
	digest := s.Digest()
	for _, tt := range []struct {
		name  string
		index uint64
		row   [][]byte
	}{
		{"the same index again", 1, [][]byte{good}},
		{"an index left out", 3, [][]byte{good}},
		{"index 0", 0, nil},
		{"too many commands", 2, many},
		{"the last command does not decode", 2, [][]byte{good, good[:len(good)-1]}},
		{"an empty command", 2, [][]byte{{}}},
	} {
		if next, answers, err := s.Apply(tt.index, tt.row); err == nil || next != nil || answers != nil {
			t.Errorf("%s: %v, %v", tt.name, answers, err)
		}
	}
	if next, answers, err := s.Apply(2, nil); err != nil || next.Index() != 2 || len(answers) != 0 || next.Digest() == digest {
		t.Errorf("a row without commands: %v, %v", answers, err)
	}
	if s.Digest() != digest {
		t.Error("the state has changed")
	}
}
