package meta

import (
	"bytes"
	"reflect"
	"testing"
	"unsafe"
)

// Internal, because it looks at the fields of the records, which nobody outside knows of.

// TestDigestCoversEveryField changes every field of every record, one at a time, and sees the encoding change that the
// digest is made of. A field that is not part of the encoding has to be named here, with the reason.
func TestDigestCoversEveryField(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{
		"stream.rare":       "reservation and transfer are covered below; the rest are entries of their own",
		"stream.slices":     "entries of their own",
		"stream.name":       "its hash stands for it, see below",
		"stream.labels":     "their hash stands for them, see below",
		"streamRare.ranges": "entries of their own",
		"streamRare.debts":  "entries of their own",
		"streamRare.losses": "entries of their own",
		"streamRare.sum":    "the sum of these entries",
		"client.results":    "entries of their own",
		"client.sum":        "the sum of these entries",
		"client.own":        "none in a state that is finished: Verify says so",
		"object.unreleased": "follows from the slices, which are entries of their own",
		"content.data":      "its hash stands for it",
		"content.id":        "the object's id, which is part of its entry",
		"sliceRef.object":   "its id is part of the entry",
		"sliceRef.length":   "follows from start and content",
	}
	type names struct {
		name   string
		labels []Label
	}
	packed := newContent(9, []byte{1, 0, 0})
	rare := func() *streamRare { return &streamRare{reservedFor: 3, transfer: &transfer{1, 2, 3}} }
	for _, record := range []struct {
		sample any
		encode func(any) []byte
	}{
		{&node{epoch: 1, instances: [][16]byte{{1}, {2}}, registered: true, address: "a", labels: []Label{{"k", "v"}}, format: 1, renewals: 1, fenced: true, rescuer: Identity{1, 2}, registeredIndex: 5},
			func(v any) []byte { return appendNode(nil, 7, v.(*node)) }},
		{&stream{name: "name", labels: []Label{{"k", "v"}}, named: sum{1, 2}, rare: rare(), owner: Identity{1, 2}, epoch: 3, start: 4, end: 5, rangeEpoch: 6, rangeStart: 7, open: true},
			func(v any) []byte { return appendStream(nil, 7, v.(*stream)) }},
		{&names{"name", []Label{{"k", "v"}}}, func(v any) []byte {
			s := &stream{}
			s.setNames(v.(*names).name, v.(*names).labels)
			return appendStream(nil, 7, s)
		}},
		{rare(), func(v any) []byte { return appendStream(nil, 7, &stream{rare: v.(*streamRare)}) }},
		{&transfer{1, 2, 3}, func(v any) []byte {
			return appendStream(nil, 7, &stream{rare: &streamRare{transfer: v.(*transfer)}})
		}},
		{&pastRange{1, 2, 3}, func(v any) []byte { return appendRange(nil, 7, 8, *v.(*pastRange)) }},
		{&debt{1, 2, 3, 4}, func(v any) []byte { return appendDebt(nil, 7, *v.(*debt)) }},
		{&loss{1, 2}, func(v any) []byte { return appendLoss(nil, 7, *v.(*loss)) }},
		{&keyRecord{"value", 1}, func(v any) []byte { return appendKey(nil, "key", *v.(*keyRecord)) }},
		{&client{oldest: 1, seen: 2}, func(v any) []byte { return appendClient(nil, "0123456789abcdef", v.(*client)) }},
		{&keptAnswer{index: 1, position: 2, payload: sum{1, 2}, status: Applied, code: 4, inner: 5, result: "r"},
			func(v any) []byte { return appendKept(nil, "0123456789abcdef", 9, v.(*keptAnswer)) }},
		{&object{content: packed, owner: 1, deadline: 2, committedAt: 3, deletableAt: 4, deletableStamp: 5, state: ObjectCommitted},
			func(v any) []byte { return appendObject(nil, 9, v.(*object)) }},
		{newContent(9, []byte{1, 0, 0}), func(v any) []byte { return appendObject(nil, 9, &object{content: v.(*content)}) }},
		{&sliceRef{start: 1, object: packed, at: 2, length: 3}, func(v any) []byte { return appendSliceRef(nil, 7, *v.(*sliceRef)) }},
	} {
		v := reflect.ValueOf(record.sample).Elem()
		was := record.encode(record.sample)
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			if _, ok := elsewhere[name]; ok {
				delete(elsewhere, name)
				continue
			}
			eachChange(t, name, writable(v.Field(i)), func(what string) {
				if bytes.Equal(was, record.encode(record.sample)) {
					t.Errorf("%s is not part of the digest", what)
				}
			})
		}
		if !bytes.Equal(was, record.encode(record.sample)) {
			t.Fatalf("%s was not put back", v.Type())
		}
	}
	for name := range elsewhere {
		t.Errorf("%s is excused, but there is no such field", name)
	}
}

// writable returns a field that can be set although it is unexported.
func writable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// eachChange changes v in every way that its kind has, calls seen after each change, and puts it back.
func eachChange(t *testing.T, name string, v reflect.Value, seen func(what string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	changeTo := func(what string, new any) {
		v.Set(reflect.ValueOf(new).Convert(v.Type()))
		seen(what)
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Bool:
		changeTo(name, !v.Bool())
	case reflect.Int, reflect.Int64:
		changeTo(name, v.Int()+1)
		changeTo(name, -v.Int()-1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		changeTo(name, v.Uint()+1)
		if v.Kind() == reflect.Uint64 {
			changeTo(name, ^v.Uint())
		}
	case reflect.String:
		changeTo(name, v.String()+"x")
		changeTo(name, "")
	case reflect.Pointer: // a shared record: another one, or none
		if v.Type() == reflect.TypeFor[*transfer]() || v.Type() == reflect.TypeFor[*content]() {
			v.SetZero()
			seen(name + " gone")
		} else {
			t.Fatalf("%s: say how to change a %s", name, v.Type())
		}
		v.Set(old)
	case reflect.Struct:
		for i := range v.NumField() {
			eachChange(t, name+"."+v.Type().Field(i).Name, writable(v.Field(i)), seen)
		}
	case reflect.Array:
		eachChange(t, name+"[0]", v.Index(0), seen)
		eachChange(t, name+"[last]", v.Index(v.Len()-1), seen)
	case reflect.Slice:
		for i := range v.Len() {
			eachChange(t, name+" element", v.Index(i), seen)
		}
		changeTo(name+" shorter", v.Slice(0, v.Len()-1).Interface())
	default:
		t.Fatalf("%s: say how to change a %s", name, v.Kind())
	}
}

// TestDigestCoversCounters: the digest is over the counters too, and over both sums.
func TestDigestCoversCounters(t *testing.T) {
	t.Parallel()
	s := NewState()
	was := s.Digest()
	for name, change := range map[string]func(*State){
		"index": func(s *State) { s.index++ }, "format": func(s *State) { s.format++ },
		"nextStream": func(s *State) { s.nextStream++ }, "nextObject": func(s *State) { s.nextObject++ },
		"sum.hi": func(s *State) { s.sum.hi++ }, "sum.lo": func(s *State) { s.sum.lo++ },
		"requestSum.hi": func(s *State) { s.requestSum.hi++ }, "requestSum.lo": func(s *State) { s.requestSum.lo++ },
	} {
		c := *s
		change(&c)
		if c.Digest() == was {
			t.Errorf("%s is not part of the digest", name)
		}
	}
}

// TestEntriesDoNotMix: an entry of one kind is never the encoding of one of another kind, or of another key.
func TestEntriesDoNotMix(t *testing.T) {
	t.Parallel()
	for i, pair := range [][2][]byte{
		{appendKey(nil, "ab", keyRecord{"c", 1}), appendKey(nil, "a", keyRecord{"bc", 1})},
		{appendStreamNames(nil, &stream{name: "ab"}), appendStreamNames(nil, &stream{name: "a", labels: []Label{{"b", ""}}})},
		{appendStreamNames(nil, &stream{labels: []Label{{"a", "bc"}}}), appendStreamNames(nil, &stream{labels: []Label{{"ab", "c"}}})},
		{appendLoss(nil, 1, loss{2, 3}), appendDebt(nil, 1, debt{start: 2, boundary: 3})},
		{appendRange(nil, 1, 2, pastRange{3, 4, 5}), appendDebt(nil, 1, debt{2, 3, 4, 5})},
		{[]byte(labelKey(Label{"a", "bc"})), []byte(labelKey(Label{"ab", "c"}))},
	} {
		if bytes.Equal(pair[0], pair[1]) {
			t.Errorf("pair %d: both are %x", i, pair[0])
		}
	}
}

// TestVerifySees changes what is derived, and the sums, one at a time: a check that finds nothing is worth nothing.
func TestVerifySees(t *testing.T) {
	t.Parallel()
	s := NewState()
	for _, p := range []Proposal{
		{Command: RegisterNode{NodeID: 1, Instance: [16]byte{1}}},
		{Command: CreateStream{Identity: Identity{1, 1}, Name: "a", Labels: []Label{{"k", "v"}}}},
		{Command: OpenStream{Identity: Identity{1, 1}, StreamID: 1}},
		{Command: CreateStream{Identity: Identity{1, 1}, Name: "b"}},
		{Command: OpenStream{Identity: Identity{1, 1}, StreamID: 2}},
		{Command: RecordTransfer{Identity: Identity{1, 1}, StreamID: 2, Epoch: 1, Boundary: 10}},
		{Command: PutKey{Key: "k"}, Request: &Request{Client: [16]byte{1}, Sequence: 1}},
	} {
		var answers []Answer
		if s, answers = ApplyProposals(s, p); answers[0].Status != Applied {
			t.Fatal(answers[0].Err)
		}
	}
	if err := s.Verify(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*tx){
		"sum":         func(t *tx) { t.sum.lo++ },
		"requestSum":  func(t *tx) { t.requestSum.hi++ },
		"names":       func(t *tx) { t.names.Delete(t.edit, "a") },
		"owners":      func(t *tx) { removeID(t.edit, &t.owners, 1, 1) },
		"debtors":     func(t *tx) { t.debtors.Delete(t.edit, 1) },
		"labels":      func(t *tx) { removeID(t.edit, &t.labels, labelKey(Label{"k", "v"}), 1) },
		"seen":        func(t *tx) { t.seen.Set(t.edit, 5, "x") },
		"levels":      func(t *tx) { t.levels.Set(t.edit, 2, 1) },
		"registered":  func(t *tx) { t.registered++ },
		"openStreams": func(t *tx) { t.openStreams-- },
		"debts":       func(t *tx) { t.debts++ },
		"results":     func(t *tx) { t.results-- },
		"node":        func(t *tx) { n := *t.node(1); n.renewals++; t.nodes.Set(t.edit, 1, &n) },
		"stream":      func(t *tx) { s := *t.stream(1); s.end++; t.streams.Set(t.edit, 1, &s) },
		"debt": func(t *tx) {
			s := *t.stream(2)
			s.rare = rareOf(&s)
			s.rare.debts = []debt{{epoch: 1, node: 1, start: 0, boundary: 9}}
			t.streams.Set(t.edit, 2, &s)
		},
		"a debt beyond the end": func(t *tx) {
			s := *t.stream(2)
			s.end = 5
			t.setStream(2, &s)
		},
		"key": func(t *tx) { t.keys.Set(t.edit, "k", keyRecord{"", 9}) },
		"client": func(t *tx) {
			id := string(append([]byte{1}, make([]byte, 15)...))
			c, _ := t.clients.Get(id)
			d := *c
			d.oldest++
			t.clients.Set(t.edit, id, &d)
		},
	} {
		c := newTx(s, s.index)
		change(c)
		if c.Verify() == nil {
			t.Errorf("Verify does not see a wrong %s", name)
		}
	}
}
