package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/headwaterdb/headwater/api"
	"github.com/headwaterdb/headwater/meta"
)

// maxLine is the longest line in bytes. The largest command is 1 MiB in the log; in JSON it takes several times that.
const maxLine = 16 << 20

// blockLines is how many lines share a client of requests: as many as a client may have in flight.
const blockLines = 256

// inputLine is one line of the input that is not blank.
type inputLine struct {
	number   int // from 1
	bytes    int
	proposal meta.Proposal
	refused  *meta.Error // why the line is no command; nil where it is one
}

// lineReader reads commands from JSON lines, and gives each a request that depends on nothing but the identity of the
// input and the place of the line in it.
type lineReader struct {
	r        *bufio.Reader
	identity [32]byte
	number   int
	buf      []byte
}

func newLineReader(r io.Reader, identity [32]byte) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 1<<20), identity: identity}
}

// next returns the next line that is not blank; io.EOF at the end.
func (l *lineReader) next() (inputLine, error) {
	for {
		raw, n, tooLong, err := l.read()
		if err != nil && (err != io.EOF || n == 0) {
			return inputLine{}, err
		}
		l.number++
		line := inputLine{number: l.number, bytes: n}
		if tooLong {
			line.refused = refusedLine(l.number, meta.CodeTooLarge, fmt.Sprintf("longer than %d bytes", maxLine))
			return line, nil
		}
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue
		}
		p, err := api.UnmarshalCommand(raw)
		if err != nil {
			line.refused = refusedLine(l.number, meta.CodeInvalidArgument, complaint(err))
			return line, nil
		}
		ensureRequest(&p, l.request())
		line.proposal = p
		return line, nil
	}
}

// read returns one line without its end, valid until the next call, and how many bytes it took from the input. Of a
// line that is too long nothing is kept.
func (l *lineReader) read() (line []byte, n int, tooLong bool, err error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		n += len(part)
		if n > maxLine {
			tooLong, l.buf = true, l.buf[:0]
		} else {
			l.buf = append(l.buf, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.buf, n, tooLong, err
		}
	}
}

// request is that of the line just read: the client stands for a block of lines, the sequence for the place in it. So
// the same input gives the same requests again, and what a killed run has done is answered as redundant.
func (l *lineReader) request() *meta.Request {
	place := l.number - 1
	h := sha256.New()
	h.Write([]byte("headwater apply: client of a block\x00"))
	h.Write(l.identity[:])
	_ = binary.Write(h, binary.BigEndian, uint64(place/blockLines)) // a hash takes everything
	return &meta.Request{Client: [16]byte(h.Sum(nil)), Sequence: uint64(place%blockLines) + 1, Oldest: 1}
}

func refusedLine(number int, code meta.Code, why string) *meta.Error {
	return &meta.Error{Code: code, Message: fmt.Sprintf("line %d: %s", number, why), Inner: -1}
}

// complaint is what is wrong with a line, without the code that stands beside it.
func complaint(err error) string {
	var e *meta.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
