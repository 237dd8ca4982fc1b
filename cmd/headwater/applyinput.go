package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// input is an opened FILE or standard input.
type input struct {
	io.Reader
	io.Closer
	size     int64 // 0: not known
	identity [32]byte
}

func (a *app) openInput(file, run string) (*input, error) {
	in := &input{Reader: a.in, Closer: io.NopCloser(nil)}
	var whole io.Reader
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usagef("open input: %w", err)
		}
		in.Reader, in.Closer = f, f
		st, err := f.Stat()
		if err != nil || st.IsDir() {
			return nil, firstError(usagef("open input: %s is a directory", file), f.Close())
		}
		if st.Mode().IsRegular() {
			in.size, whole = st.Size(), f
		}
	}
	if whole == nil && run == "" {
		_, _ = rand.Read(in.identity[:]) // never fails
		return in, nil
	}
	var err error
	if in.identity, err = inputIdentity(whole, run); err != nil {
		return nil, unavailable(fmt.Errorf("read input: %w", err), "")
	}
	if f, ok := in.Reader.(*os.File); ok && whole != nil {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, unavailable(fmt.Errorf("read input: %w", err), "")
		}
	}
	return in, nil
}

// inputIdentity is the identity of an input: what is in it, and the name of the run, where one was given.
func inputIdentity(r io.Reader, run string) (id [32]byte, err error) {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, uint64(len(run)))
	h.Write([]byte(run))
	if r != nil {
		if _, err := io.Copy(h, r); err != nil {
			return id, err
		}
	}
	return [32]byte(h.Sum(nil)), nil
}
