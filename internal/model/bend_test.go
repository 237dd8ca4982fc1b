package model_test

import (
	"reflect"
	"strings"

	"github.com/headwaterdb/headwater/meta"
)

// bend changes one field of a copy of the command: off by one, at a limit, empty, twice, or not well formed. Inside
// Atomic it bends the list only.
func (g *gen) bend(c meta.Command) meta.Command {
	v := reflect.New(reflect.TypeOf(c)).Elem()
	v.Set(deepCopy(reflect.ValueOf(c)))
	var leaves []reflect.Value
	collect(v, &leaves)
	if len(leaves) > 0 {
		g.bendLeaf(leaves[g.r.IntN(len(leaves))])
	}
	return v.Interface().(meta.Command)
}

func deepCopy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(deepCopy(v.Field(i)))
		}
	case reflect.Slice:
		if v.IsNil() {
			return out
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(deepCopy(v.Index(i)))
		}
	}
	return out
}

func collect(v reflect.Value, leaves *[]reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			collect(v.Field(i), leaves)
		}
	case reflect.Slice:
		*leaves = append(*leaves, v)
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				collect(v.Index(i), leaves)
			}
		}
	case reflect.Interface:
	default:
		*leaves = append(*leaves, v)
	}
}

func (g *gen) bendLeaf(v reflect.Value) {
	switch v.Kind() {
	case reflect.Uint64:
		n := v.Uint()
		v.SetUint([]uint64{n + 1, n + 1, n - 1, n - 1, 0, 1 << 63, 1<<63 - 1, 1001, g.upTo(9)}[g.r.IntN(9)])
		if v.Uint() == 1<<63-1 && !g.chance(3) {
			v.SetUint(n + 2) // it would spoil the rest of the run too often
		}
	case reflect.Int64:
		v.SetInt(v.Int() + int64(g.upTo(20)) - 10)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString([]string{"", "\xff", "a\x00b", strings.Repeat("x", 255), strings.Repeat("x", 256),
			strings.Repeat("x", 257), strings.Repeat("x", 1025)}[g.r.IntN(7)])
	case reflect.Array:
		if g.chance(50) {
			v.SetZero()
			return
		}
		v.Index(0).SetUint(g.upTo(5))
	case reflect.Slice:
		switch n := v.Len(); {
		case n == 0 || g.chance(30):
			v.SetZero()
		case g.chance(50):
			v.Set(reflect.Append(v, v.Index(g.r.IntN(n))))
		default:
			v.Set(v.Slice(0, n-1))
		}
	}
}
