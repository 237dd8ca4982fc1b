package headwater

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headwaterdb/headwater/meta"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/replica"
)

// Options configure a Store; the zero value works. The fields of Engine are explained at replica.Options.
type Options struct {
	// ClusterID is the id that the cluster must have, 32 hexadecimal digits; empty: any.
	ClusterID string
	// Now stamps proposals that carry no stamp, for people only; nil: time.Now.
	Now func() time.Time
	// Engine holds the bounds and intervals of the engine. Its ClusterID is set from the one above.
	Engine replica.Options
}

// Validate refuses options that make no sense, as Open does. It is for who wants to know before a log is opened.
func (o Options) Validate() error {
	if _, err := o.clusterID(); err != nil {
		return err
	}
	return o.Engine.Validate()
}

// clusterID is the id that the cluster must have; zero: any.
func (o Options) clusterID() (id replica.ID, err error) {
	if o.ClusterID == "" {
		return o.Engine.ClusterID, nil
	}
	b, err := hex.DecodeString(o.ClusterID)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("expected cluster id %q: 32 hexadecimal digits are needed", o.ClusterID)
	}
	// To the engine the zero id means any; a mistyped or unset id must not open every cluster.
	if id = replica.ID(b); id == (replica.ID{}) {
		return id, fmt.Errorf("expected cluster id %q: no cluster has the id of zeros; leave it empty to take any", o.ClusterID)
	}
	return id, nil
}

// View is one immutable state of the cluster and the index of the row it stands at. It never changes, may be kept
// as long as one likes, and may be read by many goroutines at once.
type View = replica.View[*meta.State]

// Store is one node's copy of the cluster's metadata. All methods may be called at once from many goroutines.
type Store struct {
	log    oplog.Log
	engine *replica.Replica[*meta.State, meta.Answer]
	now    func() time.Time
	info   oplog.Info
}

var _ meta.Proposer = (*Store)(nil)

// machine binds the meaning to the engine.
func machine() replica.Machine[*meta.State, meta.Answer] {
	return replica.Machine[*meta.State, meta.Answer]{
		Empty:  meta.NewState(),
		Apply:  applyKnown,
		Digest: func(s *meta.State) replica.Digest { return replica.Digest(s.Digest()) },
		Encode: (*meta.State).Encode,
		Decode: decodeKnown,
		Recall: (*meta.State).Recall,
	}
}

// ClusterInfo names a cluster.
type ClusterInfo struct {
	ClusterID   string // 32 hexadecimal digits
	Incarnation string // 16 hexadecimal digits: the history that indexes belong to
}

// Init makes the database of log a new, empty cluster. oplog.ErrExists where a cluster lives there already; of several
// processes that try at once, one succeeds.
func Init(ctx context.Context, log oplog.Log) (ClusterInfo, error) {
	g, err := replica.Init(ctx, log)
	if err != nil {
		return ClusterInfo{}, fmt.Errorf("initialise cluster: %w", err)
	}
	return ClusterInfo{ClusterID: hex.EncodeToString(g.ClusterID[:]), Incarnation: incarnation(g.Incarnation)}, nil
}

// Open starts a node on log: it reads the newest snapshot, begins to follow the log and returns. The node may still be
// catching up then; Status tells, and Linearize waits for the head of the log. Open never creates a cluster
// (oplog.ErrNoCluster). The log stays the caller's, to be closed after the Store.
func Open(ctx context.Context, log oplog.Log, o Options) (*Store, error) {
	id, err := o.clusterID()
	if err != nil {
		return nil, err
	}
	o.Engine.ClusterID = id
	if o.Now == nil {
		o.Now = time.Now
	}
	engine, err := replica.Open(ctx, log, machine(), o.Engine)
	if err != nil {
		return nil, fmt.Errorf("open node: %w", err)
	}
	return &Store{log: log, engine: engine, now: o.Now, info: log.Info()}, nil
}

// Propose appends the proposals, in this order, and returns one answer for each once its row is applied here: the
// next View holds what it did. They may land in several rows, and one that is refused does not keep the others from
// taking effect; use meta.Atomic for all or nothing. A proposal beyond the limits is refused without being
// appended (its answer then has no index).
//
// When ctx ends first, answers end in meta.ErrNotApplied or meta.ErrOutcomeUnknown, together with the context's
// error; an unknown outcome of a proposal with a request is a *meta.UnknownError, which names it. A command of unknown
// outcome may be proposed again with the same request: it has one effect.
func (s *Store) Propose(ctx context.Context, proposals ...meta.Proposal) []meta.Answer {
	answers := make([]meta.Answer, len(proposals))
	var room [1][]byte // as a rule there is one
	commands := room[:0]
	if len(proposals) > 1 {
		commands = make([][]byte, 0, len(proposals))
	}
	for i, p := range proposals {
		payload, err := s.encode(p)
		if err != nil {
			answers[i] = refused(err)
			continue
		}
		commands = append(commands, payload)
	}
	if len(commands) == 0 {
		return answers
	}
	results := s.engine.Propose(ctx, commands...)
	for i := range answers {
		if answers[i].Err != nil { // refused above
			continue
		}
		answers[i] = answerOf(results[0])
		answers[i].Err = meta.Unknown(proposals[i].Request, answers[i].Err)
		results = results[1:]
	}
	return answers
}

func (s *Store) encode(p meta.Proposal) ([]byte, error) {
	if err := meta.Validate(p); err != nil {
		return nil, err
	}
	if err := proposable(p, s.View().State.FormatLevel()); err != nil {
		return nil, err
	}
	if p.Stamp == 0 {
		p.Stamp = s.now().UnixMilli()
	}
	scratch := encoders.Get().(*[]byte)
	defer encoders.Put(scratch)
	b, err := meta.AppendProposal((*scratch)[:0], p)
	if err != nil {
		return nil, err
	}
	if cap(b) <= maxScratch {
		*scratch = b
	}
	return bytes.Clone(b), nil
}

// encoders holds memory that proposals are encoded in, before they are copied to as many bytes as they take.
var encoders = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch is the most memory in bytes that is kept for another proposal.
const maxScratch = 64 << 10

// refused is the answer to a proposal that was turned away before it was appended.
func refused(err error) meta.Answer {
	var e *meta.Error
	if errors.As(err, &e) {
		return meta.Answer{Status: meta.Rejected, Err: e}
	}
	return meta.Answer{Err: err}
}

func answerOf(r replica.Result[meta.Answer]) meta.Answer {
	switch {
	case errors.Is(r.Err, replica.ErrTooLarge):
		return meta.Answer{Status: meta.Rejected, Err: &meta.Error{Code: meta.CodeTooLarge, Message: r.Err.Error(), Inner: -1}}
	case r.Err != nil:
		return meta.Answer{Err: operational(r.Err)}
	}
	return r.Value
}

// sentinels pairs the engine's conditions with those of the domain, which embedding programs and clients share.
var sentinels = []struct{ engine, domain error }{
	{replica.ErrUnknown, meta.ErrOutcomeUnknown},
	{replica.ErrOverloaded, meta.ErrOverloaded},
	{replica.ErrHalted, meta.ErrHalted},
	{replica.ErrRewound, meta.ErrHalted},
	{replica.ErrClosed, meta.ErrClosed},
	{replica.ErrUnavailable, meta.ErrUnavailable},
	{replica.ErrNotApplied, meta.ErrNotApplied},
}

// operational adds the domain's sentinel to an error of the engine.
func operational(err error) error {
	for _, s := range sentinels {
		if errors.Is(err, s.engine) {
			return &operationalError{cause: err, sentinel: s.domain}
		}
	}
	return err
}

type operationalError struct{ cause, sentinel error }

func (e *operationalError) Error() string   { return e.cause.Error() }
func (e *operationalError) Unwrap() []error { return []error{e.sentinel, e.cause} }

// DryRun returns what the proposals would do if they came next, and which records they would change, without
// appending anything. The view is the one they were judged against.
func (s *Store) DryRun(_ context.Context, proposals ...meta.Proposal) ([]meta.Answer, []meta.Change, *View) {
	v := s.View()
	answers, changes := v.State.Plan(proposals)
	return answers, changes, v
}

// View returns the current view. It is a pointer load: no lock, no allocation, no SQL.
func (s *Store) View() *View { return s.engine.View() }

// Wait returns the first view at or above index. It ends with ctx, and at once when the node halts or is closed.
func (s *Store) Wait(ctx context.Context, index uint64) (*View, error) {
	v, err := s.engine.Wait(ctx, oplog.Index(index))
	if err != nil {
		return nil, operational(err)
	}
	return v, nil
}

// Linearize returns a view that holds every command answered anywhere in the cluster before the call. It asks the
// database for the newest index; callers that come together share one look.
func (s *Store) Linearize(ctx context.Context) (*View, error) {
	v, err := s.engine.Linearize(ctx)
	if err != nil {
		return nil, operational(err)
	}
	return v, nil
}

// Snapshot stores a snapshot of the current view now, checks it, truncates the log below it and returns its index.
func (s *Store) Snapshot(ctx context.Context) (uint64, error) {
	i, err := s.engine.Snapshot(ctx)
	if err != nil {
		return 0, operational(err)
	}
	return uint64(i), nil
}

// Close stops the node: every waiting call is answered and no goroutine stays. The log is left open.
func (s *Store) Close() error { return s.engine.Close() }
