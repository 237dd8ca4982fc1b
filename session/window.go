package session

import "github.com/headwaterdb/headwater/meta"

// window is the numbers of one client id.
//
// Two rules of the cluster shape it. A sequence is below oldest + 256. And a client that the cluster does not know
// may only begin with oldest 1: therefore oldest stays 1 in what is sent until an answer out of the log proved that
// the cluster has seen the client, however many commands were given up before they reached it.
type window struct {
	client [16]byte
	oldest uint64                          // the lowest sequence without an answer; equals free where all have one
	free   uint64                          // the next sequence to hand out
	ended  [meta.RequestWindow / 64]uint64 // a bit for each sequence from oldest on, at sequence mod 256: it is done
	seen   bool                            // an answer came out of the log
	closed bool                            // the cluster has forgotten the client: no more numbers
}

// floor is the oldest as it is sent.
func (w *window) floor() uint64 {
	if w.seen {
		return w.oldest
	}
	return 1
}

func (w *window) next() (meta.Request, bool) {
	if w.closed || w.free >= w.floor()+meta.RequestWindow {
		return meta.Request{}, false
	}
	r := meta.Request{Client: w.client, Sequence: w.free, Oldest: w.floor()}
	w.clear(w.free)
	w.free++
	return r, true
}

func (w *window) done(sequence uint64, a meta.Answer) {
	if sequence < w.oldest || sequence >= w.free {
		return
	}
	switch meta.CodeOf(a.Err) {
	case meta.CodeRequestExpired:
		w.closed = true
	case meta.CodeInvalidArgument, meta.CodeTooLarge: // judged before the request: the client was not seen
	default:
		w.seen = w.seen || a.Index > 0
	}
	w.ended[sequence%meta.RequestWindow/64] |= 1 << (sequence % 64)
	for w.oldest < w.free && w.isDone(w.oldest) {
		w.oldest++
	}
}

// spent reports whether the window has no further use: no number is out, and none can be handed out.
func (w *window) spent() bool {
	return w.oldest == w.free && (w.closed || w.free >= w.floor()+meta.RequestWindow)
}

func (w *window) isDone(sequence uint64) bool {
	return w.ended[sequence%meta.RequestWindow/64]>>(sequence%64)&1 == 1
}

func (w *window) clear(sequence uint64) {
	w.ended[sequence%meta.RequestWindow/64] &^= 1 << (sequence % 64)
}
