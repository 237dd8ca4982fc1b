package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Work says what callers do.
type Work struct {
	Kind       string // one of Kinds
	ValueBytes int    // of the values of keys; default 100
	Keys       int    // how many keys are written and read; default 10,000
	Streams    int    // how many streams there are, shared out among the callers; default 1000, or one for each caller if that is more
	Slices     int    // in each object that is committed; default 10, for store 30
	Objects    int    // committed before the measurement begins; default 0, for finds one for each stream
	Reads      string // one of Freshnesses; default local
	Seed       uint64 // of everything random, the names apart
	Force      bool   // also on a cluster that is not empty
}

// Freshnesses are how fresh reads may be: the view at hand; one that holds what the reader itself has been answered, read
// on another node where there are several; or one that holds all that was answered to anybody.
var Freshnesses = []string{"local", "at-least", "linearizable"}

// The operations, as results name them.
const (
	opPut = iota
	opGet
	opPrepare
	opCommit
	opFind
	opStream
	opOpen
	opClose
	opTransfer
	opTrim
	opReclaim
	opForget
	opVisible
)

// Operations names the operations that samples of a plan have.
var Operations = []string{"put", "get", "prepare", "commit", "find", "stream", "open", "close", "transfer", "trim", "reclaim",
	"forget", "visible"}

// kind is one kind of work.
type kind struct {
	name, what string
	does       func(*caller) Caller
	streams    bool // needs streams of each caller
	nodes      int  // needs so many targets
}

var kinds = []kind{
	{"puts", "write a random key with a value", func(c *caller) Caller { return c.put }, false, 1},
	{"gets", "read a random key", func(c *caller) Caller { return c.get }, false, 1},
	{"commits", "commit an object with slices of random streams", func(c *caller) Caller { return c.commit }, true, 1},
	{"finds", "find ten slices from a random offset of a random stream on", func(c *caller) Caller { return c.find }, true, 1},
	{"opens", "close a random stream and open it again", func(c *caller) Caller { return c.reopen }, true, 1},
	{"transfers", "hand a random stream to the other node", func(c *caller) Caller { return c.transfer }, true, 1},
	{"store", "the mixture of a stream store: commits, finds, a few looks, opens, transfers, trims", func(c *caller) Caller { return c.store }, true, 1},
	{"visible", "write a key on one node; measured is how long until another node shows it", func(c *caller) Caller { return c.visible }, false, 2},
}

// Kinds returns the kinds of work, in the order of help texts, each with what it does.
func Kinds() (names, what []string) {
	for _, k := range kinds {
		names, what = append(names, k.name), append(what, k.what)
	}
	return names, what
}

func kindOf(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// WithDefaults returns the work with its zeros replaced, for so many callers.
func (w Work) WithDefaults(callers int) Work {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&w.ValueBytes, 100)
	def(&w.Keys, 10_000)
	def(&w.Streams, max(1000, callers))
	if w.Kind == "store" {
		def(&w.Slices, 30)
	}
	def(&w.Slices, 10)
	if w.Kind == "finds" {
		def(&w.Objects, w.Streams)
	}
	if w.Reads == "" {
		w.Reads = Freshnesses[0]
	}
	return w
}

// Validate refuses work, with its defaults, that cannot be done by so many callers on so many targets.
func (w Work) Validate(callers, targets int) error {
	k, ok := kindOf(w.Kind)
	names, _ := Kinds()
	switch {
	case !ok:
		return fmt.Errorf("no work %q; there are %s", w.Kind, strings.Join(names, ", "))
	case callers < 1 || callers > 100_000:
		return fmt.Errorf("%d callers, allowed are 1 to 100,000", callers)
	case targets < k.nodes:
		return fmt.Errorf("the work %s needs at least %d nodes, or as many servers", k.name, k.nodes)
	case w.ValueBytes < 8 || w.ValueBytes > 256<<10:
		return fmt.Errorf("values of %d bytes, allowed are 8 to 256 KiB", w.ValueBytes)
	case w.Keys < 1 || w.Keys > 10_000_000:
		return fmt.Errorf("%d keys, allowed are 1 to 10,000,000", w.Keys)
	case k.streams && w.Streams < callers:
		return fmt.Errorf("%d streams for %d callers: each caller needs a stream of its own", w.Streams, callers)
	case w.Streams > 10_000_000:
		return fmt.Errorf("%d streams, allowed are 10,000,000", w.Streams)
	case w.Slices < 1 || w.Slices > 1000:
		return fmt.Errorf("%d slices in an object, allowed are 1 to 1000", w.Slices)
	case w.Objects < 0:
		return errors.New("the number of objects must not be negative")
	case !slices.Contains(Freshnesses, w.Reads):
		return fmt.Errorf("no freshness %q; there are %s", w.Reads, strings.Join(Freshnesses, ", "))
	}
	return nil
}
