package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) keyCommand() *cobra.Command {
	return noun("key", "Keys: a small key space beside the streams", `  headwater key put topics/orders '{"partitions": 3}' --if-absent
  headwater key get topics/orders
  headwater key list --prefix topics/`, a.keyGet(), a.keyPut(), a.keyDelete(), a.keyList())
}

var keyColumns = []column[*headwaterv1.Key]{
	{"key", func(k *headwaterv1.Key) string { return text(k.GetKey()) }},
	{"version", func(k *headwaterv1.Key) string { return number(k.GetVersion()) }},
	{"value", func(k *headwaterv1.Key) string { return content(k.GetValue()) }},
}

func (a *app) keyGet() *cobra.Command {
	var raw bool
	c := &cobra.Command{
		Use: "get KEY", Short: "Show a key", Args: cobra.ExactArgs(1),
		Example: "  headwater key get topics/orders\n  headwater key get topics/orders --raw > value",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				r, err := call(ctx, c.rpc.GetKey, &headwaterv1.GetKeyRequest{Read: c.read, Key: args[0]})
				if err != nil {
					return err
				}
				if r.GetKey() == nil {
					return refused(fmt.Errorf("no key %q", args[0]), "")
				}
				if raw {
					_, err := a.out.Write(r.GetKey().GetValue())
					return err
				}
				return newPrinter(a, keyColumns).show(r.GetKey())
			})
		},
	}
	c.Flags().BoolVar(&raw, "raw", false, "write the value and nothing else")
	return a.reads(c)
}

// maxValue is one more than the largest value, so that a larger one is refused by the rules and not cut.
const maxValue = 256<<10 + 1

func (a *app) keyPut() *cobra.Command {
	var who identityFlag
	m := &headwaterv1.PutKey{}
	var file string
	c := &cobra.Command{
		Use: "put KEY [VALUE]", Short: "Write a key", Args: cobra.RangeArgs(1, 2),
		Example: "  headwater key put topics/orders v1 --if-absent\n  headwater key put topics/orders --file value.json --if-version 2817",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			m.Key = args[0]
			switch {
			case len(args) == 2 && file == "":
				m.Value = []byte(args[1])
			case len(args) == 1 && file != "":
				if m.Value, err = readValue(a.in, file); err != nil {
					return err
				}
			default:
				return usagef("the value is needed once, as an argument or with --file")
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (_ *headwaterv1.Command, err error) {
				m.Identity, err = who.resolve(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_PutKey{PutKey: m}}, err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&file, "file", "", "read the value from this `file`; -: standard input")
	f.BoolVar(&m.IfAbsent, "if-absent", false, "only if the key is absent")
	f.Uint64Var(&m.IfVersion, "if-version", 0, "only if the key has this `version`")
	exclusive(c, "if-absent", "if-version")
	acting(c, &who, "write it")
	return a.writes(c)
}

func readValue(stdin io.Reader, file string) ([]byte, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usagef("read value: %w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxValue))
	if err != nil {
		return nil, unavailable(fmt.Errorf("read value: %w", err), "")
	}
	return b, nil
}

func (a *app) keyDelete() *cobra.Command {
	var who identityFlag
	m := &headwaterv1.DeleteKey{}
	c := &cobra.Command{
		Use: "delete KEY", Short: "Remove a key", Args: cobra.ExactArgs(1),
		Example: "  headwater key delete topics/orders --if-version 2817",
		RunE: func(cmd *cobra.Command, args []string) error {
			m.Key = args[0]
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (_ *headwaterv1.Command, err error) {
				m.Identity, err = who.resolve(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_DeleteKey{DeleteKey: m}}, err
			})
		},
	}
	c.Flags().Uint64Var(&m.IfVersion, "if-version", 0, "only if the key has this `version`")
	acting(c, &who, "remove it")
	return a.writes(c)
}

func (a *app) keyList() *cobra.Command {
	q := &headwaterv1.ListKeysRequest{}
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List keys in order", Args: cobra.NoArgs,
		Example: "  headwater key list --prefix topics/ -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				p := newPrinter(a, keyColumns)
				err := list(limit, func(page *headwaterv1.Page) ([]*headwaterv1.Key, string, error) {
					q.Read, q.Page = c.read, page
					r, err := call(ctx, c.rpc.ListKeys, clone(q))
					return r.GetKeys(), r.GetNextCursor(), err
				}, p.add)
				return firstError(err, p.close())
			})
		},
	}
	c.Flags().StringVar(&q.Prefix, "prefix", "", "only keys that begin like this")
	c.Flags().BoolVar(&q.KeysOnly, "keys-only", false, "leave the values out")
	limitFlag(c, &limit)
	return a.reads(c)
}
