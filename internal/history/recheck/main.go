// Recheck judges a history once more that a test has kept, and says what is wrong with it:
//
//	go run ./internal/history/recheck FOLDER
//
// It writes Porcupine's pictures anew, and ends with exit code 1 where the history is not as it should be.
package main

import (
	"fmt"
	"os"

	"github.com/headwaterdb/headwater/internal/history"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: recheck FOLDER")
		os.Exit(2)
	}
	ok, err := recheck(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// recheck judges the history in a folder.
func recheck(dir string) (ok bool, err error) {
	h, err := history.Load(dir)
	if err != nil {
		return false, err
	}
	r := history.Check(h, 0)
	fmt.Printf("seed %d: %s\n", h.Seed, r)
	for _, f := range r.Faults {
		fmt.Println("fault:", f)
	}
	return r.OK(), history.Save(dir, h, r)
}
