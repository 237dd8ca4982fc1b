package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/headwaterdb/headwater/api"
)

// output is standard output that remembers the first error: what could not be written is no success, whoever wrote it.
type output struct {
	w   io.Writer
	err error
}

// Write is io.Writer's.
func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// printJSON writes a message in the JSON form of the API, on one line.
func (a *app) printJSON(m proto.Message) error { return writeJSON(a.out, m) }

func writeJSON(w io.Writer, m proto.Message) error {
	line, err := api.MarshalJSON(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// column is one column of a table of records of type T.
type column[T any] struct {
	name string
	cell func(T) string
}

// printer writes records: as a table for people, or as JSON lines.
type printer[T proto.Message] struct {
	out     io.Writer
	json    bool
	columns []column[T]
	tab     *tabwriter.Writer
	rows    int
}

func newPrinter[T proto.Message](a *app, columns []column[T]) *printer[T] {
	return &printer[T]{out: a.out, json: a.output == "json", columns: columns}
}

// linesPerTable is after how many records columns are aligned anew, so that a long list needs no memory.
const linesPerTable = 1000

// add writes one record of a list.
func (p *printer[T]) add(record T) error {
	if p.json {
		return writeJSON(p.out, record)
	}
	if p.tab == nil {
		p.tab = tabwriter.NewWriter(p.out, 0, 8, 2, ' ', 0)
		names := make([]string, len(p.columns))
		for i, c := range p.columns {
			names[i] = strings.ToUpper(c.name)
		}
		fmt.Fprintln(p.tab, strings.Join(names, "\t"))
	}
	cells := make([]string, len(p.columns))
	for i, c := range p.columns {
		cells[i] = orDash(c.cell(record))
	}
	fmt.Fprintln(p.tab, strings.Join(cells, "\t"))
	if p.rows++; p.rows%linesPerTable == 0 {
		return p.tab.Flush()
	}
	return nil
}

// close ends a list.
func (p *printer[T]) close() error {
	if p.tab == nil {
		return nil
	}
	return p.tab.Flush()
}

// show writes a single record: one field a line.
func (p *printer[T]) show(record T) error {
	if p.json {
		return p.add(record)
	}
	tab := tabwriter.NewWriter(p.out, 0, 8, 2, ' ', 0)
	for _, c := range p.columns {
		fmt.Fprintf(tab, "%s\t%s\n", c.name, orDash(c.cell(record)))
	}
	return tab.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// text makes s fit into a cell: quoted where it holds anything that would not print.
func text(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// content shows opaque bytes: as text where they are, cut where they are many.
func content(b []byte) string {
	const most = 48
	if len(b) > most {
		return fmt.Sprintf("%s… (%d bytes)", text(string(b[:most])), len(b))
	}
	return text(string(b))
}

func number[N uint32 | uint64 | int64 | int](n N) string { return fmt.Sprint(n) }

// numberOrNone shows 0 as nothing.
func numberOrNone[N uint32 | uint64 | int64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func labels(m map[string]string) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = text(name) + "=" + text(m[name])
	}
	return strings.Join(names, ",")
}

// moment shows milliseconds since 1970.
func moment(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// size shows a number of bytes for people.
func size(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// lineWriter writes many JSON lines through one buffer.
type lineWriter struct{ w *bufio.Writer }

func newLineWriter(w io.Writer) *lineWriter { return &lineWriter{bufio.NewWriterSize(w, 64<<10)} }

func (l *lineWriter) message(m proto.Message) error {
	line, err := api.MarshalJSON(m)
	if err != nil {
		return err
	}
	return l.line(line)
}

func (l *lineWriter) line(b []byte) error {
	if _, err := l.w.Write(b); err != nil {
		return err
	}
	return l.w.WriteByte('\n')
}

func (l *lineWriter) flush() error { return l.w.Flush() }

// counted is a number of things in words: 1 fault, 2 faults.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
