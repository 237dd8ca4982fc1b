package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is one run of the program: where it talks, and the flags that all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer

	server  []string      // --server
	db      string        // --db
	output  string        // --output
	timeout time.Duration // --timeout
	fresh   bool          // --fresh
	atLeast uint64        // --at-least

	started bool // a command has begun to run: what fails from here on is not a mistake in the command line
}

// exec runs one command line and returns its exit code.
func exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	a := &app{in: stdin, out: out, err: stderr}
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		plainUsage(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.started {
		err = asUsage(err)
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("write output: %w", out.err)
	}
	var e *exitError
	if errors.As(err, &e) && e.code == exitUsage && e.hint == "" {
		e.hint = cmd.CommandPath() + " --help tells more"
	}
	return report(stderr, err)
}

const rootLong = `Headwater keeps the metadata of a stream storage cluster: its nodes, streams, objects, transfers and keys.

Commands talk to a server (--server URL) or work straight on a database (--db sqlite:PATH,
--db postgres://USER@HOST/DATABASE or --db mysql://USER@HOST/DATABASE); several processes may share one database.
Without either flag HEADWATER_SERVER and then HEADWATER_DB are looked at, and last
` + defaultServer + ` is tried.

Every flag can be given in the environment: --some-flag is HEADWATER_SOME_FLAG. A flag on the command line wins. A
database's address on the command line can be seen by other users of the machine; in the environment it cannot.

Data goes to standard output and everything else to standard error. With -o json records have the field names of the
API; lists are JSON lines, one record a line.

Exit codes:
  0  done
  1  refused by the rules, not found, or check found faults
  2  the command line is wrong
  3  unavailable, halted, or the outcome is not known`

const rootExample = `  headwater serve
  headwater apply commands.jsonl
  headwater status
  headwater stream list --db sqlite:headwater.db -o json`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "headwater",
		Short:         "Metadata plane for stream storage on object storage",
		Long:          rootLong,
		Example:       rootExample,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.CompletionOptions.DisableDescriptions = false
	root.Version = version()
	root.SetVersionTemplate("headwater {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "nouns", Title: "Look and change:"},
		&cobra.Group{ID: "care", Title: "Care:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("run", a.serveCommand(), a.initCommand(), a.applyCommand())
	add("nouns", a.nodeCommand(), a.streamCommand(), a.objectCommand(), a.transferCommand(), a.keyCommand(), a.formatCommand())
	add("care", a.statusCommand(), a.logCommand(), a.exportCommand(), a.snapshotCommand(), a.checkCommand(), a.restoreCommand(), a.benchCommand(), a.versionCommand())
	root.SetHelpCommandGroupID("care")
	root.SetCompletionCommandGroupID("care")
	a.adopt(root)
	return root
}

// adopt makes every command below c read its flags from the environment, and notes when it begins to run.
func (a *app) adopt(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd.Flags()); err != nil {
				return asUsage(err)
			}
			a.started = true
			return run(cmd, args)
		}
	}
	explainArguments(c)
	if !c.HasSubCommands() && c.ValidArgsFunction == nil && !strings.Contains(c.Use, "FILE") {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		a.adopt(sub)
	}
}

// variable returns the environment variable that stands for a flag.
func variable(flag string) string {
	return "HEADWATER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that were not given on the command line and stand in the environment.
func fromEnvironment(flags *pflag.FlagSet) error {
	var first error
	// One of the two on the command line leaves the other in the environment without a say. Where both stand in the
	// environment, open decides.
	given := map[string]bool{"server": flags.Changed("db"), "db": flags.Changed("server")}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "version" || first != nil {
			return
		}
		if f.Name == "db" || f.Name == "timeout" {
			// Commands share these variables and differ in their defaults: what stands there is another command's.
			_ = f.Value.Set(f.DefValue)
		}
		if given[f.Name] {
			return
		}
		value, ok := os.LookupEnv(variable(f.Name))
		if !ok || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			// The value may be a secret: it is not repeated.
			first = fmt.Errorf("%s does not fit: --%s takes %s", variable(f.Name), f.Name, takes(f))
		}
	})
	return first
}

// noun makes a command that only holds others.
func noun(use, short, example string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("%s needs a verb", cmd.CommandPath())
		},
	}
	c.AddCommand(verbs...)
	return c
}
