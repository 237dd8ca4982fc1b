package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// valuesNote is where a flag keeps the values that it takes.
const valuesNote = "headwater_values"

// complete says which values a flag takes: shells complete them, and errors name them.
func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	_ = c.Flags().SetAnnotation(flag, valuesNote, values)
}

// labelsFlag gives a command the flag --label.
func labelsFlag(c *cobra.Command, labels *map[string]string, usage string) {
	c.Flags().StringToStringVar(labels, "label", nil, usage)
	c.Flags().Lookup("label").DefValue = "" // not shown
}

// exclusive refuses more than one of the flags on a command line.
func exclusive(c *cobra.Command, flags ...string) {
	c.MarkFlagsMutuallyExclusive(flags...) // for completion; its error would come after this one
	check(c, func() error {
		var given []string
		for _, f := range flags {
			if c.Flags().Changed(f) {
				given = append(given, "--"+f)
			}
		}
		if len(given) > 1 {
			return usagef("%s exclude each other", strings.Join(given, " and "))
		}
		return nil
	})
}

// check adds what is looked at on a command line before anything is done.
func check(c *cobra.Command, fault func() error) {
	before := c.PreRunE
	c.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := fault(); err != nil {
			return err
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

// flagError says what a flag takes, where it was given something else.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		err = fmt.Errorf("--%s takes %s, not %q", invalid.GetFlag().Name, takes(invalid.GetFlag()), invalid.GetValue())
	}
	return asUsage(err)
}

// takes names the values of a flag.
func takes(f *pflag.Flag) string {
	if values := f.Annotations[valuesNote]; len(values) > 0 {
		last := len(values) - 1
		return strings.Join(values[:last], ", ") + " or " + values[last]
	}
	switch t := f.Value.Type(); t {
	case "int":
		return "a whole number"
	case "uint32", "uint64":
		return "a whole number from 0"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration, for example 30s"
	case "stringToString":
		return "NAME=VALUE"
	default:
		return t
	}
}

// explainArguments makes a command say what it takes, where it was given something else.
func explainArguments(c *cobra.Command) {
	judge := c.Args
	c.SuggestionsMinimumDistance = 2
	c.Args = func(cmd *cobra.Command, args []string) error {
		if judge(cmd, args) == nil {
			return nil
		}
		if cmd.HasSubCommands() {
			hint := cmd.CommandPath() + " --help tells more"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + cmd.CommandPath() + " " + near[0] + "? " + hint
			}
			return &exitError{code: exitUsage, err: fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()), hint: hint}
		}
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		_, wanted, ok := strings.Cut(cmd.Use, " ")
		if !ok && strings.Contains(args[0], ":") { // it may hold a password
			return usagef("%s takes no arguments; --db or --server goes before what it is to work on", name)
		}
		if !ok {
			return usagef("%s takes no arguments, not even %q", name, args[0])
		}
		return usagef("%s takes %s; there were %d arguments", name, wanted, len(args))
	}
}

// plainUsage takes the marks out of the texts of all flags, for shells that show them as they stand.
func plainUsage(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	for _, sub := range c.Commands() {
		plainUsage(sub)
	}
}
