package meta_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headwaterdb/headwater/meta"
)

func TestProposalRoundTrip(t *testing.T) {
	t.Parallel()
	p := meta.Proposal{
		Request: &meta.Request{Client: [16]byte{1}, Sequence: 3, Oldest: 2},
		Stamp:   1_700_000_000_000,
		Command: meta.CommitObjects{Identity: meta.Identity{NodeID: 1, NodeEpoch: 2}, Objects: []meta.Object{
			{ObjectID: 7, Size: 1000, Attributes: []byte("etag"), Slices: []meta.Slice{
				{StreamID: 1, StreamEpoch: 1, StartOffset: 0, EndOffset: 300, Position: 0, Length: 600, MaxTimestamp: -5},
			}},
			{ObjectID: 8, Size: 1},
		}},
	}
	b, err := meta.AppendProposal(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := meta.DecodeProposal(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, got); d != "" {
		t.Fatalf("decoded otherwise (-sent +got):\n%s", d)
	}
}
