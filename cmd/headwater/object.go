package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headwaterdb/headwater/api"
	headwaterv1 "github.com/headwaterdb/headwater/api/headwater/v1"
)

func (a *app) objectCommand() *cobra.Command {
	return noun("object", "Objects: uploaded files that hold slices of streams", `  headwater object list --state deletable
  headwater object show 4
  headwater object candidates orders-0`,
		a.objectList(), a.objectShow(), a.objectCandidates(), a.objectPrepare(), a.objectCommit(), a.objectCompact(),
		a.objectReclaim(), a.objectForget())
}

var objectColumns = []column[*headwaterv1.StoredObject]{
	{"id", func(o *headwaterv1.StoredObject) string { return number(o.GetId()) }},
	{"state", func(o *headwaterv1.StoredObject) string { return strings.ToLower(o.GetState().String()) }},
	{"node", func(o *headwaterv1.StoredObject) string { return number(o.GetNodeId()) }},
	{"size", func(o *headwaterv1.StoredObject) string { return size(o.GetSize()) }},
	{"live slices", func(o *headwaterv1.StoredObject) string { return number(o.GetLiveSlices()) }},
	{"deadline", func(o *headwaterv1.StoredObject) string { return moment(o.GetDeadline()) }},
	{"committed at", func(o *headwaterv1.StoredObject) string { return numberOrNone(o.GetCommittedIndex()) }},
	{"deletable at", func(o *headwaterv1.StoredObject) string { return numberOrNone(o.GetDeletableIndex()) }},
	{"attributes", func(o *headwaterv1.StoredObject) string { return content(o.GetAttributes()) }},
}

func (a *app) objectList() *cobra.Command {
	q := &headwaterv1.ListObjectsRequest{}
	var limit int
	var state, expired string
	c := &cobra.Command{
		Use: "list", Short: "List objects by id, in one state or in all", Args: cobra.NoArgs,
		Example: "  headwater object list --state deletable -o json\n  headwater object list --expired now",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if state != "" {
				v, ok := headwaterv1.StoredObject_State_value[strings.ToUpper(state)]
				if !ok || v == 0 {
					return usagef("--state takes prepared, committed or deletable")
				}
				q.State = headwaterv1.StoredObject_State(v)
			}
			if expired != "" {
				q.State = headwaterv1.StoredObject_PREPARED
				if q.ExpiredAt, err = parseTime(expired); err != nil {
					return err
				}
			}
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				p := newPrinter(a, objectColumns)
				err := list(limit, func(page *headwaterv1.Page) ([]*headwaterv1.StoredObject, string, error) {
					q.Read, q.Page = c.read, page
					r, err := call(ctx, c.rpc.ListObjects, clone(q))
					return r.GetObjects(), r.GetNextCursor(), err
				}, p.add)
				return firstError(err, p.close())
			})
		},
	}
	c.Flags().StringVar(&state, "state", "", "only prepared, committed or deletable ones")
	c.Flags().StringVar(&expired, "expired", "", "only prepared ones whose deadline is below this `time`, earliest first")
	c.Flags().BoolVar(&q.Brief, "brief", false, "leave the slices out of JSON")
	exclusive(c, "state", "expired")
	complete(c, "state", "prepared", "committed", "deletable")
	limitFlag(c, &limit)
	return a.reads(c)
}

// parseTime reads milliseconds since 1970, an RFC 3339 time, now, or a duration from now such as 1h or -5m.
func parseTime(s string) (int64, error) {
	if s == "now" {
		return time.Now().UnixMilli(), nil
	}
	if d, err := time.ParseDuration(s); err == nil && s != "0" {
		return time.Now().Add(d).UnixMilli(), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UnixMilli(), nil
	}
	var ms int64
	if _, err := fmt.Sscanf(s+"\n", "%d\n", &ms); err != nil {
		return 0, usagef("%q is no time: give milliseconds since 1970, 2006-01-02T15:04:05Z, now, or 1h for an hour from now", printable(s))
	}
	return ms, nil
}

func (a *app) objectShow() *cobra.Command {
	return a.reads(&cobra.Command{
		Use: "show OBJECT", Short: "Show an object and its slices", Args: cobra.ExactArgs(1),
		Example: "  headwater object show 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("object", args[0])
			if err != nil {
				return err
			}
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				r, err := call(ctx, c.rpc.GetObject, &headwaterv1.GetObjectRequest{Read: c.read, ObjectId: id})
				if err != nil {
					return err
				}
				if err := newPrinter(a, objectColumns).show(r.GetObject()); err != nil || a.output == "json" {
					return err
				}
				return a.printSlices(r.GetObject().GetSlices())
			})
		},
	})
}

var sliceColumns = []column[*headwaterv1.Slice]{
	{"stream", func(s *headwaterv1.Slice) string { return number(s.GetStreamId()) }},
	{"epoch", func(s *headwaterv1.Slice) string { return number(s.GetStreamEpoch()) }},
	{"start", func(s *headwaterv1.Slice) string { return number(s.GetStartOffset()) }},
	{"end", func(s *headwaterv1.Slice) string { return number(s.GetEndOffset()) }},
	{"position", func(s *headwaterv1.Slice) string { return number(s.GetPosition()) }},
	{"length", func(s *headwaterv1.Slice) string { return number(s.GetLength()) }},
	{"max timestamp", func(s *headwaterv1.Slice) string { return numberOrNone(s.GetMaxTimestamp()) }},
}

func (a *app) printSlices(slices []*headwaterv1.Slice) error {
	if len(slices) > 0 {
		fmt.Fprintln(a.out)
	}
	p := newPrinter(a, sliceColumns)
	for _, s := range slices {
		if err := p.add(s); err != nil {
			return err
		}
	}
	return p.close()
}

var candidateColumns = []column[*headwaterv1.CompactionCandidate]{
	{"object", func(c *headwaterv1.CompactionCandidate) string { return number(c.GetObjectId()) }},
	{"size", func(c *headwaterv1.CompactionCandidate) string { return size(c.GetObjectSize()) }},
	{"small slices", func(c *headwaterv1.CompactionCandidate) string { return number(c.GetSmallSlices()) }},
	{"small bytes", func(c *headwaterv1.CompactionCandidate) string { return size(c.GetSmallBytes()) }},
}

func (a *app) objectCandidates() *cobra.Command {
	q := &headwaterv1.ListCompactionCandidatesRequest{}
	var limit int
	c := a.streamArg(&cobra.Command{
		Use: "candidates STREAM", Short: "List the objects with the most small slices of a stream",
		Example: "  headwater object candidates orders-0 --small-below 65536",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, toRead, func(ctx context.Context, c *cluster) error {
				s, err := findStream(ctx, c, args[0])
				if err != nil {
					return err
				}
				p := newPrinter(a, candidateColumns)
				err = list(limit, func(page *headwaterv1.Page) ([]*headwaterv1.CompactionCandidate, string, error) {
					q.Read, q.Page, q.StreamId = c.read, page, s.GetId()
					r, err := call(ctx, c.rpc.ListCompactionCandidates, clone(q))
					return r.GetCandidates(), r.GetNextCursor(), err
				}, p.add)
				return firstError(err, p.close())
			})
		},
	})
	c.Flags().Uint64Var(&q.SmallBelow, "small-below", 1<<20, "what counts as small, in `bytes`")
	limitFlag(c, &limit)
	return a.reads(c)
}

func (a *app) objectPrepare() *cobra.Command {
	var who identityFlag
	var deadline string
	m := &headwaterv1.PrepareObjects{}
	c := &cobra.Command{
		Use: "prepare", Short: "Take ids for objects that are going to be uploaded", Args: cobra.NoArgs,
		Example: "  headwater object prepare --as 1 --count 3 --deadline 1h",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if m.Deadline, err = parseTime(deadline); err != nil {
				return err
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (_ *headwaterv1.Command, err error) {
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_PrepareObjects{PrepareObjects: m}}, err
			})
		},
	}
	c.Flags().Uint64Var(&m.Count, "count", 1, "how many, 1 to 1000")
	c.Flags().StringVar(&deadline, "deadline", "1h", "`time` after which they may be given up if not committed")
	acting(c, &who, "prepare them")
	return a.writes(c)
}

const objectsFormat = `FILE (or - for standard input) holds one object after another in the JSON of the API:

  {"objectId": 1, "size": 1000, "slices": [{"streamId": 1, "streamEpoch": 1, "startOffset": 0, "endOffset": 100,
   "position": 0, "length": 1000}]}`

func (a *app) objectCommit() *cobra.Command {
	var who identityFlag
	m := &headwaterv1.CommitObjects{}
	c := &cobra.Command{
		Use: "commit FILE", Short: "Make the records of uploaded objects part of their streams", Args: cobra.ExactArgs(1),
		Long:    "Make the records of uploaded objects part of their streams, all or nothing.\n\n" + objectsFormat,
		Example: "  headwater object commit objects.json --as 1",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if m.Objects, err = readObjects(a.in, args[0]); err != nil {
				return err
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (_ *headwaterv1.Command, err error) {
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_CommitObjects{CommitObjects: m}}, err
			})
		},
	}
	c.Flags().Uint64Var(&m.OnBehalfOf, "on-behalf-of", 0, "a fenced `node` on which the acting node holds the claim")
	acting(c, &who, "commit them")
	return a.writes(c)
}

func (a *app) objectCompact() *cobra.Command {
	var who identityFlag
	var sources []string
	m := &headwaterv1.CompactObjects{}
	c := &cobra.Command{
		Use: "compact [FILE]", Short: "Replace objects by others that hold the same live slices", Args: cobra.MaximumNArgs(1),
		Long: "Replace committed objects by others that hold the same live slices. Without a file nothing takes the place of\n" +
			"sources that hold nothing live.\n\n" + objectsFormat,
		Example: "  headwater object compact merged.json --source 1,2 --as 2",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if m.Sources, err = parseIDs("source", sources); err != nil {
				return err
			}
			if len(args) == 1 {
				if m.Objects, err = readObjects(a.in, args[0]); err != nil {
					return err
				}
			}
			return a.proposeOne(cmd, func(ctx context.Context, c *cluster) (_ *headwaterv1.Command, err error) {
				m.Identity, err = who.required(ctx, c)
				return &headwaterv1.Command{Command: &headwaterv1.Command_CompactObjects{CompactObjects: m}}, err
			})
		},
	}
	c.Flags().StringSliceVar(&sources, "source", nil, "`id` of an object to replace; several, separated by commas")
	acting(c, &who, "compact them")
	return a.writes(c)
}

// readObjects reads objects in the JSON of the API. Unknown fields are refused.
func readObjects(stdin io.Reader, file string) ([]*headwaterv1.Object, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usagef("read objects: %w", err)
		}
		defer f.Close()
		in = f
	}
	var objects []*headwaterv1.Object
	for d := json.NewDecoder(io.LimitReader(in, maxLine)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); err == io.EOF {
			return objects, nil
		} else if err != nil {
			return nil, refused(fmt.Errorf("object %d: %w", len(objects)+1, err), "")
		}
		o := &headwaterv1.Object{}
		if err := api.UnmarshalJSON(raw, o); err != nil {
			return nil, refused(fmt.Errorf("object %d: %w", len(objects)+1, err), "")
		}
		objects = append(objects, o)
	}
}

func (a *app) objectReclaim() *cobra.Command {
	m := &headwaterv1.ReclaimObjects{}
	var at string
	var all bool
	c := &cobra.Command{
		Use: "reclaim", Short: "Release what nothing reads any more, and mark objects whose bytes may be deleted", Args: cobra.NoArgs,
		Example: "  headwater object reclaim --limit 1000\n  headwater object reclaim --all",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if m.Time, err = parseTime(at); err != nil {
				return err
			}
			build := func(context.Context, *cluster) (*headwaterv1.Command, error) {
				return &headwaterv1.Command{Command: &headwaterv1.Command_ReclaimObjects{
					ReclaimObjects: clone(m)}}, nil
			}
			if !all {
				return a.proposeOne(cmd, build)
			}
			return a.reclaimAll(cmd, build)
		},
	}
	c.Flags().StringVar(&at, "time", "now", "prepared objects with a deadline below this `time` are given up")
	c.Flags().Uint64Var(&m.Limit, "limit", 1000, "at most this many slices and objects, 1 to 1000")
	c.Flags().BoolVar(&all, "all", false, "again and again until nothing is left")
	a.writes(c)
	exclusive(c, "all", "dry-run")
	return c
}

func (a *app) reclaimAll(cmd *cobra.Command, build func(context.Context, *cluster) (*headwaterv1.Command, error)) error {
	return a.with(cmd, toWrite, func(ctx context.Context, c *cluster) error {
		for {
			command, err := build(ctx, c)
			if err != nil {
				return err
			}
			answer, err := proposeAlone(ctx, c, command)
			if err != nil {
				return err
			}
			if err := a.printAnswer("", answer); err != nil || answer.GetStatus() == headwaterv1.Answer_REDUNDANT {
				return err
			}
		}
	})
}

func (a *app) objectForget() *cobra.Command {
	return a.writes(&cobra.Command{
		Use: "forget OBJECT...", Short: "Remove deletable objects, after their bytes were deleted", Args: cobra.MinimumNArgs(1),
		Example: "  headwater object forget 1 2 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs("object", args)
			if err != nil {
				return err
			}
			return a.proposeOne(cmd, func(context.Context, *cluster) (*headwaterv1.Command, error) {
				return &headwaterv1.Command{Command: &headwaterv1.Command_ForgetObjects{
					ForgetObjects: &headwaterv1.ForgetObjects{ObjectIds: ids}}}, nil
			})
		},
	})
}
