package sim

import (
	"container/heap"
	"context"
	"iter"
	"math/rand/v2"
	"runtime"
	"time"
)

// sched runs tasks one at a time under a clock that stands still while one runs. Everything that could be another way
// round is decided by its dice, so a seed makes one history.
//
// A task is a coroutine: it never runs while another does: it is resumed by the scheduler and hands control back when
// it parks. Tasks that are ready at the same moment run in an order that the dice choose.
type sched struct {
	now     time.Duration // since the beginning
	dice    *rand.Rand
	current *task
	ready   []*task
	alarms  alarms
	serial  uint64 // of the last alarm
	all     map[*task]bool
	tasks   int          // ever started
	turns   int          // how many times a task was resumed
	closing bool         // every task is to end
	zombies int          // tasks of processes that are dead
	observe func(*group) // is called after each turn of a task
}

// task is a thread of something simulated.
type task struct {
	name   string
	owner  *group
	resume func() (struct{}, bool) // until it parks or ends
	stop   func()
	yield  func(struct{}) bool
	number int

	// While parked:
	parked bool
	turn   uint64 // of parking, so that an old alarm is told from the one that counts
	a, b   <-chan struct{}
	ctx    context.Context
	woken  bool // the park ended by a channel or by wake, not by time or context
}

// group is what tasks belong to that can only wake each other: a node's life, or the database.
type group struct {
	node    *node         // nil: the database, or clients
	parked  []*task       // with a channel or a context to look at
	frozen  time.Duration // its tasks do not run before this moment
	iced    []*task       // that were ready while it was frozen
	drift   float64       // how fast its clock goes
	offset  time.Duration // and how far it was off in the beginning
	tasks   int           // that have not ended
	zombie  bool          // its process is dead: what its tasks still do has no effect and takes no time
	preempt int           // how many of 1000 critical sections a scheduler strikes after
}

// epoch is the moment at which every simulation begins.
var epoch = time.Unix(1_700_000_000, 0).UTC()

func newSched(dice *rand.Rand) *sched {
	return &sched{dice: dice, all: map[*task]bool{}}
}

// start makes a task of f, ready to run.
func (s *sched) start(name string, g *group, f func()) *task {
	s.tasks++
	t := &task{name: name, owner: g, number: s.tasks}
	s.all[t] = true
	if g.tasks++; g.zombie {
		s.zombies++
	}
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		f()
	})
	s.ready = append(s.ready, t)
	return t
}

// run resumes t and returns when it parks or ends.
func (s *sched) run(t *task) {
	s.turns++
	s.current = t
	if _, parked := t.resume(); !parked {
		s.ended(t)
	}
	s.current = nil
	s.observe(t.owner)
	s.look(t.owner)
}

func (s *sched) ended(t *task) {
	delete(s.all, t)
	if t.owner.tasks--; t.owner.zombie {
		s.zombies--
	}
}

// hand hands control back to the scheduler until the current task is resumed.
func (s *sched) hand(t *task) {
	if !t.yield(struct{}{}) {
		runtime.Goexit() // the world has ended
	}
}

// park stops the current task until a or b can be received from, the moment until (below zero: never), the end of
// ctx, or wake. It reports whether the end came by a channel or by wake.
func (s *sched) park(ctx context.Context, until time.Duration, a, b <-chan struct{}) bool {
	t := s.current
	t.a, t.b, t.ctx, t.woken = a, b, ctx, false
	if s.arrived(t) {
		return t.woken
	}
	t.parked = true
	t.turn++
	if until >= 0 {
		s.alarm(until, t, t.turn, nil)
	}
	if a != nil || b != nil || ctx.Done() != nil {
		t.owner.parked = append(t.owner.parked, t)
	}
	s.hand(t)
	return t.woken
}

// sleep parks the current task for d.
func (s *sched) sleep(d time.Duration) {
	if d > 0 {
		s.park(ctxRoot, s.now+d, nil, nil)
	}
}

// arrived reports whether what t waits for is there, and takes it.
func (s *sched) arrived(t *task) bool {
	select {
	case <-t.a:
		t.woken = true
		return true
	default:
	}
	select {
	case <-t.b:
		t.woken = true
		return true
	default:
	}
	return t.ctx.Err() != nil
}

// bury makes zombies of the tasks of g.
func (s *sched) bury(g *group) {
	g.zombie, g.frozen = true, 0
	s.thaw(g)
	s.zombies += g.tasks
}

// look makes the tasks of g ready whose channel or context something has happened to.
func (s *sched) look(g *group) {
	kept := g.parked[:0]
	for _, t := range g.parked {
		switch {
		case !t.parked: // an alarm was first
		case s.arrived(t):
			s.unpark(t)
		default:
			kept = append(kept, t)
		}
	}
	g.parked = kept
}

func (s *sched) unpark(t *task) {
	t.parked = false
	s.ready = append(s.ready, t)
}

// wake ends t's park from outside.
func (s *sched) wake(t *task) {
	if t.parked {
		t.woken = true
		s.unpark(t)
	}
}

// step runs the next task, at the next moment where there is one to run. It reports false where nothing will ever run
// again, or nothing up to the moment limit.
func (s *sched) step(limit time.Duration) bool {
	for len(s.ready) == 0 {
		if len(s.alarms) == 0 || s.alarms[0].at > limit {
			s.now = max(s.now, limit)
			return false
		}
		a := heap.Pop(&s.alarms).(alarm)
		s.now = max(s.now, a.at)
		switch {
		case a.do != nil:
			a.do()
		case a.task.parked && a.task.turn == a.turn:
			s.unpark(a.task)
		}
	}
	i := s.dice.IntN(len(s.ready))
	t := s.ready[i]
	last := len(s.ready) - 1
	s.ready[i] = s.ready[last]
	s.ready = s.ready[:last]
	if t.owner.frozen > s.now && !t.owner.zombie {
		s.ice(t)
		return true
	}
	s.run(t)
	return true
}

// ice keeps t, which is ready, until its process is no longer frozen.
func (s *sched) ice(t *task) {
	g := t.owner
	if len(g.iced) == 0 {
		s.alarm(g.frozen, nil, 0, func() { s.thaw(g) })
	}
	g.iced = append(g.iced, t)
}

// thaw lets the tasks of g go on, if it is time.
func (s *sched) thaw(g *group) {
	s.ready = append(s.ready, g.iced...)
	g.iced = nil
}

// stop ends every task. What they do on their way out has no effect.
func (s *sched) stop() {
	s.closing = true
	for t := range s.all {
		s.current = t
		ended := make(chan struct{})
		go func() { // a goroutine that is done with afterwards, for a task that goes takes its caller along
			defer close(ended)
			t.stop()
		}()
		<-ended
	}
	clear(s.all)
}

// alarm is a moment at which a task goes on or something is done.
type alarm struct {
	at     time.Duration
	serial uint64
	task   *task
	turn   uint64
	do     func()
}

type alarms []alarm

func (a alarms) Len() int { return len(a) }
func (a alarms) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].serial < a[j].serial
}
func (a alarms) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push is heap.Interface's.
func (a *alarms) Push(x any) { *a = append(*a, x.(alarm)) }

// Pop is heap.Interface's.
func (a *alarms) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = alarm{}
	*a = old[:len(old)-1]
	return last
}

func (s *sched) alarm(at time.Duration, t *task, turn uint64, do func()) {
	s.serial++
	heap.Push(&s.alarms, alarm{max(at, s.now), s.serial, t, turn, do})
}

// after does f, which must not park, at that moment.
func (s *sched) after(d time.Duration, f func()) { s.alarm(s.now+d, nil, 0, f) }

// clock is what a clock of g shows.
func (s *sched) clock(g *group) time.Time {
	return epoch.Add(g.offset + time.Duration(float64(s.now)*g.drift))
}

// moment is when a clock of g shows at; below zero for the zero time.
func (s *sched) moment(g *group, at time.Time) time.Duration {
	if at.IsZero() {
		return -1
	}
	// One more than rounded down, so that whoever wakes finds that the moment has come.
	return max(time.Duration(float64(at.Sub(epoch)-g.offset)/g.drift)+1, 0)
}

// deadline is a context that ends by a simulated clock.
type deadline struct {
	context.Context
	at      time.Time
	expired bool
}

// Deadline is context.Context's.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Err is context.Context's.
func (d *deadline) Err() error {
	if d.expired {
		return context.DeadlineExceeded
	}
	return d.Context.Err()
}

// timeout is context.WithTimeout by the clock of g.
func (s *sched) timeout(parent context.Context, g *group, after time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancel(parent)
	d := &deadline{Context: inner, at: s.clock(g).Add(after)}
	s.alarm(s.moment(g, d.at), nil, 0, func() {
		if inner.Err() == nil {
			d.expired = true
			cancel()
			s.look(g)
		}
	})
	return d, cancel
}
