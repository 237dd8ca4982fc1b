// Package model is a second, naive implementation of the state machine of package meta, written from the table of
// commands alone: plain maps and slices, a full copy of everything for each command, every question answered by a walk
// over all there is. It exists so that tests can run the same commands through both and compare; nothing else imports
// it, and nothing in it is fast.
//
// It shares with meta the types of commands, answers and records, and the encoding of a command where two payloads are
// compared; it shares no rule. Where both differ, one of them has misread the table, or the table has two readings.
//
// Start reading at model.go, then one file for each noun.
package model
