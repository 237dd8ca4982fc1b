package api_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/headwaterdb/headwater/api"
	pb "github.com/headwaterdb/headwater/api/headwater/v1"
	"github.com/headwaterdb/headwater/meta"
)

// TestCommandsPage holds docs/commands.md to the truth: its examples run from top to bottom, it names every field of every
// command, and its table of codes is ours.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	state := meta.NewState()
	shown := map[meta.Kind]bool{}
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		p, err := api.UnmarshalCommand([]byte(line))
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
			continue
		}
		row, err := meta.AppendProposal(nil, p)
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
			continue
		}
		next, answers, err := state.Apply(state.Index()+1, [][]byte{row})
		if err != nil {
			t.Fatal(err)
		}
		if answers[0].Err != nil {
			t.Errorf("line %d: %v\n%s", i+1, answers[0].Err, line)
		}
		state, shown[meta.KindOf(p.Command)] = next, true
	}
	commands := (&pb.Command{}).ProtoReflect().Descriptor().Oneofs().ByName("command").Fields()
	for i := range commands.Len() {
		command := commands.Get(i)
		_, section, found := strings.Cut(text, "\n### "+command.JSONName()+"\n")
		if !found {
			t.Errorf("%s has no section", command.JSONName())
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		section, _, _ = strings.Cut(section, "\n### ")
		for j := range command.Message().Fields().Len() {
			if name := command.Message().Fields().Get(j).JSONName(); !strings.Contains(section, "`"+name+"`") {
				t.Errorf("the section of %s does not name %s", command.JSONName(), name)
			}
		}
	}
	for _, k := range meta.Kinds() {
		if !shown[k] {
			t.Errorf("%s has no example", k)
		}
		if commands.ByJSONName(k.String()) == nil {
			t.Errorf("%s has another name in the API", k)
		}
	}
	for _, c := range meta.Codes() {
		row := fmt.Sprintf("| %s | %s |", c, api.StatusOf(&meta.Error{Code: c}))
		if !strings.Contains(text, row) {
			t.Errorf("the table of codes lacks %s", row)
		}
	}
	kinds := pb.Failure_KIND_UNSPECIFIED.Descriptor().Values()
	for i := range kinds.Len() {
		if name := kinds.Get(i).Name(); i > 0 && !strings.Contains(text, string(name)) {
			t.Errorf("the page does not name the failure %s", name)
		}
	}
}
