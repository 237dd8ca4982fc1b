// Command mutants puts small faults into the code, one at a time, and shows that the evidence notices.
//
// A mutant (faults/*.txt) is a text that stands once in one file of the product, another text in its place, and the
// hazard that it stands for. It is compiled with `go test -overlay`, so what is shipped stays as it is. The evidence
// (evidence.go) are tests that know nothing of mutants: the simulation, the comparison with the independent model,
// the conformance suite of logs, the suites of the engine and of the state machine.
//
//	go run ./internal/mutants              the evidence without a mutant, and then against all of them
//	go run ./internal/mutants NAME…        against some of them
//	go run ./internal/mutants -control     only without
//
// Each run brings its lines of docs/verification/mutants.md up to date.
//
// It is no part of the product, and nothing imports it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	faultsDir = "internal/mutants/faults"
	tableFile = "docs/verification/mutants.md"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	control := flags.Bool("control", false, "run the evidence without a mutant")
	jobs := flags.Int("j", 2, "how many mutants are tried at once")
	only := flags.String("only", "", "the one check to run, by its name")
	flags.DurationVar(&patience, "patience", patience, "how long one check may go on before it is said to hang")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	all, err := load(filepath.Join(root, faultsDir))
	if err != nil {
		return err
	}
	chosen := all
	if flags.NArg() > 0 {
		chosen = slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !slices.Contains(flags.Args(), m.name) })
		if len(chosen) != flags.NArg() {
			return fmt.Errorf("%d of %s are no mutants", flags.NArg()-len(chosen), strings.Join(flags.Args(), ", "))
		}
	}
	checks := slices.DeleteFunc(slices.Clone(evidence), func(c check) bool { return *only != "" && c.name != *only })
	if len(checks) == 0 {
		return fmt.Errorf("%q is no check", *only)
	}
	page, err := os.ReadFile(filepath.Join(root, tableFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	known, sentence := tails(string(page), all)
	if flags.NArg() == 0 || *control {
		v, err := judge(ctx, root, checks)
		switch {
		case err != nil:
			return err
		case v.caught != "":
			return fmt.Errorf("without a mutant %s fails: %s\n%s", v.caught, v.test, v.message)
		}
		sentence = controlOf(v)
		fmt.Println(sentence)
	}
	if *control {
		chosen = nil
	}
	verdicts, failure := judgeAll(ctx, root, checks, chosen, *jobs)
	var survivors []string
	for name, v := range verdicts {
		delete(known, name)
		if v.caught != "" {
			known[name] = tailOf(v)
		} else {
			survivors = append(survivors, name)
		}
	}
	if survivors != nil {
		slices.Sort(survivors)
		failure = errors.Join(failure, fmt.Errorf("%d of %d survive: %s", len(survivors), len(chosen), strings.Join(survivors, ", ")))
	}
	return errors.Join(failure, os.WriteFile(filepath.Join(root, tableFile), []byte(table(all, known, sentence)), 0o666))
}

// judgeAll tries mutants, some at once, and prints each verdict as it comes.
func judgeAll(ctx context.Context, root string, checks []check, mutants []mutant, jobs int) (map[string]verdict, error) {
	var (
		mu       sync.Mutex // guards the rest
		verdicts = map[string]verdict{}
		failures []error
		wg       sync.WaitGroup
		slots    = make(chan struct{}, max(jobs, 1))
	)
	for _, m := range mutants {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			v, err := judge(ctx, root, checks, m)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				verdicts[m.name] = v
			}
			switch {
			case err != nil:
				failures = append(failures, fmt.Errorf("%s: %w", m.name, err))
				fmt.Printf("%-28s %v\n", m.name, err)
			case v.caught == "":
				fmt.Printf("%-28s SURVIVES after %v\n", m.name, v.took.Round(time.Second))
			default:
				fmt.Printf("%-28s caught by %s, %s, in %v\n", m.name, v.caught, v.test, v.took.Round(time.Second))
			}
		})
	}
	wg.Wait()
	return verdicts, errors.Join(failures...)
}

// moduleRoot is the folder of go.mod, here or above.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no go.mod here or above")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
