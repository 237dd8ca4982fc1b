// Package gen makes random commands for tests: well formed, and otherwise as wild as their types allow. It is no part
// of the product; only test files import it.
package gen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/headwaterdb/headwater/meta"
)

// zero holds the zero value of each command.
var zero = map[meta.Kind]meta.Command{
	meta.KindRegisterNode:     meta.RegisterNode{},
	meta.KindRenewNode:        meta.RenewNode{},
	meta.KindUnregisterNode:   meta.UnregisterNode{},
	meta.KindFenceNode:        meta.FenceNode{},
	meta.KindCreateStream:     meta.CreateStream{},
	meta.KindOpenStream:       meta.OpenStream{},
	meta.KindCloseStream:      meta.CloseStream{},
	meta.KindTrimStream:       meta.TrimStream{},
	meta.KindLabelStream:      meta.LabelStream{},
	meta.KindDeleteStream:     meta.DeleteStream{},
	meta.KindRecordTransfer:   meta.RecordTransfer{},
	meta.KindForceCloseStream: meta.ForceCloseStream{},
	meta.KindPrepareObjects:   meta.PrepareObjects{},
	meta.KindCommitObjects:    meta.CommitObjects{},
	meta.KindCompactObjects:   meta.CompactObjects{},
	meta.KindReclaimObjects:   meta.ReclaimObjects{},
	meta.KindForgetObjects:    meta.ForgetObjects{},
	meta.KindPutKey:           meta.PutKey{},
	meta.KindDeleteKey:        meta.DeleteKey{},
	meta.KindCheckKey:         meta.CheckKey{},
	meta.KindAtomic:           meta.Atomic{},
	meta.KindSetFormat:        meta.SetFormat{},
}

// results holds the zero value of each result.
var results = []meta.Result{
	meta.RegisterNodeResult{}, meta.RenewNodeResult{}, meta.CreateStreamResult{}, meta.OpenStreamResult{},
	meta.CloseStreamResult{}, meta.TrimStreamResult{}, meta.RecordTransferResult{}, meta.PrepareObjectsResult{},
	meta.CommitObjectsResult{}, meta.ReclaimObjectsResult{}, meta.ForgetObjectsResult{}, meta.PutKeyResult{},
	meta.SetFormatResult{}, meta.AtomicResult{},
}

// Command returns a command of kind k with random fields: numbers over their whole range and often at its ends, texts
// of UTF-8, lists of a few elements, labels sorted. Empty lists are nil, as a decoder returns them. It need not pass
// meta.Validate.
func Command(r *rand.Rand, k meta.Kind) meta.Command {
	c, ok := zero[k]
	if !ok {
		panic(fmt.Sprintf("gen: no command of kind %d", k))
	}
	v := reflect.New(reflect.TypeOf(c)).Elem()
	Fill(r, v)
	return v.Interface().(meta.Command)
}

// Proposal returns a random command of kind k in a proposal, with a request half of the time.
func Proposal(r *rand.Rand, k meta.Kind) meta.Proposal {
	p := meta.Proposal{Stamp: integer(r), Command: Command(r, k)}
	if r.IntN(2) == 0 {
		p.Request = new(meta.Request)
		Fill(r, reflect.ValueOf(p.Request).Elem())
	}
	return p
}

// Results returns one random result of each type.
func Results(r *rand.Rand) []meta.Result {
	out := make([]meta.Result, len(results))
	for i, res := range results {
		out[i] = result(r, res)
	}
	return out
}

func result(r *rand.Rand, like meta.Result) meta.Result {
	v := reflect.New(reflect.TypeOf(like)).Elem()
	Fill(r, v)
	return v.Interface().(meta.Result)
}

// Fill sets v, and all that is in it, to random values. It fails for a type that it does not know, so that no field of a
// command or record is left out unseen.
func Fill(r *rand.Rand, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *meta.Status:
		*p = meta.Applied + meta.Status(r.IntN(2))
		return
	case *[]meta.Label:
		*p = labels(r)
		return
	case *meta.Command:
		*p = Command(r, inner[r.IntN(len(inner))])
		return
	case *meta.Result:
		*p = nil
		if i := r.IntN(len(results)); i > 0 { // the last one is Atomic's, which stands inside none
			*p = result(r, results[i-1])
		}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int: // a position in a row
		v.SetInt(int64(r.IntN(256)))
	case reflect.Int64:
		v.SetInt(integer(r))
	case reflect.Uint64:
		v.SetUint(number(r))
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	case reflect.String:
		v.SetString(text(r))
	case reflect.Array:
		for i := range v.Len() {
			Fill(r, v.Index(i))
		}
	case reflect.Slice:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				Fill(r, v.Index(i))
			}
		}
	case reflect.Pointer:
		v.SetZero()
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			Fill(r, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			Fill(r, v.Field(i))
		}
	default:
		panic(fmt.Sprintf("gen: cannot fill %s", v.Type()))
	}
}

// inner holds the kinds that may stand inside Atomic as far as the encoding is concerned.
var inner = slices.DeleteFunc(meta.Kinds(), func(k meta.Kind) bool { return k == meta.KindAtomic })

func number(r *rand.Rand) uint64 {
	switch r.IntN(4) {
	case 0:
		edges := []uint64{0, 1, 127, 128, 1 << 31, 1<<53 + 1, 1<<63 - 1, 1 << 63, math.MaxUint64}
		return edges[r.IntN(len(edges))]
	case 1:
		return r.Uint64() >> r.IntN(64)
	default:
		return r.Uint64N(300)
	}
}

func integer(r *rand.Rand) int64 { return int64(number(r)) }

func text(r *rand.Rand) string {
	letters := []rune("abz09-_/. \t\"\\<&\u00df\u20ac\U0001f30a\u2028\x00")
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

func labels(r *rand.Rand) []meta.Label {
	var out []meta.Label
	for range r.IntN(4) {
		out = append(out, meta.Label{Name: text(r), Value: text(r)})
	}
	slices.SortFunc(out, func(a, b meta.Label) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b meta.Label) bool { return a.Name == b.Name })
}
