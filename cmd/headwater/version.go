package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Show the version of this program, of Go and of SQLite", Args: cobra.NoArgs,
		Example: "  headwater version",
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return json.NewEncoder(a.out).Encode(map[string]string{
					"version": version(), "go": runtime.Version(), "sqlite": sqliteVersion(),
					"platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			fmt.Fprintf(a.out, "headwater %s\n%s %s/%s\nsqlite %s\n", version(), runtime.Version(), runtime.GOOS,
				runtime.GOARCH, sqliteVersion())
			return nil
		},
	}
	a.formats(c)
	return c
}

// version is the version of the module, or of the commit where it was built from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+changes"
			}
		}
	}
	if revision == "" {
		return "(devel)"
	}
	return revision + modified
}
