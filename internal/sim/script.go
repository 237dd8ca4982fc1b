package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// Script is a cluster that commands in words drive instead of dice: nothing goes wrong but what they say. The same
// observer looks on, and a broken invariant is part of what Do returns.
//
//	cluster DIALECT nodes=N interval=N keep=N   the cluster; the first command, once
//	start N                     start a process on node N
//	propose N COMMAND           propose through node N: see proposal for the commands. "request=K" numbers it, and "patience=D" gives up after D
//	linearize N                 ask node N for a linearizable view
//	snapshot N                  ask node N for a snapshot
//	hold N OP                   the next such call of node N is sent, and does not arrive before it is released
//	hold-look N append          … arrives, looks for its predecessor, and does not lock it before it is released
//	hold-commit N OP            … arrives, takes its locks, and does not commit before it is released
//	late N OP                   as hold, and the connection is lost at once: the caller is told that nobody knows
//	lose N OP                   … is done, and its answer is lost
//	refuse N OP TIMES           so many such calls are refused: the database cannot be reached
//	release N                   what is held of node N goes on
//	freeze N                    reads of node N see what is committed now, until thaw N
//	crash N, stop N             the process on node N dies; is closed in order
//	pause N, resume N           the process on node N stands still; goes on
//	kill, restart               the server dies and takes every connection along; is back
//	failover ROW                a standby takes over that lacks the rows above
//	flip row I, flip snapshot   a bit of what is stored changes; repair puts it right
//	run D                       let time go by
//	view N                      what node N shows
//	log                         what is stored, row by row, with what each command came to
//
// OP is append, read, bounds, "open-snapshot", "write-part", "commit-snapshot" or truncate. After each command a tenth of a second goes by.
type Script struct {
	w      *world
	rules  []*rule
	gates  []*gate
	frozen map[int]*state
	calls  int
	told   int // bytes of the trace that were returned
	number uint64
}

// rule is what a script has said of the next call of some kind.
type rule struct {
	verb string
	node int
	op   op
}

// gate is where a statement waits for a script.
type gate struct {
	open bool
	node *node
	task *task
	what string
}

// pass waits at the gate; there may be none.
func (g *gate) pass(s *sched) {
	for g != nil && !g.open {
		g.task = s.current
		s.park(ctxRoot, -1, nil, nil)
	}
}

// scriptLatency is how long each way to the server takes.
const scriptLatency = time.Millisecond

// plan looks up what the script has said of this call.
func (s *Script) plan(n *node, o op, _ oplog.Index) plan {
	p := plan{send: scriptLatency, reply: scriptLatency}
	if o == opRead || o == opBounds || o == opOpenSnapshot {
		p.frozen = s.frozen[n.id]
	}
	i := slices.IndexFunc(s.rules, func(r *rule) bool { return r.node == n.id && r.op == o })
	if i < 0 {
		return p
	}
	r := s.rules[i]
	s.rules = slices.Delete(s.rules, i, i+1)
	g := &gate{node: n, what: fmt.Sprintf("%s of %s", o, n.name())}
	switch r.verb {
	case "hold":
		p.beforeArrival = g
	case "late":
		p.beforeArrival, p.drop = g, scriptLatency
	case "hold-look":
		p.afterLook = g
	case "hold-commit":
		p.beforeCommit = g
	case "lose":
		p.lose = true
	case "refuse":
		p.refuse = oplog.ErrUnavailable
	}
	if p.beforeArrival != nil || p.afterLook != nil || p.beforeCommit != nil {
		s.gates = append(s.gates, g)
		s.w.note("%s is held", g.what)
	}
	return p
}

// Do runs one command and returns what happened.
func (s *Script) Do(line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", nil
	}
	if s.w == nil && words[0] != "cluster" {
		return "", fmt.Errorf("%s: the first command is cluster", line)
	}
	if err := s.do(words); err != nil {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	s.w.until(s.w.s.now+100*time.Millisecond, func() bool { return false })
	all := s.w.trace.String()
	out := all[s.told:]
	s.told = len(all)
	return out, nil
}

// Close leads every task out.
func (s *Script) Close() {
	if s.w != nil {
		s.w.end()
	}
}

func (s *Script) do(words []string) error {
	verb, args := words[0], words[1:]
	switch verb {
	case "cluster":
		return s.cluster(args)
	case "kill":
		s.w.db.kill()
		s.w.db.down = true
		return nil
	case "restart":
		s.w.db.down = false
		return nil
	case "log":
		s.log()
		return nil
	case "repair":
		s.w.edit(func(st *state) {
			for _, f := range slices.Backward(s.w.flips) {
				f.repair(st)
			}
		})
		s.w.flips = nil
		s.w.h.repaired(s.w.db.state)
		return nil
	case "run":
		d, err := time.ParseDuration(strings.Join(args, ""))
		s.w.until(s.w.s.now+d, func() bool { return false })
		return err
	case "flip":
		return s.flip(args)
	}
	if len(args) == 0 {
		return fmt.Errorf("a number is missing")
	}
	number, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if verb == "failover" {
		s.lose(oplog.Index(number))
		return nil
	}
	if number < 1 || number > len(s.w.nodes) {
		return fmt.Errorf("there is no node %d", number)
	}
	return s.node(verb, s.w.nodes[number-1], args[1:])
}

// cluster makes the cluster.
func (s *Script) cluster(args []string) error {
	if s.w != nil || len(args) == 0 {
		return fmt.Errorf("there is one already, or no dialect")
	}
	cfg := Config{Nodes: 2, Poll: 10 * time.Millisecond, Model: true, Rates: map[string]int{},
		Engine: replica.Options{SnapshotInterval: 4, KeepRows: -1}}
	i := slices.IndexFunc(Dialects, func(d Dialect) bool { return d.Name == args[0] })
	if i < 0 {
		return fmt.Errorf("no dialect %s", args[0])
	}
	cfg.Dialect = Dialects[i]
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		switch name {
		case "nodes":
			cfg.Nodes = n
		case "interval":
			cfg.Engine.SnapshotInterval = n
		case "keep":
			cfg.Engine.KeepRows = n
		default:
			return fmt.Errorf("what is %s?", name)
		}
	}
	s.w = newWorld(1, cfg)
	s.w.script, s.frozen = s, map[int]*state{}
	return nil
}

// node does what is about one node.
func (s *Script) node(verb string, n *node, args []string) error {
	w := s.w
	switch verb {
	case "start":
		w.boot(n)
	case "release":
		s.release(n)
	case "crash":
		w.crash(n)
	case "stop":
		w.stop(n)
	case "pause":
		n.g.frozen = 1 << 62
	case "resume":
		w.thaw(n)
	case "freeze":
		s.frozen[n.id] = w.db.state
	case "thaw":
		delete(s.frozen, n.id)
	case "view":
		s.view(n)
	case "snapshot":
		w.snapshot(n)
	case "linearize":
		s.linearize(n)
	case "propose":
		return s.propose(n, args)
	case "hold", "hold-look", "hold-commit", "late", "lose", "refuse":
		times := 1
		if len(args) == 2 {
			times, _ = strconv.Atoi(args[1])
		}
		if len(args) == 0 || times < 1 {
			return fmt.Errorf("which call?")
		}
		for range times {
			s.rules = append(s.rules, &rule{verb, n.id, op(strings.ReplaceAll(args[0], "-", " "))})
		}
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

// release opens the gates of a node.
func (s *Script) release(n *node) {
	for _, g := range s.gates {
		if g.node != n {
			continue
		}
		s.w.note("%s goes on", g.what)
		g.open = true
		if g.task != nil {
			s.w.s.wake(g.task)
		}
	}
	s.gates = slices.DeleteFunc(s.gates, func(g *gate) bool { return g.open })
}

// flip damages what is stored.
func (s *Script) flip(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "row":
		i, err := strconv.Atoi(args[1])
		if err == nil && !s.w.db.state.has(oplog.Index(i)) {
			err = fmt.Errorf("it is not there")
		}
		if err != nil {
			return err
		}
		s.w.flipRow(oplog.Index(i))
		s.w.count(stormFlipRow)
	case len(args) == 1 && args[0] == "snapshot":
		s.w.edit(func(st *state) {
			for i, p := range st.parts {
				if p.token == st.snap.token {
					st.parts[i] = s.w.flipPart(p)
					s.w.note("a bit of the snapshot at %d flips", p.index)
					return
				}
			}
		})
	default:
		return fmt.Errorf("flip what?")
	}
	return nil
}

// lose promotes a standby that ends at row newest.
func (s *Script) lose(newest oplog.Index) {
	for i := len(s.w.db.versions) - 1; i >= 0; i-- {
		if n, ok := s.w.db.versions[i].state.newest(); ok && n <= newest {
			s.w.failover(len(s.w.db.versions) - 1 - i)
			break
		}
	}
	s.w.db.down = false
}

// propose calls node n from a client of its own. See proposal.
func (s *Script) propose(n *node, args []string) error {
	if !n.usable() {
		return fmt.Errorf("%s is not open", n.name())
	}
	p := meta.Proposal{}
	patience := time.Minute
	for len(args) > 0 {
		last := args[len(args)-1]
		if v, ok := strings.CutPrefix(last, "request="); ok {
			k, err := strconv.ParseUint(v, 10, 64)
			if err != nil {
				return err
			}
			p.Request = &meta.Request{Client: [16]byte{'c'}, Sequence: k, Oldest: 1}
		} else if v, ok := strings.CutPrefix(last, "patience="); ok {
			d, err := time.ParseDuration(v)
			if err != nil {
				return err
			}
			patience = d
		} else {
			break
		}
		args = args[:len(args)-1]
	}
	c, err := s.proposal(n, args)
	if err != nil {
		return err
	}
	p.Command = c
	if p.Request == nil && needsRequest(c) {
		s.number++
		p.Request = &meta.Request{Client: [16]byte{'s'}, Sequence: s.number, Oldest: 1}
	}
	s.calls++
	cl := &client{w: s.w, number: s.calls, home: n, g: &group{drift: 1}, waits: patience}
	s.w.s.start(fmt.Sprintf("call %d", s.calls), cl.g, func() {
		life := n.life
		cl.propose(n, []meta.Proposal{p})
		if n.life != life || n.down {
			s.w.note("client %d on %s: nobody hears the answer", cl.number, n.name())
		}
	})
	return nil
}

// proposal reads a command:
//
//	put KEY VALUE, delete KEY
//	register ID, renew ID, fence ID       as a node; by an operator
//	create NAME, open ID NAME, close ID NAME   by node ID, at the epoch that the view of the node called shows
//	prepare ID, commit ID NAME OBJECT LENGTH   the object of that id, with as many records at the end of the stream
func (s *Script) proposal(n *node, args []string) (meta.Command, error) {
	st := n.store.View().State
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	number := func(i int) uint64 { v, _ := strconv.ParseUint(arg(i), 10, 64); return v }
	known, _ := st.Node(number(1))
	me := meta.Identity{NodeID: number(1), NodeEpoch: max(known.Epoch, 1)}
	stream, _ := st.StreamByName(arg(2))
	switch arg(0) {
	case "put":
		return meta.PutKey{Key: arg(1), Value: []byte(arg(2))}, nil
	case "delete":
		return meta.DeleteKey{Key: arg(1)}, nil
	case "register":
		s.number++
		return meta.RegisterNode{NodeID: number(1), Instance: [16]byte{byte(s.number), 1}, FormatLevel: 1}, nil
	case "renew":
		return meta.RenewNode{Identity: me}, nil
	case "fence":
		return meta.FenceNode{NodeID: number(1), Epoch: known.Epoch}, nil
	case "create":
		return meta.CreateStream{Identity: me, Name: arg(2)}, nil
	case "open":
		return meta.OpenStream{Identity: me, StreamID: stream.ID}, nil
	case "close":
		return meta.CloseStream{Identity: me, StreamID: stream.ID, Epoch: stream.Epoch}, nil
	case "prepare":
		return meta.PrepareObjects{Identity: me, Count: 1, Deadline: epoch.UnixMilli()}, nil
	case "commit":
		return meta.CommitObjects{Identity: me, Objects: []meta.Object{{ObjectID: number(3), Size: 1, Slices: []meta.Slice{
			{StreamID: stream.ID, StreamEpoch: stream.Epoch, StartOffset: stream.EndOffset, EndOffset: stream.EndOffset + number(4), Length: 1}}}}}, nil
	}
	return nil, fmt.Errorf("no such proposal")
}

// linearize asks n for a view that holds everything answered before.
func (s *Script) linearize(n *node) {
	w := s.w
	s.calls++
	number, floor := s.calls, w.acked
	c := &client{w: w, g: &group{drift: 1}}
	w.s.start(fmt.Sprintf("call %d", number), c.g, func() {
		var v *headwater.View
		var err error
		alive := c.on(n, func(store *headwater.Store) {
			ctx, cancel := w.s.timeout(ctxRoot, n.g, time.Minute)
			defer cancel()
			v, err = store.Linearize(ctx)
		})
		switch {
		case !alive:
		case err != nil:
			w.note("client %d on %s: %v", number, n.name(), err)
		default:
			w.note("client %d on %s: a linearizable view at row %d", number, n.name(), v.Index)
			if v.Index < floor {
				w.check(fmt.Errorf("freshness: row %d had been answered before", floor))
			}
		}
	})
}

// view notes what n shows.
func (s *Script) view(n *node) {
	w := s.w
	if n.down || n.store == nil {
		w.note("%s is not open", n.name())
		return
	}
	st, v := n.store.Status(), n.store.View()
	w.note("%s shows row %d, %s; %d queued, %d in flight", n.name(), v.Index, st.Condition, st.Queued, st.InFlight)
	if st.Reason != "" {
		w.note("  %s", st.Reason)
	}
	keys, _ := v.State.Keys("", "", 100)
	for _, k := range keys.Items {
		w.note("  key %s = %s", k.Key, k.Value)
	}
	nodes, _ := v.State.Nodes("", 100)
	for _, k := range nodes.Items {
		w.note("  node %d at epoch %d", k.ID, k.Epoch)
	}
	streams, _ := v.State.Streams("", 100)
	for _, k := range streams.Items {
		w.note("  stream %s, epoch %d, of node %d, offsets %d to %d", k.Name, k.Epoch, k.Owner.NodeID, k.StartOffset, k.EndOffset)
	}
}

// log notes what is stored.
func (s *Script) log() {
	w := s.w
	if i := w.db.state.snap.info; i.Parts > 0 {
		w.note("snapshot at %d", i.Index)
	}
	for _, r := range w.db.state.rows {
		e := w.h.tip.back(r.Index)
		if r.Index == 0 || e == nil {
			w.note("row %d", r.Index)
			continue
		}
		var words []string
		for i, c := range e.row.Commands {
			p, _ := meta.DecodeProposal(c)
			words = append(words, fmt.Sprintf("%s → %s", named(p.Command), verdict(e.answers[i])))
		}
		w.note("row %d of node %d, which had seen row %d: %s", r.Index, e.node, e.row.Seen, strings.Join(words, ", "))
	}
	for _, x := range w.db.open {
		if x.waits != nil {
			w.note("%s of node %d waits for %s", x.what, x.node, x.waits)
		}
	}
}

// named is a command in a word or two.
func named(c meta.Command) string {
	switch c := c.(type) {
	case meta.PutKey:
		return fmt.Sprintf("put %s %s", c.Key, c.Value)
	case meta.DeleteKey:
		return "delete " + c.Key
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", c), "meta.")
}

func verdict(a meta.Answer) string {
	switch {
	case a.Status == meta.Rejected:
		return meta.CodeOf(a.Err).String()
	case a.Status == meta.Redundant && a.FirstIndex != a.Index:
		return fmt.Sprintf("redundant, as in row %d", a.FirstIndex)
	}
	return [...]string{"", "applied", "redundant"}[a.Status]
}
