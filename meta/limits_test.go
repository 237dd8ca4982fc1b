package meta_test

import (
	"math"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/meta"
)

const (
	ok       = meta.Code(0)
	bad      = meta.CodeInvalidArgument
	tooLarge = meta.CodeTooLarge
)

var me = meta.Identity{NodeID: 1, NodeEpoch: 1}

// judge validates the command alone, with a request where it needs one.
func judge(c meta.Command) *meta.Error {
	p := meta.Proposal{Command: c}
	switch c.(type) {
	case meta.PrepareObjects, meta.Atomic:
		p.Request = &meta.Request{Client: id16(1), Sequence: 1}
	}
	return meta.Validate(p)
}

// expect checks the code, that the message says something, and that a refusal names its place.
func expect(t *testing.T, name string, err *meta.Error, want meta.Code, inner int) {
	t.Helper()
	if err == nil {
		if want != 0 {
			t.Errorf("%s is within the limits, want %s", name, want)
		}
		return
	}
	if err.Code != want {
		t.Errorf("%s: %v, want %s", name, err, want)
	}
	if err.Message == "" || err.Inner != inner {
		t.Errorf("%s: message %q, inner %d, want one, %d", name, err.Message, err.Inner, inner)
	}
}

func TestLimitsOfCommands(t *testing.T) {
	t.Parallel()
	node := func(f func(*meta.RegisterNode)) meta.Command {
		c := meta.RegisterNode{NodeID: 1, Instance: id16(1)}
		f(&c)
		return c
	}
	named := func(name string) meta.Command { return meta.CreateStream{Identity: me, Name: name} }
	labelled := func(labels ...meta.Label) meta.Command { return meta.LabelStream{StreamID: 1, Labels: labels} }
	tests := map[string]struct {
		c    meta.Command
		want meta.Code
	}{
		"no command":                   {nil, bad},
		"a pointer":                    {&meta.SetFormat{Level: 1}, bad},
		"registerNode":                 {node(func(*meta.RegisterNode) {}), ok},
		"node id 0":                    {node(func(c *meta.RegisterNode) { c.NodeID = 0 }), bad},
		"the largest node id":          {node(func(c *meta.RegisterNode) { c.NodeID = math.MaxUint64 }), ok},
		"no instance":                  {node(func(c *meta.RegisterNode) { c.Instance = [16]byte{} }), bad},
		"the largest epoch":            {node(func(c *meta.RegisterNode) { c.Epoch = math.MaxInt64 }), ok},
		"an epoch of 2^63":             {node(func(c *meta.RegisterNode) { c.Epoch = 1 << 63 }), tooLarge},
		"an address of 255":            {node(func(c *meta.RegisterNode) { c.Address = strings.Repeat("a", 255) }), ok},
		"an address of 256":            {node(func(c *meta.RegisterNode) { c.Address = strings.Repeat("a", 256) }), tooLarge},
		"an address not UTF-8":         {node(func(c *meta.RegisterNode) { c.Address = "\xff" }), bad},
		"labels of a node":             {node(func(c *meta.RegisterNode) { c.Labels = []meta.Label{{}} }), bad},
		"no identity":                  {meta.RenewNode{}, bad},
		"identity without node":        {meta.RenewNode{Identity: meta.Identity{NodeEpoch: 1}}, bad},
		"identity without epoch":       {meta.RenewNode{Identity: meta.Identity{NodeID: 1}}, ok}, // stale, says the state
		"identity of epoch 2^63":       {meta.RenewNode{Identity: meta.Identity{NodeID: 1, NodeEpoch: 1 << 63}}, tooLarge},
		"unregisterNode":               {meta.UnregisterNode{NodeID: 1}, ok},
		"unregisterNode of 0":          {meta.UnregisterNode{Epoch: 1}, bad},
		"unregisterNode of 2^63":       {meta.UnregisterNode{NodeID: 1, Epoch: 1 << 63}, tooLarge},
		"fenceNode by an operator":     {meta.FenceNode{NodeID: 1, Epoch: 1}, ok},
		"fenceNode of 0":               {meta.FenceNode{Rescuer: me}, bad},
		"fenceNode by node 0":          {meta.FenceNode{NodeID: 2, Rescuer: meta.Identity{NodeEpoch: 1}}, bad},
		"no name":                      {named(""), bad},
		"a name of 255":                {named(strings.Repeat("n", 255)), ok},
		"a name of 256":                {named(strings.Repeat("n", 256)), tooLarge},
		"a name not UTF-8":             {named("a\xc3"), bad},
		"a name with a tab":            {named("a\tb"), bad},
		"a name with DEL":              {named("a\x7f"), bad},
		"a name with a C1 control":     {named("a\u0085"), bad},
		"a name with U+00A0":           {named("a\u00a0"), ok},
		"a name with U+FFFD":           {named("a\ufffd"), ok},
		"a name with a soft hyphen":    {named("a\u00ad\u200b"), ok}, // Cf, not Cc
		"createStream of nobody":       {meta.CreateStream{Name: "a"}, bad},
		"stream id 0":                  {meta.OpenStream{Identity: me}, ok}, // never handed out, says the state
		"openStream at 2^63":           {meta.OpenStream{Identity: me, Epoch: 1 << 63}, tooLarge},
		"closeStream at 2^63":          {meta.CloseStream{Identity: me, Epoch: 1 << 63}, tooLarge},
		"trim to 2^63":                 {meta.TrimStream{Identity: me, StartOffset: 1 << 63}, tooLarge},
		"no labels":                    {labelled(), ok},
		"a label without name":         {labelled(meta.Label{Value: "v"}), bad},
		"a label without value":        {labelled(meta.Label{Name: "n"}), ok},
		"a label name of 256":          {labelled(meta.Label{Name: strings.Repeat("n", 256)}), ok},
		"a label name of 257":          {labelled(meta.Label{Name: strings.Repeat("n", 257)}), tooLarge},
		"a label value of 257":         {labelled(meta.Label{Name: "n", Value: strings.Repeat("v", 257)}), tooLarge},
		"a label value not UTF-8":      {labelled(meta.Label{Name: "n", Value: "\xff"}), bad},
		"a label twice, apart":         {labelled(meta.Label{Name: "n"}, meta.Label{Name: "m"}, meta.Label{Name: "n"}), bad},
		"32 labels":                    {labelled(manyLabels()...), ok},
		"33 labels":                    {labelled(append(manyLabels(), meta.Label{Name: "x"})...), tooLarge},
		"deleteStream by an operator":  {meta.DeleteStream{StreamID: 1}, ok},
		"deleteStream by node 0":       {meta.DeleteStream{Identity: meta.Identity{NodeEpoch: 1}}, bad},
		"a boundary of 2^63":           {meta.RecordTransfer{Identity: me, Boundary: 1 << 63}, tooLarge},
		"a reason of 1024":             {meta.ForceCloseStream{Reason: strings.Repeat("r", 1024)}, ok},
		"a reason of 1025":             {meta.ForceCloseStream{Reason: strings.Repeat("r", 1025)}, tooLarge},
		"prepare none":                 {meta.PrepareObjects{Identity: me}, bad},
		"prepare 1000":                 {meta.PrepareObjects{Identity: me, Count: 1000}, ok},
		"prepare 1001":                 {meta.PrepareObjects{Identity: me, Count: 1001}, tooLarge},
		"reclaim none":                 {meta.ReclaimObjects{}, bad},
		"reclaim 1000":                 {meta.ReclaimObjects{Limit: 1000}, ok},
		"reclaim 1001":                 {meta.ReclaimObjects{Limit: 1001}, tooLarge},
		"forget none":                  {meta.ForgetObjects{}, bad},
		"forget 1000":                  {meta.ForgetObjects{ObjectIDs: manyIDs()}, ok},
		"forget 1001":                  {meta.ForgetObjects{ObjectIDs: append(manyIDs(), 1)}, tooLarge},
		"forget one twice":             {meta.ForgetObjects{ObjectIDs: []uint64{3, 1, 3}}, bad},
		"forget id 0":                  {meta.ForgetObjects{ObjectIDs: []uint64{0}}, ok}, // never handed out, says the state
		"no key":                       {meta.PutKey{}, bad},
		"a key of 1024":                {meta.PutKey{Key: strings.Repeat("k", 1024)}, ok},
		"a key of 1025":                {meta.PutKey{Key: strings.Repeat("k", 1025)}, tooLarge},
		"a key not UTF-8":              {meta.PutKey{Key: "\xff"}, bad},
		"a value of 256 KiB":           {meta.PutKey{Key: "k", Value: make([]byte, 256<<10)}, ok},
		"a value above":                {meta.PutKey{Key: "k", Value: make([]byte, 256<<10+1)}, tooLarge},
		"put absent and at a version":  {meta.PutKey{Key: "k", IfAbsent: true, IfVersion: 1}, bad},
		"put by node 0":                {meta.PutKey{Key: "k", Identity: meta.Identity{NodeEpoch: 1}}, bad},
		"delete no key":                {meta.DeleteKey{}, bad},
		"delete by node 0":             {meta.DeleteKey{Key: "k", Identity: meta.Identity{NodeEpoch: 1}}, bad},
		"check absent":                 {meta.CheckKey{Key: "k", IfAbsent: true}, ok},
		"check nothing":                {meta.CheckKey{Key: "k"}, bad},
		"check both":                   {meta.CheckKey{Key: "k", IfAbsent: true, IfVersion: 1}, bad},
		"check no key":                 {meta.CheckKey{IfAbsent: true}, bad},
		"format level 0":               {meta.SetFormat{}, bad},
		"format level 1":               {meta.SetFormat{Level: 1}, ok},
		"forceCloseStream at 2^63":     {meta.ForceCloseStream{Epoch: 1 << 63}, tooLarge},
		"deleteStream at 2^63":         {meta.DeleteStream{Epoch: 1 << 63}, tooLarge},
		"recordTransfer at 2^63":       {meta.RecordTransfer{Identity: me, Epoch: 1 << 63}, tooLarge},
		"trimStream at 2^63":           {meta.TrimStream{Identity: me, Epoch: 1 << 63}, tooLarge},
		"fenceNode at 2^63":            {meta.FenceNode{NodeID: 2, Epoch: 1 << 63}, tooLarge},
		"closeStream of nobody":        {meta.CloseStream{StreamID: 1}, bad},
		"trimStream of nobody":         {meta.TrimStream{StreamID: 1}, bad},
		"recordTransfer of nobody":     {meta.RecordTransfer{StreamID: 1}, bad},
		"prepareObjects of nobody":     {meta.PrepareObjects{Count: 1}, bad},
		"openStream of nobody":         {meta.OpenStream{StreamID: 1}, bad},
		"reason not UTF-8":             {meta.ForceCloseStream{Reason: "\xff"}, bad},
		"address with a control":       {node(func(c *meta.RegisterNode) { c.Address = "a\nb" }), ok},
		"a label with a control":       {labelled(meta.Label{Name: "a\nb", Value: "\x00"}), ok},
		"a key with a control":         {meta.PutKey{Key: "a\x00b"}, ok},
		"the largest version":          {meta.PutKey{Key: "k", IfVersion: math.MaxUint64}, ok}, // differs, says the state
		"the largest format level":     {meta.SetFormat{Level: math.MaxUint64}, ok},            // too far, says the state
		"the largest renewal counter":  {meta.FenceNode{NodeID: 2, Renewals: math.MaxUint64}, ok},
		"the largest stream id":        {meta.OpenStream{Identity: me, StreamID: math.MaxUint64}, ok},
		"an early deadline":            {meta.PrepareObjects{Identity: me, Count: 1, Deadline: math.MinInt64}, ok},
		"registerNode at format 2^64":  {node(func(c *meta.RegisterNode) { c.FormatLevel = math.MaxUint64 }), ok},
		"the fenced node as a rescuer": {meta.FenceNode{NodeID: 1, Epoch: 1, Rescuer: me}, ok}, // after the identity check
	}
	for name, tt := range tests {
		expect(t, name, judge(tt.c), tt.want, -1)
	}
}

func TestLimitsOfObjects(t *testing.T) {
	t.Parallel()
	slice := meta.Slice{StreamID: 1, StreamEpoch: 1, StartOffset: 1, EndOffset: 2}
	with := func(f func(*meta.Slice)) []meta.Object {
		s := slice
		f(&s)
		return []meta.Object{{ObjectID: 1, Slices: []meta.Slice{slice, s}}}
	}
	numbered := func(n int, slices int) []meta.Object {
		out := make([]meta.Object, n)
		for i := range out {
			out[i].ObjectID = uint64(i)
		}
		for range slices {
			out[0].Slices = append(out[0].Slices, slice)
		}
		return out
	}
	tests := map[string]struct {
		objects []meta.Object
		want    meta.Code
	}{
		"an object without slices": {[]meta.Object{{ObjectID: 1}}, ok},
		"1000 objects":             {numbered(1000, 0), ok},
		"1001 objects":             {numbered(1001, 0), tooLarge},
		"10000 slices":             {numbered(2, 10_000), ok},
		"10001 slices":             {numbered(2, 10_001), tooLarge},
		"an object twice":          {[]meta.Object{{ObjectID: 2}, {ObjectID: 1}, {ObjectID: 2}}, bad},
		"an object twice in a row": {[]meta.Object{{ObjectID: 2}, {ObjectID: 2}}, bad},
		"objects descending":       {[]meta.Object{{ObjectID: 2}, {ObjectID: 1}}, ok},
		"attributes of 256":        {[]meta.Object{{ObjectID: 1, Attributes: make([]byte, 256)}}, ok},
		"attributes of 257":        {[]meta.Object{{ObjectID: 1, Attributes: make([]byte, 257)}}, tooLarge},
		"a size of 2^63":           {[]meta.Object{{ObjectID: 1, Size: 1 << 63}}, tooLarge},
		"the largest size":         {[]meta.Object{{ObjectID: 1, Size: math.MaxInt64}}, ok},
		"an empty slice":           {with(func(s *meta.Slice) { s.EndOffset = 1 }), bad},
		"a backward slice":         {with(func(s *meta.Slice) { s.EndOffset = 0 }), bad},
		"a slice from 2^63":        {with(func(s *meta.Slice) { s.StartOffset = 1 << 63 }), tooLarge},
		"a slice to 2^63":          {with(func(s *meta.Slice) { s.EndOffset = 1 << 63 }), tooLarge},
		"a slice at epoch 2^63":    {with(func(s *meta.Slice) { s.StreamEpoch = 1 << 63 }), tooLarge},
		"a position of 2^63":       {with(func(s *meta.Slice) { s.Position = 1 << 63 }), tooLarge},
		"a length of 2^63":         {with(func(s *meta.Slice) { s.Length = 1 << 63 }), tooLarge},
		"the largest slice":        {with(func(s *meta.Slice) { s.EndOffset, s.Length = math.MaxInt64, math.MaxInt64 }), ok},
	}
	for name, tt := range tests {
		expect(t, "commit: "+name, judge(meta.CommitObjects{Identity: me, Objects: tt.objects}), tt.want, -1)
		expect(t, "compact: "+name,
			judge(meta.CompactObjects{Identity: me, Sources: []uint64{9000}, Objects: tt.objects}), tt.want, -1)
	}
	expect(t, "commit nothing", judge(meta.CommitObjects{Identity: me}), bad, -1)
	expect(t, "compact into nothing", judge(meta.CompactObjects{Identity: me, Sources: []uint64{1}}), ok, -1)
	expect(t, "compact nothing", judge(meta.CompactObjects{Identity: me, Objects: []meta.Object{{ObjectID: 1}}}), bad, -1)
	expect(t, "a source twice", judge(meta.CompactObjects{Identity: me, Sources: []uint64{1, 1}}), bad, -1)
	expect(t, "1001 sources", judge(meta.CompactObjects{Identity: me, Sources: append(manyIDs(), 1)}), tooLarge, -1)
}

func TestLimitsOfRequests(t *testing.T) {
	t.Parallel()
	put := meta.PutKey{Key: "k"}
	tests := map[string]struct {
		request *meta.Request
		command meta.Command
		want    meta.Code
	}{
		"none":                        {nil, put, ok},
		"the first":                   {&meta.Request{Client: id16(1), Sequence: 1, Oldest: 1}, put, ok},
		"oldest 0 reads as 1":         {&meta.Request{Client: id16(1), Sequence: 256}, put, ok},
		"oldest 0, above the window":  {&meta.Request{Client: id16(1), Sequence: 257}, put, bad},
		"sequence 0":                  {&meta.Request{Client: id16(1)}, put, bad},
		"no client":                   {&meta.Request{Sequence: 1}, put, bad},
		"below the oldest":            {&meta.Request{Client: id16(1), Sequence: 6, Oldest: 7}, put, bad},
		"at the oldest":               {&meta.Request{Client: id16(1), Sequence: 7, Oldest: 7}, put, ok},
		"last of the window":          {&meta.Request{Client: id16(1), Sequence: 262, Oldest: 7}, put, ok},
		"above the window":            {&meta.Request{Client: id16(1), Sequence: 263, Oldest: 7}, put, bad},
		"the end of the numbers":      {&meta.Request{Client: id16(1), Sequence: math.MaxUint64, Oldest: math.MaxUint64}, put, ok},
		"of renewNode":                {&meta.Request{Client: id16(1), Sequence: 1}, meta.RenewNode{Identity: me}, bad},
		"prepareObjects without":      {nil, meta.PrepareObjects{Identity: me, Count: 1}, bad},
		"atomic without":              {nil, meta.Atomic{Commands: []meta.Command{put}}, bad},
		"before the command's limits": {&meta.Request{}, meta.PutKey{Key: strings.Repeat("k", 2000)}, bad},
	}
	for name, tt := range tests {
		expect(t, name, meta.Validate(meta.Proposal{Request: tt.request, Command: tt.command}), tt.want, -1)
	}
}

func TestLimitsOfAtomic(t *testing.T) {
	t.Parallel()
	put := meta.PutKey{Key: "k"}
	times := func(n int, c meta.Command) []meta.Command {
		out := make([]meta.Command, n)
		for i := range out {
			out[i] = c
		}
		return out
	}
	commit := meta.CommitObjects{Identity: me, Objects: manyObjects()} // 100 slices
	prepare := meta.PrepareObjects{Identity: me, Count: 1000}
	compact := meta.CompactObjects{Identity: me, Sources: manyIDs()}
	value := func(n int) meta.Command { return meta.PutKey{Key: "k", Value: make([]byte, n)} }
	// Four values of 256 KiB less 16 bytes each take 1 MiB less a little; the fifth fills up to exactly 1 MiB.
	full := append(times(4, value(256<<10-64)), value(0))
	room := meta.MaxCommandBytes - len(meta.AppendCommand(nil, meta.Atomic{Commands: full})) - 1 // its length takes 2 bytes
	tests := map[string]struct {
		commands []meta.Command
		want     meta.Code
		inner    int
	}{
		"nothing":                  {nil, bad, -1},
		"100 commands":             {times(100, put), ok, -1},
		"101 commands":             {times(101, put), tooLarge, -1},
		"atomic":                   {[]meta.Command{put, meta.Atomic{Commands: times(1, put)}}, bad, 1},
		"renewNode":                {[]meta.Command{put, put, meta.RenewNode{Identity: me}}, bad, 2},
		"setFormat":                {[]meta.Command{meta.SetFormat{Level: 1}}, bad, 0},
		"a bad one inside":         {[]meta.Command{put, meta.CreateStream{Identity: me}}, bad, 1},
		"one too large inside":     {[]meta.Command{put, value(256<<10 + 1)}, tooLarge, 1},
		"no command inside":        {[]meta.Command{nil}, bad, 0},
		"prepare without request":  {times(1, prepare), ok, -1}, // the outer one counts
		"10000 slices":             {times(100, commit), ok, -1},
		"10000 ids":                {times(10, prepare), ok, -1},
		"10001 ids":                {append(times(10, prepare), meta.ForgetObjects{ObjectIDs: []uint64{1}}), tooLarge, -1},
		"10001 limits":             {append(times(10, meta.ReclaimObjects{Limit: 1000}), meta.ReclaimObjects{Limit: 1}), tooLarge, -1},
		"10001 sources":            {append(times(10, compact), meta.PrepareObjects{Identity: me, Count: 1}), tooLarge, -1},
		"slices and ids together":  {append(times(9, prepare), times(11, commit)...), tooLarge, -1},
		"exactly 1 MiB":            {append(times(4, value(256<<10-64)), value(room)), ok, -1},
		"one byte more than 1 MiB": {append(times(4, value(256<<10-64)), value(room+1)), tooLarge, -1},
	}
	for name, tt := range tests {
		expect(t, name, judge(meta.Atomic{Commands: tt.commands}), tt.want, tt.inner)
	}
	b, err := meta.AppendProposal(nil, meta.Proposal{Command: meta.Atomic{Commands: tests["exactly 1 MiB"].commands}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := meta.DecodeProposal(b); err != nil {
		t.Errorf("a command of exactly 1 MiB does not decode: %v", err)
	}
}

// TestAtomicIsMeasuredExactly fills an Atomic with large commands of each kind, and with values up to the last byte that is
// allowed and one more: whatever estimate is made on the way, the limit is exact.
func TestAtomicIsMeasuredExactly(t *testing.T) {
	t.Parallel()
	name, address, reason := strings.Repeat("n", meta.MaxNameBytes), strings.Repeat("a", meta.MaxAddressBytes),
		strings.Repeat("r", meta.MaxReasonBytes)
	ids := manyIDs()
	for i := range ids {
		ids[i] = math.MaxUint64 - ids[i]
	}
	objects := make([]meta.Object, 100)
	for i := range objects {
		objects[i] = meta.Object{ObjectID: math.MaxUint64 - uint64(i), Size: math.MaxInt64,
			Attributes: make([]byte, meta.MaxAttributesBytes), Slices: []meta.Slice{{StreamID: math.MaxUint64,
				StreamEpoch: math.MaxInt64, StartOffset: math.MaxInt64 - 1, EndOffset: math.MaxInt64,
				Position: math.MaxInt64, Length: math.MaxInt64, MaxTimestamp: math.MinInt64}}}
	}
	top := meta.Identity{NodeID: math.MaxUint64, NodeEpoch: math.MaxInt64}
	key := strings.Repeat("k", meta.MaxKeyBytes)
	fillers := map[int][]meta.Command{ // by how many of it there are
		10: {
			meta.ForgetObjects{ObjectIDs: ids},
			meta.CompactObjects{Identity: top, Sources: ids[:900], Objects: objects},
			meta.CommitObjects{Identity: top, OnBehalfOf: math.MaxUint64, Objects: objects},
		},
		50: {
			meta.RegisterNode{NodeID: math.MaxUint64, Epoch: math.MaxInt64, Instance: id16(1), Address: address,
				Labels: manyLabels(), FormatLevel: math.MaxUint64},
			meta.CreateStream{Identity: top, Name: name, Labels: manyLabels()},
			meta.LabelStream{StreamID: math.MaxUint64, Labels: manyLabels()},
			meta.ForceCloseStream{StreamID: math.MaxUint64, Epoch: math.MaxInt64, WriteOff: true, Reason: reason},
			meta.DeleteKey{Identity: top, Key: key, IfVersion: math.MaxUint64},
			meta.CheckKey{Key: key, IfVersion: math.MaxUint64},
			meta.FenceNode{NodeID: math.MaxUint64, Epoch: math.MaxInt64, Renewals: math.MaxUint64,
				Rescuer: meta.Identity{NodeID: 1, NodeEpoch: math.MaxInt64}},
			meta.RecordTransfer{Identity: top, StreamID: math.MaxUint64, Epoch: math.MaxInt64, ToNode: math.MaxUint64,
				Boundary: math.MaxInt64},
		},
	}
	for n, kinds := range fillers {
		for _, c := range kinds {
			for over, want := range []meta.Code{ok, tooLarge} {
				a := fill(c, n, meta.MaxCommandBytes+over)
				if got := len(meta.AppendCommand(nil, a)); got != meta.MaxCommandBytes+over {
					t.Fatalf("%s: filled to %d bytes", meta.KindOf(c), got)
				}
				expect(t, meta.KindOf(c).String(), judge(a), want, -1)
			}
		}
	}
}

// fill returns an Atomic of n times c, and of values, that takes size bytes.
func fill(c meta.Command, n, size int) meta.Atomic {
	put := func(value int) meta.Command { return meta.PutKey{Key: "k", Value: make([]byte, value)} }
	takes := func(c meta.Command) int { return len(meta.AppendCommand(nil, c)) }
	var a meta.Atomic
	for range n {
		a.Commands = append(a.Commands, c)
	}
	room := size - takes(meta.Atomic{}) - n*takes(c)
	for large := put(200_000); room > 201_000; room -= takes(large) {
		a.Commands = append(a.Commands, large)
	}
	value := room - takes(put(0)) - 2 // the length of a value takes at most 2 bytes more than that of none
	for takes(put(value)) < room {
		value++
	}
	a.Commands = append(a.Commands, put(value))
	return a
}

// TestLargestCommandsHaveAnEncoding: what passes the limits can be proposed, and what can be proposed can be decoded.
// Otherwise a proposal could stop every node.
func TestLargestCommandsHaveAnEncoding(t *testing.T) {
	t.Parallel()
	objects := make([]meta.Object, meta.MaxPerCommand)
	for i := range objects {
		objects[i] = meta.Object{ObjectID: math.MaxUint64 - uint64(i), Size: math.MaxInt64,
			Attributes: make([]byte, meta.MaxAttributesBytes)}
		for range meta.MaxSlices / meta.MaxPerCommand {
			objects[i].Slices = append(objects[i].Slices, meta.Slice{StreamID: math.MaxUint64,
				StreamEpoch: math.MaxInt64, StartOffset: math.MaxInt64 - 1, EndOffset: math.MaxInt64,
				Position: math.MaxInt64, Length: math.MaxInt64, MaxTimestamp: math.MinInt64})
		}
	}
	top := meta.Identity{NodeID: math.MaxUint64, NodeEpoch: math.MaxInt64}
	sources := manyIDs()
	for i := range sources {
		sources[i] = math.MaxUint64 - sources[i]
	}
	for _, c := range []meta.Command{
		meta.CommitObjects{Identity: top, OnBehalfOf: math.MaxUint64, Objects: objects},
		meta.CompactObjects{Identity: top, Sources: sources, Objects: objects},
		meta.PutKey{Identity: top, Key: strings.Repeat("k", 1024), Value: make([]byte, meta.MaxValueBytes)},
	} {
		if err := judge(c); err != nil {
			t.Fatalf("%s: %v", meta.KindOf(c), err)
		}
		b := encode(t, meta.Proposal{Request: &meta.Request{}, Stamp: math.MinInt64, Command: c})
		if _, err := meta.DecodeProposal(b); err != nil {
			t.Errorf("%s of %d bytes: %v", meta.KindOf(c), len(b), err)
		}
	}
}
