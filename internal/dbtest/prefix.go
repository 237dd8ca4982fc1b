package dbtest

import (
	"crypto/rand"
	"encoding/hex"
)

// Prefix returns a table prefix that no other test uses.
func Prefix() string {
	b := make([]byte, 6)
	rand.Read(b) // never fails
	return "t" + hex.EncodeToString(b)
}
